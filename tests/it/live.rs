//! A real model on loopback. Runs when asked: it needs packages that take minutes to build.

use crate::program::Home;

#[test]
fn a_real_model_streams_an_answer_and_its_usage_is_recorded() {
    let asked = std::env::var("HAMES_LIVE").is_ok_and(|value| value == "1");
    if !asked {
        eprintln!(
            "skipped: no real model was asked for\n  hint: HAMES_LIVE=1 cargo xtask local-model --run cargo test -p \
             hames-tests --test it live"
        );
        return;
    }
    let base_url = std::env::var("HAMES_LOCAL_BASE_URL")
        .expect("HAMES_LOCAL_BASE_URL is set by `cargo xtask local-model --run …`");
    let model = std::env::var("HAMES_LOCAL_MODEL").unwrap_or_else(|_| "local".to_owned());
    let home = Home::new();
    // A model this small cannot choose tools: it gets none, so that the answer is its own words.
    home.write("config/hames.toml", "[plugins]\nenabled = []\n");
    let model = format!("openai/{model}");
    let ran =
        home.run(["run", "--model", &model, "--base-url", &base_url, "--json", "Say hello in one sentence."]);
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
