//! Which provider is chosen, and what is said when none can be.

#![allow(clippy::unwrap_used, reason = "test")]

use super::*;
use crate::config::{Environment, Overrides};

async fn choose_with(
    vars: &[(&str, &str)],
    model: Option<&str>,
    provider: Option<&str>,
    base_url: Option<&str>,
) -> String {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(
        home.path().join("hames.toml"),
        "[providers.mine]\nbase_url = \"http://127.0.0.1:9/v1\"\n[providers.keyed]\napi_key = \"env:KEY\"\n\
         [providers.azure]\nbase_url = \"https://res.openai.azure.com/openai/v1\"\n",
    )
    .unwrap();
    let dir = home.path().display().to_string();
    let mut vars = vars.to_vec();
    vars.extend([("HOME", dir.as_str()), ("HAMES_CONFIG_DIR", dir.as_str())]);
    let overrides = Overrides {
        model: model.map(str::to_owned),
        provider: provider.map(str::to_owned),
        base_url: base_url.map(str::to_owned),
        ..Overrides::default()
    };
    let settings = Settings::load(&Environment::new(vars, home.path()), &overrides).unwrap();
    match choose(&settings).await {
        Ok(choice) => format!("{} {}", choice.provider.id(), choice.model),
        Err(error) => format!("{error} | {}", error.hint().unwrap_or_default()),
    }
}

#[tokio::test]
async fn the_model_names_the_provider_unless_one_is_set() {
    let openai = [("OPENAI_API_KEY", "k")];
    assert_eq!(choose_with(&openai, None, None, None).await, "openai gpt-4.1-mini");
    assert_eq!(choose_with(&openai, Some("gpt-5"), None, None).await, "openai gpt-5");
    assert_eq!(choose_with(&openai, Some("ollama/llama3"), None, None).await, "ollama llama3");
    assert_eq!(choose_with(&[], Some("ollama/llama3"), Some("ollama"), None).await, "ollama llama3");
    let router = [("OPENROUTER_API_KEY", "k")];
    assert_eq!(
        choose_with(&router, Some("openai/gpt-5"), Some("openrouter"), None).await,
        "openrouter openai/gpt-5"
    );
    assert_eq!(
        choose_with(&router, Some("openrouter/auto"), Some("openrouter"), None).await,
        "openrouter openrouter/auto"
    );
    assert_eq!(choose_with(&[], Some("mine/a/b"), None, None).await, "mine a/b");
    assert_eq!(
        choose_with(&[], Some("openai/local"), None, Some("http://127.0.0.1:9/v1")).await,
        "openai local"
    );
    assert_eq!(choose_with(&[], Some("m"), None, Some("http://127.0.0.1:9/v1")).await, "openai-compatible m");
}

#[tokio::test]
async fn what_is_missing_is_said_exactly() {
    assert_eq!(
        choose_with(&[], Some("openai/gpt-5"), None, None).await,
        "provider `openai` needs an API key and `OPENAI_API_KEY` is not set | export OPENAI_API_KEY=…"
    );
    assert_eq!(
        choose_with(&[], Some("x"), Some("opnai"), None).await,
        "no provider is named `opnai` | did you mean `openai`?"
    );
    assert_eq!(
        choose_with(&[], None, Some("mine"), None).await,
        "no model is named for provider `mine` | add `--model mine/MODEL`, or set `model` in hames.toml"
    );
    assert!(
        choose_with(&[], None, Some("recorded:nowhere"), None).await.starts_with("cannot read the recording")
    );
}

#[tokio::test]
async fn a_provider_with_an_address_per_customer_needs_key_address_and_model() {
    let key = [("AZURE_OPENAI_API_KEY", "k")];
    assert_eq!(choose_with(&key, Some("azure/gpt-prod"), None, None).await, "azure gpt-prod");
    assert_eq!(
        choose_with(&key, None, None, None).await,
        "no model is named for provider `azure` | add `--model azure/MODEL`, or set `model` in hames.toml"
    );
    assert_eq!(
        choose_with(&[], Some("azure/gpt-prod"), None, None).await,
        "provider `azure` needs an API key and `AZURE_OPENAI_API_KEY` is not set | export AZURE_OPENAI_API_KEY=…"
    );
}

#[tokio::test]
async fn a_configured_key_does_not_cross_the_public_network_in_the_clear() {
    let vars = [("KEY", "k")];
    for safe in [
        "https://m.example",
        "HTTPS://m.example",
        "http://localhost:1",
        "http://[::1]:1/v1",
        "http://10.0.0.2:1",
    ] {
        let chosen = choose_with(&vars, Some("m"), Some("keyed"), Some(safe)).await;
        assert_eq!(chosen, "keyed m", "{safe}");
    }
    for open in
        ["http://m.example/v1", "http://localhost:x@m.example/", "http://localhost.example", "http://8.8.8.8"]
    {
        let refused = choose_with(&vars, Some("m"), Some("keyed"), Some(open)).await;
        assert!(
            refused.contains("is not sent to") && refused.contains("| use `https://`"),
            "{open}: {refused}"
        );
    }
}

#[tokio::test]
async fn a_name_like_no_other_is_answered_with_all_of_them() {
    let unknown = choose_with(&[], Some("m"), Some("nope"), None).await;
    assert!(unknown.contains("known: openai") && unknown.contains("[providers.NAME]"), "{unknown}");
    let error = ProviderChoiceError::NoProvider { model: "gpt-x".to_owned() };
    assert!(error.hint().unwrap().contains("`openai/gpt-x`"), "{error}");
}
