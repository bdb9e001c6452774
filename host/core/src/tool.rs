//! The port to a tool: a component, a native function, later a subagent. The loop does not know which.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;

use crate::fence::Fence;
use crate::types::{AgentPath, CallId, Effect, SessionId, ToolFailure, ToolOutput, ToolSpec, TurnId};

/// One admitted call: the tool is known, the arguments match its schema, the gate said yes.
#[derive(Debug, Clone)]
pub struct Invocation {
    /// The call's id, as in history.
    pub call_id: CallId,
    /// The checked arguments: always a JSON object.
    pub arguments: Arc<Value>,
    /// The same as compact JSON text, for tools that pass it on.
    pub arguments_json: Arc<str>,
    /// What the call may know about its turn.
    pub context: CallContext,
}

/// The turn around a call, as far as a tool may see it.
#[derive(Debug, Clone)]
pub struct CallContext {
    /// The session.
    pub session_id: SessionId,
    /// The turn.
    pub turn_id: TurnId,
    /// The agent.
    pub agent: AgentPath,
    /// Raised when the turn is interrupted or out of time. The caller drops the call's future soon after, so a tool must
    /// be cancel-safe: dropping it stops everything that it started.
    pub fence: Fence,
}

/// Something that the model can call.
#[async_trait]
pub trait Tool: Send + Sync {
    /// What the model is told. Read once, when the registry is built.
    fn spec(&self) -> &Arc<ToolSpec>;

    /// The worst that a call can do as *enforced*, whatever the spec claims. The gate uses the worse of both.
    fn effect(&self) -> Effect;

    /// Who provides it: `native`, or the plugin's name. For messages and policy.
    fn origin(&self) -> &str;

    /// Runs one admitted call. Called at most once per call id, from many tasks at a time if the spec says `parallel`.
    /// A failure goes back to the model and never ends the turn.
    async fn call(&self, invocation: Invocation) -> Result<ToolOutput, ToolFailure>;
}
