//! The ways in which a call ends without a result, each with the configuration key that set the limit, and what the model
//! is told about it.

use hames_core::fence::FenceReason;
use hames_core::types::{FailureKind, ToolFailure};

/// Limits on how many of something a call may instantiate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CountedLimit {
    /// `limits.plugin.instances`.
    Instances,
    /// `limits.plugin.memories`.
    Memories,
    /// `limits.plugin.tables`.
    Tables,
}

impl CountedLimit {
    /// What is counted, for messages.
    pub fn noun(self) -> &'static str {
        match self {
            Self::Instances => "module instances",
            Self::Memories => "memories",
            Self::Tables => "tables",
        }
    }
}

/// Why a call has no result.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The wall clock ran out, computing or waiting.
    #[error("ran longer than {limit_ms} ms")]
    Timeout {
        /// The limit.
        limit_ms: u64,
    },
    /// The fuel ran out.
    #[error("used up its {limit} units of fuel")]
    OutOfFuel {
        /// The limit.
        limit: u64,
    },
    /// All memories together would have grown over the limit.
    #[error("needs more than {limit_bytes} bytes of memory")]
    MemoryLimit {
        /// The limit.
        limit_bytes: u64,
    },
    /// All tables together would have grown over the limit.
    #[error("needs more than {limit} table elements")]
    TableLimit {
        /// The limit.
        limit: u64,
    },
    /// Too many instances, memories or tables.
    #[error("needs more than {limit} {}", what.noun())]
    InstanceLimit {
        /// Which ones.
        what: CountedLimit,
        /// The limit.
        limit: u32,
    },
    /// The result is too large.
    #[error("returned more than {limit_bytes} bytes")]
    OutputTooLarge {
        /// The limit.
        limit_bytes: u64,
    },
    /// One host call, or the result, copies more than the host takes.
    #[error("passed more than {limit_bytes} bytes to the host at once")]
    HostCallTooLarge {
        /// The limit.
        limit_bytes: u64,
    },
    /// Too many calls into the host.
    #[error("called the host more than {limit} times")]
    HostCallLimit {
        /// The limit.
        limit: u64,
    },
    /// All places were taken for too long; nothing was run.
    #[error("waited longer than {limit_ms} ms for a free place; nothing was run")]
    QueueTimeout {
        /// The limit.
        limit_ms: u64,
    },
    /// The pool has no free slot; nothing was run.
    #[error("found no free slot in the memory pool; nothing was run")]
    PoolExhausted {
        /// wasmtime's reason.
        cause: wasmtime::Error,
    },
    /// Too deep a recursion.
    #[error("used up its stack (a recursion without end?)")]
    StackOverflow,
    /// The guest's code failed.
    #[error("crashed: {reason}{}", first_frame(frames))]
    Trap {
        /// The trap, in words.
        reason: String,
        /// Names of the guest's functions, innermost first; at most eight.
        frames: Vec<String>,
    },
    /// What the guest returned is not a value of the interface: a length, pointer or tag is wrong.
    #[error("returned a malformed value: {reason}")]
    BadResult {
        /// What is wrong.
        reason: String,
    },
    /// A part marked as JSON is not JSON.
    #[error("part {part} of the result is not JSON: {reason}")]
    InvalidJson {
        /// Which part, from 0.
        part: usize,
        /// What is wrong.
        reason: String,
    },
    /// The guest ended its process instead of returning.
    #[error("called exit({code}) instead of returning a result")]
    Exited {
        /// The code.
        code: i32,
    },
    /// The turn was interrupted or ran out of time.
    #[error("was interrupted")]
    Interrupted {
        /// Which of both.
        reason: FenceReason,
    },
    /// The component could not be instantiated for another reason.
    #[error("could not be instantiated: {reason}")]
    Instantiation {
        /// wasmtime's reason.
        reason: String,
    },
    /// The compiled component is gone and could not be made again.
    #[error("could not be made ready: {reason}")]
    NotReady {
        /// Why.
        reason: String,
    },
}

fn first_frame(frames: &[String]) -> String {
    frames.first().map(|frame| format!(" in `{frame}`")).unwrap_or_default()
}

