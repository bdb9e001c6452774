//! Long results as a summary: when one is asked for, what the model sees of it, and what happens when there is none.

use std::sync::Arc;

use hames_core::provider::{ModelFacts, Provider, ProviderErrorKind, StopReason};
use hames_core::results::ResultStore;
use hames_core::summarizer::{ProviderSummarizer, ResultSummaries};
use hames_core::transcript::{CallPurpose, Record};
use hames_core::types::{EventKind, Message, Part, SessionId, ToolOutput, Usage};
use hames_testkit::{Behaviour, FakeTool, MemoryResults, Script, ScriptedProvider};
use serde_json::json;

use crate::support::{Rig, Told, plan};

/// A turn whose first call returns `output`, with a summarizer that plays `summaries`.
struct Stage {
    rig: Rig,
    store: Arc<MemoryResults>,
    small: Arc<ScriptedProvider>,
}

fn facts() -> ModelFacts {
    ModelFacts { context_tokens: Some(100_000), is_free: true, ..ModelFacts::default() }
}

fn stage(output: ToolOutput, turns: usize, summaries: Vec<Script>) -> Stage {
    stage_with(output, turns, summaries, facts())
}

fn stage_with(output: ToolOutput, turns: usize, summaries: Vec<Script>, facts: ModelFacts) -> Stage {
    let store = Arc::new(MemoryResults::default());
    let small = Arc::new(ScriptedProvider::with_facts(summaries, facts));
    let make = Arc::new(FakeTool::new("make", Behaviour::Output(output)));
    let scripts =
        (0..turns).flat_map(|_| [Script::calls([("make", json!({"of": "much"}))]), Script::text("ok")]);
    let mut plan = plan(scripts.collect::<Vec<_>>()).tool(&make);
    plan.results = Some(Arc::clone(&store) as _);
    let provider = Arc::clone(&small) as Arc<dyn Provider>;
    let plan = plan.parts(move |parts| {
        let summarizer = Arc::new(ProviderSummarizer::new(provider, "small"));
        parts.limits.max_cost_microdollars = Some(10);
        parts.result_summaries = Some(ResultSummaries::new(summarizer));
    });
    Stage { rig: plan.rig(), store, small }
}

fn long() -> String {
    (0..6_000).map(|n| format!("build/out/{n:05}.o: ok\n")).collect()
}

fn shortened(told: &Told) -> Vec<(u64, u64, bool)> {
    let events = told.events.iter().filter_map(|event| match &event.kind {
        EventKind::ResultShortened { full_bytes, kept_bytes, is_summary, .. } => {
            Some((*full_bytes, *kept_bytes, *is_summary))
        }
        _ => None,
    });
    events.collect()
}

fn warnings(told: &Told) -> Vec<String> {
    let events = told.events.iter().filter_map(|event| match &event.kind {
        EventKind::Warning { message } => Some(message.clone()),
        _ => None,
    });
    events.collect()
}

#[tokio::test(start_paused = true)]
async fn a_summary_stands_in_for_the_result_and_names_the_whole() {
    let usage = Usage { input_tokens: 900, output_tokens: 30, ..Usage::default() };
    let summary =
        "6000 objects were built, all ok: build/out/00000.o to build/out/05999.o\nLeft out: the lines.";
    let mut stage = stage(ToolOutput::text(long()), 1, vec![Script::text(summary).usage(usage)]);
    let told = stage.rig.say("go").await;
    assert_eq!(told.end().word(), "completed");
    let shown = stage.rig.results()[0].clone();
    let marker = format!(
        "\n[… this is a summary of {} bytes; read the whole with read_result, handle \"r1\" …]",
        long().len()
    );
    assert_eq!(shown.text, format!("{summary}{marker}"));
    assert_eq!(shown.handle.as_deref(), Some("r1"));
    assert_eq!(shortened(&told), [(long().len() as u64, shown.text.len() as u64, true)]);
    assert_eq!(stage.store.read(&SessionId::new("s"), "r1").unwrap().unwrap(), long().as_bytes());

    let asked = stage.small.requests();
    assert_eq!((asked.len(), asked[0].model.as_str(), asked[0].tools.len()), (1, "small", 0));
    let [Message::System { .. }, Message::User { text, .. }] =
        [&*asked[0].messages[0], &*asked[0].messages[1]]
    else {
        panic!("instructions and data: {asked:?}")
    };
    assert!(text.contains(&format!("<output>\n{}\n</output>", long())) && text.contains("{\"of\":\"much\"}"));
    let billed: Vec<_> = stage
        .rig
        .transcript
        .entries()
        .into_iter()
        .filter_map(|entry| match entry.record {
            Record::ProviderCall { purpose: CallPurpose::ResultSummary, model, usage, .. } => {
                Some((model, usage))
            }
            _ => None,
        })
        .collect();
    assert_eq!(billed, [(Some("small".to_owned()), usage)]);
}

