//! What a tool is, what a call returns, and the closed list of ways in which a call fails.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The worst thing that a call can do. Ordered: `Read < Write < External`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Effect {
    /// Reads only.
    Read,
    /// Changes state inside the workspace or the plugin's own store.
    Write,
    /// Reaches outside: network, messages, money.
    External,
}

impl Effect {
    /// The word used in files, events and messages.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::External => "external",
        }
    }
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What the model and the operator are told about a tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolSpec {
    /// `[a-z][a-z0-9_]*`, at most 64 bytes, unique in a registry.
    pub name: String,
    /// For people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// For the model: when to use it and what it returns.
    pub description: String,
    /// JSON Schema (type object) of the arguments.
    pub parameters: Value,
    /// JSON Schema of the JSON part of the output, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Value>,
    /// The worst that a call can do, as the tool claims; see [`crate::tool::Tool::effect`] for what is enforced.
    pub effect: Effect,
    /// Calling it twice with the same arguments is the same as calling it once.
    pub idempotent: bool,
    /// May run beside other calls of the same iteration.
    pub parallel: bool,
    /// Open-ended hints such as `polls`; unknown keys are ignored.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub hints: BTreeMap<String, Value>,
}

/// What a successful call returns, in reading order.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ToolOutput {
    /// The pieces of the result.
    pub parts: Vec<Part>,
}

impl ToolOutput {
    /// A result of one text part.
    pub fn text(text: impl Into<String>) -> Self {
        Self { parts: vec![Part::Text(text.into())] }
    }

    /// Size of all parts in bytes.
    pub fn size_bytes(&self) -> usize {
        self.parts.iter().map(Part::size_bytes).sum()
    }
}

/// A piece of a result.
#[derive(Debug, Clone, PartialEq)]
pub enum Part {
    /// For the model to read.
    Text(String),
    /// The same result for programs: a JSON document, kept as text so that it is parsed only by who needs it.
    Json(String),
    /// Bytes with a media type.
    Blob {
        /// As in `image/png`.
        media_type: String,
        /// A file name, where there is one.
        name: Option<String>,
        /// The bytes themselves.
        bytes: Vec<u8>,
    },
}

impl Part {
    fn size_bytes(&self) -> usize {
        match self {
            Self::Text(text) | Self::Json(text) => text.len(),
            Self::Blob { bytes, .. } => bytes.len(),
        }
    }
}

/// Why a call has no output. Closed: the loop and the guards decide by kind, never by message text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum FailureKind {
    /// The argument text is not JSON (cut off, malformed): nothing was run.
    MalformedArguments,
    /// The arguments do not match the schema, or make no sense to the tool.
    InvalidArguments,
    /// No tool of that name is in the agent's scope.
    UnknownTool,
    /// What was asked for does not exist.
    NotFound,
    /// A grant, policy or the remote side refused. Nothing was done.
    Denied,
    /// A person was asked and said no, or nobody could be asked.
    NotApproved,
    /// A budget does not allow the call.
    OverBudget,
    /// Credentials are missing or no longer valid: a person has to act.
    Unauthorized,
    /// Nothing happened; it may work later.
    Unavailable {
        /// When to try again, if known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry_after_ms: Option<u64>,
    },
    /// It may have happened; the host never repeats such a call by itself.
    OutcomeUnknown,
    /// A limit stopped the call.
    Limit {
        /// The configuration key that set the limit, such as `limits.memory_bytes`.
        key: String,
    },
    /// The tool broke: a trap, a bad result, a panic.
    Crashed,
    /// The turn was interrupted before or while the call ran.
    Interrupted,
    /// Anything else that the tool reported.
    Other,
}

/// A failure that goes back to the model; it never ends the turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct ToolFailure {
    /// What kind of failure this is.
    #[serde(flatten)]
    pub kind: FailureKind,
    /// For the model and for people; names what was being done to what.
    pub message: String,
    /// What the model or the operator can do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl ToolFailure {
    /// A failure without a hint.
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), hint: None }
    }

    /// Adds what the reader can do.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// How a call ended, without its payload: for events and the transcript.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "outcome")]
pub enum CallOutcome {
    /// There is an output.
    Succeeded,
    /// There is a failure of this kind.
    Failed {
        /// Which one.
        failure: FailureKind,
    },
}
