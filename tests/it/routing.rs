//! Failover through the public API: two model servers on loopback, one of which fails.

use hames::Harness;
use hames::core::types::{EventKind, TurnEnd};
use hames::providers::Protocol;
use hames::providers::connect::{ProviderOptions, connect};
use hames_testkit::{HttpReply, ModelServer, SseReply};

fn limited() -> HttpReply {
    let words = r#"{"error":{"message":"slow down","retry_after_ms":600000}}"#;
    HttpReply::json(429, words).header("retry-after", "600")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_harness_goes_on_with_its_fallback_and_leaves_the_first_alone() {
    let failing = ModelServer::start([limited()]).await.unwrap();
    let answers = ["One.", "Two."].map(|text| SseReply::text(text).usage(10, 2).done());
    let answering = ModelServer::start(answers).await.unwrap();
    let provider = |id: &str, server: &ModelServer| {
        connect(ProviderOptions::new(Protocol::OpenAiChat, id, server.base_url())).unwrap()
    };
    let workspace = tempfile::tempdir().unwrap();
    let harness = Harness::builder()
        .workspace(workspace.path())
        .provider(provider("first", &failing), "big")
        .fallback(provider("second", &answering), "small")
        .build()
        .await
        .unwrap();
    let session = harness.session().unwrap();
    for (turn, text) in ["One.", "Two."].into_iter().enumerate() {
        let mut handle = session.run("Say a number.").await;
        let mut started = Vec::new();
        let mut changes = Vec::new();
        while let Some(event) = handle.next_event().await {
            match &event.kind {
                EventKind::TurnStarted { provider, model, .. } => started.push(format!("{provider}/{model}")),
                EventKind::Rerouted { provider, model, .. } => changes.push(format!("{provider}/{model}")),
                _ => {}
            }
        }
        assert_eq!(handle.end().await.unwrap(), TurnEnd::Completed { text: text.to_owned() });
        assert_eq!(started, [if turn == 0 { "first/big" } else { "second/small" }]);
        assert_eq!(changes, ["second/small"]);
    }
    assert_eq!((failing.requests().len(), answering.requests().len()), (1, 2));
    let asked: Vec<String> = answering
        .requests()
        .iter()
        .map(|request| request.json()["model"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(asked, ["small", "small"]);
}
