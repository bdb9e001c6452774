//! A component's tool as the core sees it. One call: a place in the queue, a fresh store with the tool's grants, one race
//! against time and interrupt; everything is dropped on the way out, whichever way that is.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use hames_core::tool::{Invocation, Tool};
use hames_core::types::{Effect, FailureKind, ToolFailure, ToolOutput, ToolSpec};
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::bindings::hames::tool::types as wit;
use crate::error::CallError;
use crate::grants::{Denial, Grants};
use crate::host;
use crate::output;
use crate::plugin::Shared;
use crate::run::{self, Phase};
use crate::state::CallFacts;

/// One tool of one plugin with the grants of its effect.
pub(crate) struct ComponentTool {
    pub(crate) plugin: Arc<Shared>,
    pub(crate) spec: Arc<ToolSpec>,
    pub(crate) name: Arc<str>,
    /// Narrowed to the claimed effect, so that the claim is true.
    pub(crate) grants: Arc<Grants>,
}

type Answer = Result<wit::ToolOutput, wit::ToolError>;

#[async_trait]
impl Tool for ComponentTool {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    fn effect(&self) -> Effect {
        // The grants were narrowed to the claim and cannot do more than it says.
        self.spec.effect
    }

    fn origin(&self) -> &str {
        &self.plugin.name
    }

    async fn call(&self, invocation: Invocation) -> Result<ToolOutput, ToolFailure> {
        match self.run(&invocation).await {
            Ok((answer, denials)) => output::convert(&self.name, answer, &self.plugin.limits)
                .map_err(|failure| explain(failure, &denials)),
            Err(error) => {
                let plugin = &*self.plugin.name;
                let call = invocation.call_id.as_str();
                tracing::debug!(plugin, tool = &*self.name, call, "the call ended without a result: {error}");
                Err(error.into_failure(&self.name))
            }
        }
    }
}

impl ComponentTool {
    async fn run(&self, invocation: &Invocation) -> Result<(Answer, Vec<Denial>), CallError> {
        let fence = &invocation.context.fence;
        if let Some(reason) = fence.raised() {
            return Err(CallError::Interrupted { reason });
        }
        let plugin = &*self.plugin;
        let inner = &*plugin.code.sandbox.inner;
        let limits = &plugin.limits;
        // Free places and ready code are taken without a race: that is the usual case, and registering with the fence
        // costs as much as the rest of this function.
        let _places = match (plugin.places.try_acquire(), inner.calls.try_acquire()) {
            (Ok(own), Ok(shared)) => (own, shared),
            _ => {
                // The plugin's own queue first, so that one busy plugin does not hold places that others could use.
                let queue = async {
                    let own = wait_for_place(&plugin.places, limits.queue_ms).await?;
                    Ok((own, wait_for_place(&inner.calls, limits.queue_ms).await?))
                };
                fence.race(queue).await.map_err(|reason| CallError::Interrupted { reason })??
            }
        };
        let component = match plugin.code.linked.get() {
            Some(component) => component,
            None => fence
                .race(plugin.code.ready())
                .await
                .map_err(|reason| CallError::Interrupted { reason })??,
        };

        let deadline = run::deadline(limits);
        let facts = CallFacts {
            plugin: Arc::clone(&plugin.name),
            tool: Arc::clone(&self.name),
            deadline,
            fence: Some(fence.clone()),
            config_json: Arc::clone(&plugin.config_json),
        };
        let mut store = run::store(inner, &self.grants, limits, facts, invocation.call_id.as_str())?;
        let _running = inner.engine.running();
        let request = wit::Invocation {
            call_id: invocation.call_id.as_str().to_owned(),
            tool: self.spec.name.clone(),
            arguments: invocation.arguments_json.to_string(),
        };
        let work = async {
            let instance =
                component.instantiate_async(&mut store).await.map_err(|e| (Phase::Instantiate, e))?;
            instance.hames_tool_tool().call_call(&mut store, &request).await.map_err(|e| (Phase::Call, e))
        };
        let outcome = run::race(work, deadline, Some(fence)).await;
        let denials = host::report(store.data_mut());
        match outcome {
            Err(cut) => Err(run::cut(&cut, limits)),
            Ok(Err((phase, error))) => Err(run::classify(error, phase, &store.data().meter)),
            Ok(Ok(answer)) => {
                let over = store.data_mut().meter.check();
                over.map_err(|_| CallError::HostCallLimit { limit: limits.host_calls })?;
                Ok((answer, denials))
            }
        }
    }
}

/// A refusal tells the operator which line would allow it. The guest itself only learnt `denied`.
fn explain(failure: ToolFailure, denials: &[Denial]) -> ToolFailure {
    if failure.kind != FailureKind::Denied || failure.hint.is_some() {
        return failure;
    }
    match denials.iter().find_map(|denial| denial.line_that_would_allow.as_deref()) {
        Some(line) => failure.with_hint(format!("the operator can allow it:\n{line}")),
        None => failure,
    }
}

async fn wait_for_place(places: &Semaphore, queue_ms: u64) -> Result<SemaphorePermit<'_>, CallError> {
    match tokio::time::timeout(Duration::from_millis(queue_ms), places.acquire()).await {
        Ok(Ok(permit)) => Ok(permit),
        Ok(Err(_)) => Err(CallError::NotReady { reason: "the sandbox is shut down".to_owned() }),
        Err(_) => Err(CallError::QueueTimeout { limit_ms: queue_ms }),
    }
}
