//! Identifiers as newtypes, so that a call id is never passed where a session id belongs.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Wraps the text as it is.
            pub fn new(text: impl Into<Arc<str>>) -> Self {
                Self(text.into())
            }

            /// The text of the id.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({:?})", stringify!($name), &*self.0)
            }
        }
    };
}

text_id! {
    /// One agent's history across turns; names the transcript on disk.
    SessionId
}
text_id! {
    /// One turn: from a user message to its final text.
    TurnId
}
text_id! {
    /// One tool call, unique within its session. The same id stands in history, events and transcript.
    CallId
}
text_id! {
    /// Where in the tree of agents something happened: `root`, `root/researcher`, …
    AgentPath
}

impl AgentPath {
    /// The path of the agent that the user talks to.
    pub fn root() -> Self {
        Self::new("root")
    }
}
