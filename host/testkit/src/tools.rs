//! Tools that behave as a test wants them to.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use hames_core::tool::{Invocation, Tool};
use hames_core::types::{CallId, Effect, FailureKind, ToolFailure, ToolOutput, ToolSpec};
use serde_json::{Value, json};

use crate::locked;

/// What a call does.
#[derive(Debug, Clone)]
pub enum Behaviour {
    /// Returns its arguments as JSON text.
    Echo,
    /// Returns this.
    Output(ToolOutput),
    /// Fails with this.
    Fail(ToolFailure),
    /// Panics with these words.
    Panic(String),
    /// Never returns; only dropping ends it.
    Hang,
    /// Returns a failure once the fence is raised.
    UntilFence,
    /// Echoes after the given time, or after `ms` of its arguments if they have one.
    Sleep(Duration),
}

/// A tool that records its calls.
pub struct FakeTool {
    spec: Arc<ToolSpec>,
    effect: Effect,
    origin: String,
    behaviour: Behaviour,
    calls: Mutex<Vec<(CallId, Value)>>,
    running: AtomicUsize,
    most_at_once: AtomicUsize,
}

impl FakeTool {
    /// A sequential reader of that name that accepts any object.
    pub fn new(name: &str, behaviour: Behaviour) -> Self {
        let spec = ToolSpec {
            name: name.to_owned(),
            title: None,
            description: format!("the fake tool {name}"),
            parameters: json!({"type": "object"}),
            output: None,
            effect: Effect::Read,
            idempotent: true,
            parallel: false,
            hints: BTreeMap::new(),
        };
        Self {
            spec: Arc::new(spec),
            effect: Effect::Read,
            origin: "testkit".to_owned(),
            behaviour,
            calls: Mutex::default(),
            running: AtomicUsize::new(0),
            most_at_once: AtomicUsize::new(0),
        }
    }

    /// Changes what the model is told.
    #[must_use]
    pub fn with_spec(mut self, change: impl FnOnce(&mut ToolSpec)) -> Self {
        let mut spec = ToolSpec::clone(&self.spec);
        change(&mut spec);
        self.spec = Arc::new(spec);
        self
    }

    /// Claims and enforces `effect`.
    #[must_use]
    pub fn with_effect(mut self, effect: Effect) -> Self {
        self.effect = effect;
        self.with_spec(|spec| spec.effect = effect)
    }

    /// May run beside others.
    #[must_use]
    pub fn parallel(self) -> Self {
        self.with_spec(|spec| spec.parallel = true)
    }

    /// Requires these string arguments.
    #[must_use]
    pub fn requiring(self, names: &[&str]) -> Self {
        let properties: serde_json::Map<String, Value> =
            names.iter().map(|name| ((*name).to_owned(), json!({"type": "string"}))).collect();
        let parameters = json!({"type": "object", "properties": properties, "required": names});
        self.with_spec(|spec| spec.parameters = parameters)
    }

    /// Is provided by `origin`.
    #[must_use]
    pub fn from_origin(mut self, origin: &str) -> Self {
        origin.clone_into(&mut self.origin);
        self
    }

    /// The calls that began, in order.
    pub fn calls(&self) -> Vec<(CallId, Value)> {
        locked(&self.calls).clone()
    }

    /// Calls that have begun and neither returned nor were dropped.
    pub fn running(&self) -> usize {
        self.running.load(Ordering::SeqCst)
    }

    /// The most calls that ever ran at the same time.
    pub fn most_at_once(&self) -> usize {
        self.most_at_once.load(Ordering::SeqCst)
    }
}

struct Running<'a>(&'a AtomicUsize);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[async_trait]
impl Tool for FakeTool {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    fn effect(&self) -> Effect {
        self.effect
    }

    fn origin(&self) -> &str {
        &self.origin
    }

    #[expect(clippy::panic, reason = "a tool that panics is what a test asked for")]
    async fn call(&self, invocation: Invocation) -> Result<ToolOutput, ToolFailure> {
        locked(&self.calls).push((invocation.call_id.clone(), Value::clone(&invocation.arguments)));
        let now = self.running.fetch_add(1, Ordering::SeqCst) + 1;
        self.most_at_once.fetch_max(now, Ordering::SeqCst);
        let _running = Running(&self.running);
        match &self.behaviour {
            Behaviour::Echo => Ok(ToolOutput::text(&*invocation.arguments_json)),
            Behaviour::Output(output) => Ok(output.clone()),
            Behaviour::Fail(failure) => Err(failure.clone()),
            Behaviour::Panic(words) => panic!("{words}"),
            Behaviour::Hang => std::future::pending().await,
            Behaviour::UntilFence => {
                invocation.context.fence.wait().await;
                Err(ToolFailure::new(FailureKind::Interrupted, "the fence was raised"))
            }
            Behaviour::Sleep(time) => {
                let asked = invocation.arguments.get("ms").and_then(Value::as_u64).map(Duration::from_millis);
                tokio::time::sleep(asked.unwrap_or(*time)).await;
                Ok(ToolOutput::text(&*invocation.arguments_json))
            }
        }
    }
}
