//! A real model on loopback, as it is and behind a proxy that speaks another protocol. Runs when asked: it needs packages
//! that take minutes to build.

use crate::program::Home;

/// The base URL in `variable`; `None` (and a word about it) where no real model was asked for.
fn asked_for(variable: &str) -> Option<String> {
    if std::env::var("HAMES_LIVE").is_ok_and(|value| value == "1") {
        let hint = "is set by `cargo xtask local-model --proxy --run …`";
        return Some(std::env::var(variable).unwrap_or_else(|_| panic!("{variable} {hint}")));
    }
    eprintln!(
        "skipped: no real model was asked for\n  hint: HAMES_LIVE=1 cargo xtask local-model --proxy --run cargo test -p \
         hames-tests --test it live"
    );
    None
}

/// One turn: the answer is streamed, its usage is recorded.
fn says_hello(home: &Home, arguments: &[&str], key: &str) {
    let mut command = home.command([arguments, &["--json", "Say hello in one sentence."]].concat());
    let ran = crate::program::ran(command.env("LOCAL_KEY", key));
    assert!(key.is_empty() || !ran.text().contains(key), "the key is shown: {}", ran.text());
    assert_eq!(ran.status, 0, "{}", ran.text());
    let events: Vec<serde_json::Value> =
        ran.stdout.lines().map(|line| serde_json::from_str(line).expect("an event per line")).collect();
    let deltas = events.iter().filter(|event| event["event"] == "text_delta").count();
    assert!(deltas > 1, "the answer was streamed: {}", ran.stdout);
    let transcript = home.transcript(&home.sessions()[0]);
    let call = transcript
        .iter()
        .find(|entry| entry["record"] == "provider_call")
        .expect("a provider call is recorded");
    assert!(call["usage"]["output_tokens"].as_u64().unwrap() > 0, "{call}");
    assert!(call["usage"]["input_tokens"].as_u64().unwrap() > 0, "{call}");
}

fn model() -> String {
    std::env::var("HAMES_LOCAL_MODEL").unwrap_or_else(|_| "local".to_owned())
}

#[test]
fn a_real_model_streams_an_answer_and_its_usage_is_recorded() {
    let Some(base_url) = asked_for("HAMES_LOCAL_BASE_URL") else { return };
    let home = Home::new();
    // A model this small cannot choose tools: it gets none, so that the answer is its own words.
    home.write("config/hames.toml", "[plugins]\nenabled = []\n");
    let model = format!("openai/{}", model());
    says_hello(&home, &["run", "--model", &model, "--base-url", &base_url], "");
}

#[test]
fn the_same_model_answers_through_the_messages_api() {
    let Some(base_url) = asked_for("HAMES_LOCAL_ANTHROPIC_BASE_URL") else { return };
    let home = Home::new();
    let config = format!(
        "[plugins]\nenabled = []\n[providers.proxy]\nprotocol = \"anthropic\"\nbase_url = \"{base_url}\"\n\
         api_key = \"env:LOCAL_KEY\"\n"
    );
    home.write("config/hames.toml", &config);
    let key = std::env::var("HAMES_LOCAL_ANTHROPIC_KEY").expect("it is set beside the base URL");
    says_hello(&home, &["run", "--model", &format!("proxy/{}", model())], &key);
}
