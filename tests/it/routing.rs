//! Failover through the public API and the whole program: two model servers on loopback, one of which fails.

use hames::Harness;
use hames::core::types::{EventKind, TurnEnd};
use hames::providers::Protocol;
use hames::providers::connect::{ProviderOptions, connect};
use hames_testkit::{HttpReply, ModelServer, SseReply};

use crate::program::Home;

fn overloaded() -> HttpReply {
    HttpReply::json(529, r#"{"error":{"message":"too many people"}}"#)
}

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
#[tokio::test(flavor = "multi_thread")]
async fn the_program_follows_a_route_and_tells_each_change() {
    let failing = ModelServer::start([overloaded(), overloaded()]).await.unwrap();
    let answering = ModelServer::start([SseReply::text("Here.").usage(10, 2).done()]).await.unwrap();
    let home = Home::new();
    home.write(
        "config/hames.toml",
        &format!(
            "[limits]\nmax_attempts = 2\n[routes]\ncoding = [\"openai/gpt-5\", \"one/big\", \"two/small\"]\n\
             [providers.one]\nbase_url = \"{}\"\napi_key = \"env:ONE\"\n[providers.two]\nbase_url = \"{}\"\n\
             api_key = \"env:TWO\"\n",
            failing.base_url(),
            answering.base_url()
        ),
    );
    let mut command = home.command(["run", "--model", "hint:coding", "hello"]);
    command.env("ONE", "sk-marker-one").env("TWO", "sk-marker-two");
    let ran = tokio::task::spawn_blocking(move || crate::program::ran(&mut command)).await.unwrap();
    assert_eq!((ran.status, ran.stdout.as_str()), (0, "Here.\n"), "{}", ran.text());
    for said in [
        "`openai/gpt-5` of route `coding` is left out: provider `openai` needs an API key",
        "two/small is asked in place of one/big: ",
        "too many people",
    ] {
        assert!(ran.stderr.contains(said), "{}", ran.text());
    }
    assert!(!ran.text().contains("sk-marker"), "{}", ran.text());
    assert_eq!((failing.requests().len(), answering.requests().len()), (2, 1));
    let key =
        |server: &ModelServer| server.requests()[0].header("authorization").unwrap_or_default().to_owned();
    assert_eq!(
        (key(&failing), key(&answering)),
        ("Bearer sk-marker-one".into(), "Bearer sk-marker-two".into())
    );
    let session = home.sessions().pop().unwrap();
    let calls: Vec<_> = home
        .transcript(&session)
        .into_iter()
        .filter(|entry| entry["record"] == "provider_call")
        .map(|entry| (entry["provider"].clone(), entry["model"].clone()))
        .collect();
    assert_eq!(calls, [("two".into(), "small".into())]);
}

#[test]
fn a_keyring_that_cannot_be_reached_is_said_with_a_way_out() {
    let home = Home::new();
    let config = "[providers.mine]\nbase_url = \"http://127.0.0.1:9/v1\"\napi_key = \"keyring:hames/mine\"\n";
    home.write("config/hames.toml", config);
    let mut command = home.command(["run", "--model", "mine/m", "hello"]);
    let nowhere = format!("unix:path={}", home.path("no-bus").display());
    command.env("DBUS_SESSION_BUS_ADDRESS", nowhere);
    let ran = crate::program::ran(&mut command);
    assert_eq!(ran.status, 1, "{}", ran.text());
    assert!(ran.stderr.contains("`keyring:hames/mine`: the keyring cannot be reached: "), "{}", ran.text());
    assert!(ran.stderr.contains("hint: start a keyring in this session"), "{}", ran.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn each_candidate_of_a_route_is_tried_and_one_failure_fails_the_test() {
    let refusing = HttpReply::json(401, r#"{"error":{"message":"wrong key sk-marker-one"}}"#);
    let failing = ModelServer::start([refusing.clone(), refusing]).await.unwrap();
    let answer = || SseReply::text("OK").usage(10, 2).done();
    let answering = ModelServer::start([answer(), answer(), answer()]).await.unwrap();
    let home = Home::new();
    let one = failing.base_url();
    let two = answering.base_url();
    home.write(
        "config/hames.toml",
        &format!(
            "[routes]\ncoding = [\"openai/gpt-5\", \"one/big\", \"two/small\"]\ngood = [\"two/small\"]\n[providers.one]\n\
             base_url = \"{one}\"\napi_key = \"env:ONE\"\n[providers.two]\nbase_url = \"{two}\"\n"
        ),
    );
    let test = async |arguments: &[&str]| {
        let mut command = home.command(["models", "test"]);
        command.args(arguments).env("ONE", "sk-marker-one");
        tokio::task::spawn_blocking(move || crate::program::ran(&mut command)).await.unwrap()
    };
    let bad = test(&["hint:coding"]).await;
    let good = test(&["hint:good"]).await;
    let json = test(&["--json", "hint:coding"]).await;
    let mut settings = home.snapshots();
    for (server, name) in [(&one, "http://one"), (&two, "http://two")] {
        settings.add_filter(&server.replace('.', r"\."), name);
    }
    settings.add_filter(r#""latency_ms":\d+"#, r#""latency_ms":[time]"#);
    let text =
        format!("# hint:coding\n{}\n# hint:good\n{}\n# as JSON\n{}", bad.text(), good.text(), json.text());
    settings.bind(|| insta::assert_snapshot!("models_test", text));
    assert!(!text.contains("sk-marker"), "{text}");
    let asked = answering.requests()[0].json();
    assert_eq!((&asked["model"], &asked["max_tokens"]), (&"small".into(), &32.into()));
}

#[test]
fn what_could_be_asked_is_listed() {
    let home = Home::new();
    home.write(
        "config/hames.toml",
        "[routes]\ncoding = [\"mine/a/b\", \"openai/gpt-5\"]\n[providers.mine]\nbase_url = \"https://m.example/v1\"\n\
         api_key = \"sk-marker-one\"\nprotocol = \"gemini\"\n",
    );
    let mut command = home.command(["models", "list"]);
    command.env("OPENAI_API_KEY", "sk-marker-two");
    let ran = crate::program::ran(&mut command);
    // Whether a model server runs on this machine is nobody's business here, nor is every price.
    let (before, rest) = ran.stdout.split_once("local servers").unwrap();
    let models = rest.split_once("\nmodels (").unwrap().1;
    let shown = ["gpt-4.1-mini", "gemma2", "qwen3-coder"];
    let models: Vec<&str> = models
        .lines()
        .filter(|line| shown.iter().any(|model| line.contains(&format!(" {model} "))))
        .collect();
    home.snapshots()
        .bind(|| insta::assert_snapshot!("models_list", format!("{before}{}", models.join("\n"))));
    assert!(!ran.text().contains("sk-marker"), "{}", ran.text());

    let json = home.run(["models", "list", "--json"]);
    let listing: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(
        listing["routes"],
        serde_json::json!([{"name": "coding", "models": ["mine/a/b", "openai/gpt-5"]}])
    );
    let mine = listing["providers"].as_array().unwrap().iter().find(|one| one["id"] == "mine").unwrap();
    let expected = serde_json::json!({
        "id": "mine", "protocol": "gemini", "base_url": "https://m.example/v1", "key": "[providers.mine] api_key",
        "has_key": true, "default_model": null
    });
    assert_eq!(mine, &expected);
}