impl CallError {
    /// The configuration key of the limit that ended the call.
    pub fn key(&self) -> Option<&'static str> {
        Some(match self {
            Self::Timeout { .. } => "limits.plugin.wall_ms",
            Self::OutOfFuel { .. } => "limits.plugin.fuel",
            Self::MemoryLimit { .. } => "limits.plugin.memory_bytes",
            Self::TableLimit { .. } => "limits.plugin.table_elements",
            Self::InstanceLimit { what: CountedLimit::Instances, .. } => "limits.plugin.instances",
            Self::InstanceLimit { what: CountedLimit::Memories, .. } => "limits.plugin.memories",
            Self::InstanceLimit { what: CountedLimit::Tables, .. } => "limits.plugin.tables",
            Self::OutputTooLarge { .. } => "limits.plugin.output_bytes",
            Self::HostCallTooLarge { .. } => "limits.plugin.hostcall_bytes",
            Self::HostCallLimit { .. } => "limits.plugin.host_calls",
            Self::QueueTimeout { .. } => "limits.plugin.queue_ms",
            Self::StackOverflow => "engine.wasm_stack_bytes",
            Self::PoolExhausted { .. } => "engine.pool_memories",
            Self::Trap { .. }
            | Self::BadResult { .. }
            | Self::InvalidJson { .. }
            | Self::Exited { .. }
            | Self::Interrupted { .. }
            | Self::Instantiation { .. }
            | Self::NotReady { .. } => return None,
        })
    }

    fn kind(&self) -> FailureKind {
        match self {
            // Nothing was run: the same call may work a moment later.
            Self::QueueTimeout { .. } | Self::PoolExhausted { .. } => {
                FailureKind::Unavailable { retry_after_ms: None }
            }
            Self::Timeout { .. }
            | Self::OutOfFuel { .. }
            | Self::MemoryLimit { .. }
            | Self::TableLimit { .. }
            | Self::InstanceLimit { .. }
            | Self::OutputTooLarge { .. }
            | Self::HostCallTooLarge { .. }
            | Self::HostCallLimit { .. }
            | Self::StackOverflow => FailureKind::Limit { key: self.key().unwrap_or("limits").to_owned() },
            Self::Trap { .. }
            | Self::BadResult { .. }
            | Self::InvalidJson { .. }
            | Self::Exited { .. }
            | Self::Instantiation { .. } => FailureKind::Crashed,
            Self::NotReady { .. } => FailureKind::Other,
            Self::Interrupted { .. } => FailureKind::Interrupted,
        }
    }

    fn hint(&self) -> Option<String> {
        let advice = match self {
            Self::Timeout { .. } | Self::OutOfFuel { .. } => {
                "ask for less at a time; what it had already written stays"
            }
            Self::MemoryLimit { .. } | Self::TableLimit { .. } | Self::OutputTooLarge { .. } => {
                "ask for a smaller piece"
            }
            Self::HostCallTooLarge { .. } | Self::HostCallLimit { .. } => "ask for less at a time",
            Self::QueueTimeout { .. } | Self::PoolExhausted { .. } => "try again when other calls have ended",
            Self::InstanceLimit { .. } | Self::StackOverflow => "the plugin itself has to change",
            Self::Trap { .. } | Self::BadResult { .. } | Self::InvalidJson { .. } | Self::Exited { .. } => {
                return Some("this is a bug in the plugin; the next call starts afresh".to_owned());
            }
            Self::NotReady { .. } => return Some("load the plugin again".to_owned()),
            Self::Instantiation { .. } | Self::Interrupted { .. } => return None,
        };
        Some(match self.key() {
            Some(key) => format!("{advice}, or the operator raises `{key}`"),
            None => advice.to_owned(),
        })
    }

    /// What goes back to the model.
    pub(crate) fn into_failure(self, tool: &str) -> ToolFailure {
        ToolFailure { kind: self.kind(), message: format!("`{tool}` {self}"), hint: self.hint() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_names_its_key_in_kind_and_hint() {
        let failure = CallError::MemoryLimit { limit_bytes: 7 }.into_failure("grep");
        assert_eq!(failure.kind, FailureKind::Limit { key: "limits.plugin.memory_bytes".to_owned() });
        assert_eq!(failure.message, "`grep` needs more than 7 bytes of memory");
        assert!(failure.hint.is_some_and(|hint| hint.contains("limits.plugin.memory_bytes")));
    }

    #[test]
    fn a_trap_names_the_function() {
        let trap =
            CallError::Trap { reason: "integer divide by zero".to_owned(), frames: vec!["parse".to_owned()] };
        assert_eq!(trap.into_failure("calc").message, "`calc` crashed: integer divide by zero in `parse`");
    }
}