#[tokio::test(start_paused = true)]
async fn nobody_is_asked_where_a_summary_makes_no_sense() {
    let blob = Part::Blob { media_type: "image/png".to_owned(), name: None, bytes: vec![1; 100_000] };
    let table = [
        ("below the threshold", ToolOutput::text(&long()[..40_000]), facts()),
        (
            "above the ceiling",
            ToolOutput::text("word ".repeat(500_000)),
            ModelFacts { context_tokens: Some(u64::MAX), ..facts() },
        ),
        ("binary", ToolOutput { parts: vec![Part::Text(long()), blob] }, facts()),
        ("NULs", ToolOutput::text(format!("\0{}", long())), facts()),
        (
            "above the window",
            ToolOutput::text(long()),
            ModelFacts { context_tokens: Some(50_000), ..facts() },
        ),
    ];
    for (name, output, facts) in table {
        let mut stage = stage_with(output, 1, vec![Script::text("a summary")], facts);
        let told = stage.rig.say("go").await;
        assert_eq!((stage.small.requests().len(), warnings(&told)), (0, vec![]), "{name}");
        let shown = &stage.rig.results()[0].text;
        assert!(shown.len() <= 16 * 1024 && shown.contains("left out from byte"), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_summary_that_cannot_be_paid_is_not_asked_for() {
    // No price is known, and there is a limit to keep.
    let facts = ModelFacts { is_free: false, ..facts() };
    let mut stage = stage_with(ToolOutput::text(long()), 1, vec![Script::text("a summary")], facts);
    assert_eq!(stage.rig.say("go").await.end().word(), "completed");
    assert_eq!(stage.small.requests().len(), 0);
    assert!(stage.rig.results()[0].text.contains("left out from byte"));
}

#[tokio::test(start_paused = true)]
async fn every_way_to_fail_shows_both_ends_and_three_in_a_row_switch_it_off() {
    let too_long = "x".repeat(40_000);
    let table = [
        (Script::refused(ProviderErrorKind::RateLimited), "scripted RateLimited"),
        (Script::partial("half of").broken(ProviderErrorKind::Transport), "scripted Transport"),
        (Script::dropped(), "closed the stream too early"),
        (Script::partial("x").silent(), "no sign of life"),
        (Script::stalled(), "no sign of life"),
        (Script::text(" \n "), "wrote nothing"),
        (Script::text("<think>it is long"), "wrote nothing"),
        (Script::text(&too_long), "the summary has 40000 bytes of at most 16224"),
        (Script::partial("no").finished(StopReason::Refusal), "refused"),
    ];
    for (script, words) in table {
        let summaries = (0..4).map(|_| script.clone()).collect();
        let mut stage = stage(ToolOutput::text(long()), 4, summaries);
        for turn in 1..=4 {
            let told = stage.rig.say("go").await;
            assert_eq!(told.end().word(), "completed", "{words}");
            let shown = &stage.rig.results()[turn - 1];
            assert!(shown.text.contains("left out from byte") && !shown.is_error, "{words}");
            let warnings = warnings(&told);
            assert_eq!(warnings.len(), usize::from(turn < 4), "{words}");
            if turn < 4 {
                assert!(warnings[0].contains(words), "{warnings:?}");
                assert_eq!(warnings[0].contains("in this session"), turn == 3, "{warnings:?}");
            }
        }
        assert_eq!(stage.small.requests().len(), 3, "{words}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_success_forgives_failures() {
    let bad = || Script::text("");
    let summaries = vec![bad(), bad(), Script::text("good"), bad(), bad(), Script::text("good")];
    let mut stage = stage(ToolOutput::text(long()), 6, summaries);
    let mut kinds = Vec::new();
    for _ in 0..6 {
        kinds.extend(shortened(&stage.rig.say("go").await).iter().map(|(_, _, is_summary)| *is_summary));
    }
    assert_eq!(kinds, [false, false, true, false, false, true]);
}

#[tokio::test(start_paused = true)]
async fn an_interrupt_stops_the_summarizer_and_keeps_the_result() {
    let mut stage = stage(ToolOutput::text(long()), 1, vec![Script::stalled()]);
    let fence = stage.rig.fence.clone();
    let small = Arc::clone(&stage.small);
    let interrupt = async move {
        while small.requests().is_empty() {
            tokio::task::yield_now().await;
        }
        fence.interrupt();
    };
    let (told, ()) = tokio::join!(stage.rig.say("go"), interrupt);
    assert_eq!(told.end().word(), "interrupted");
    assert_eq!(told.outcomes(), ["call_1_2 Succeeded"], "the call had returned");
    assert!(stage.rig.results()[0].text.contains("left out from byte"));
    assert_eq!(warnings(&told), Vec::<String>::new());
}
