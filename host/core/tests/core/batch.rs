//! The calls of one reply: what runs side by side, what alone, and in which order results come.

use std::sync::Arc;
use std::time::Duration;

use hames_core::types::{Effect, EventKind};
use hames_testkit::{Behaviour, FakeTool, Script};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::support::{Told, plan};

fn sleeper(name: &str) -> FakeTool {
    FakeTool::new(name, Behaviour::Sleep(Duration::from_millis(100)))
}

fn finished(told: &Told) -> Vec<String> {
    let order = told.events.iter().filter_map(|event| match &event.kind {
        EventKind::CallStarted { tool, .. } => Some(format!("> {tool}")),
        EventKind::CallFinished { tool, .. } => Some(format!("< {tool}")),
        _ => None,
    });
    order.collect()
}

#[tokio::test(start_paused = true)]
async fn readers_run_side_by_side_and_answer_in_call_order() {
    let read = Arc::new(sleeper("read").parallel());
    let times = [400, 100, 300, 200, 100, 100];
    let calls = times.map(|ms| ("read", json!({"ms": ms})));
    let mut rig = plan([Script::calls(calls), Script::text("ok")]).tool(&read).rig();
    let begun = Instant::now();
    rig.say("go").await;
    let shown: Vec<Value> = rig
        .results()
        .iter()
        .map(|result| serde_json::from_str::<Value>(&result.text).unwrap()["ms"].clone())
        .collect();
    assert_eq!(shown, times.map(Value::from));
    assert_eq!(read.most_at_once(), 4);
    assert!(begun.elapsed() < Duration::from_millis(500), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn whatever_has_an_effect_runs_alone_and_in_its_place() {
    let read = Arc::new(sleeper("read").parallel());
    let write = Arc::new(sleeper("write").parallel().with_effect(Effect::Write));
    let alone = Arc::new(sleeper("alone"));
    let calls = ["read", "read", "write", "write", "read", "alone"].map(|name| (name, json!({})));
    let mut rig =
        plan([Script::calls(calls), Script::text("ok")]).tool(&read).tool(&write).tool(&alone).rig();
    let told = rig.say("go").await;
    let expected = [
        "> read", "> read", "< read", "< read", "> write", "< write", "> write", "< write", "> read",
        "< read", "> alone", "< alone",
    ];
    assert_eq!(finished(&told), expected);
    assert_eq!(
        write.most_at_once(),
        1,
        "a tool that calls itself parallel and writes does not run in parallel"
    );
}

#[tokio::test(start_paused = true)]
async fn one_refused_or_broken_call_does_not_disturb_its_neighbours() {
    let read = Arc::new(sleeper("read").parallel().requiring(&["path"]));
    let broken = Arc::new(FakeTool::new("broken", Behaviour::Panic("no".to_owned())).parallel());
    let good = json!({"path": "a"});
    let calls = [
        ("read", good.clone()),
        ("read", json!({})),
        ("broken", json!({})),
        ("nothing", json!({})),
        ("read", good),
    ];
    let mut rig = plan([Script::calls(calls), Script::text("ok")]).tool(&read).tool(&broken).rig();
    let told = rig.say("go").await;
    assert_eq!(told.end().word(), "completed");
    let errors: Vec<bool> = rig.results().iter().map(|result| result.is_error).collect();
    assert_eq!(errors, [false, true, true, true, false]);
}

#[tokio::test(start_paused = true)]
async fn one_at_a_time_means_one_at_a_time() {
    let read = Arc::new(sleeper("read").parallel());
    let calls = [(); 3].map(|()| ("read", json!({})));
    let mut rig = plan([Script::calls(calls), Script::text("ok")])
        .tool(&read)
        .limits(|limits| limits.max_parallel_calls = 1)
        .rig();
    rig.say("go").await;
    assert_eq!((read.calls().len(), read.most_at_once()), (3, 1));
}
