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

const ROUTES: &str = "model = \"hint:coding\"\n[routes]\ncoding = [\"openai/gpt-5\", \"keyed/a/b\", \"mine/m\"]\n\
     chat = [\"mine/talk\"]\nodd = [\"nobody/m\"]\nkeys = [\"openai/x\"]\n[providers.mine]\nbase_url = \
     \"http://127.0.0.1:9/v1\"\n[providers.keyed]\nbase_url = \"https://k.example\"\napi_key = \"env:KEY\"\n";

async fn route(vars: &[(&str, &str)], flags: Overrides, config: &str) -> String {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("hames.toml"), config).unwrap();
    let dir = home.path().display().to_string();
    let mut vars = vars.to_vec();
    vars.extend([("HOME", dir.as_str()), ("HAMES_CONFIG_DIR", dir.as_str())]);
    let settings = Settings::load(&Environment::new(vars, home.path()), &flags).unwrap();
    match choose(&settings).await {
        Ok(choice) => {
            let mut asked = vec![format!("{}/{}", choice.provider.id(), choice.model)];
            asked
                .extend(choice.fallbacks.iter().map(|next| format!("{}/{}", next.provider.id(), next.model)));
            asked.extend(choice.left_out);
            asked.join(" | ").replace(&dir, "~")
        }
        Err(error) => format!("{error} | {}", error.hint().unwrap_or_default()).replace(&dir, "~"),
    }
}

fn model(model: &str) -> Overrides {
    Overrides { model: Some(model.to_owned()), ..Overrides::default() }
}

#[tokio::test]
async fn a_route_is_its_candidates_in_order_without_those_that_have_no_key() {
    let keys = [("OPENAI_API_KEY", "k"), ("KEY", "k")];
    let all = route(&keys, Overrides::default(), ROUTES).await;
    assert_eq!(all, "openai/gpt-5 | keyed/a/b | mine/m");
    assert_eq!(
        route(&[], Overrides::default(), ROUTES).await,
        "mine/m | `openai/gpt-5` of route `coding` is left out: provider `openai` needs an API key and \
         `OPENAI_API_KEY` is not set | `keyed/a/b` of route `coding` is left out: [providers.keyed] api_key in \
         ~/hames.toml: environment variable `KEY` is not set"
    );
    assert_eq!(route(&keys, model("hint:chat"), ROUTES).await, "mine/talk");
    assert_eq!(route(&keys, model("openai/gpt-5"), ROUTES).await, "openai/gpt-5");
    let without_model = ROUTES.replacen("model = \"hint:coding\"\n", "", 1);
    assert_eq!(
        route(&keys, Overrides::default(), &without_model).await,
        "mine/talk",
        "`chat` is the default"
    );
    let beside = format!("provider = \"openai\"\n{ROUTES}");
    assert_eq!(route(&[], model("hint:chat"), &beside).await, "mine/talk", "a flag goes over the file");
}

#[tokio::test]
async fn what_is_wrong_with_a_route_is_said_exactly() {
    let said = async |flags: Overrides| route(&[], flags, ROUTES).await;
    assert_eq!(said(model("hint:codin")).await, "no route is named `codin` | did you mean `hint:coding`?");
    assert_eq!(
        said(model("hint:zzz")).await,
        "no route is named `zzz` | add `zzz = [\"PROVIDER/MODEL\"]` under [routes] in hames.toml (there are: chat, \
         coding, keys, odd)"
    );
    assert!(said(model("hint:odd")).await.starts_with("no provider is named `nobody` | "));
    assert_eq!(
        said(model("hint:keys")).await,
        "nobody of route `keys` can be asked\n  `openai/x` of route `keys` is left out: provider `openai` needs an API \
         key and `OPENAI_API_KEY` is not set | set one of these keys, or name other models in the route"
    );
    let with_provider = Overrides { provider: Some("mine".to_owned()), ..model("hint:chat") };
    assert!(
        said(with_provider)
            .await
            .starts_with("route `chat` names its own providers, and --provider names `mine`")
    );
    let with_address = Overrides { base_url: Some("http://evil.example".to_owned()), ..model("hint:chat") };
    assert!(
        said(with_address)
            .await
            .starts_with("route `chat` has addresses of its own, and --base-url sets one")
    );
}

#[tokio::test]
async fn the_route_of_summaries_is_taken_where_nothing_else_is_named() {
    let summarizer = async |config: &str| {
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join("hames.toml"), config).unwrap();
        let dir = home.path().display().to_string();
        let vars = [("HOME", dir.as_str()), ("HAMES_CONFIG_DIR", dir.as_str())];
        let settings = Settings::load(&Environment::new(vars, home.path()), &model("mine/m")).unwrap();
        let turn = choose(&settings).await.unwrap();
        choose_summarizer(&settings, &turn).await.unwrap().map(|chosen| chosen.model().to_owned())
    };
    let mine = "[providers.mine]\nbase_url = \"http://127.0.0.1:9/v1\"\n";
    let routes = format!("{mine}[routes]\nsummarization = [\"mine/small\"]\nother = [\"mine/tiny\"]\n");
    assert_eq!(summarizer(mine).await, None);
    assert_eq!(summarizer(&routes).await.as_deref(), Some("small"));
    let named = format!("{routes}[summarizer]\nmodel = \"named\"\n");
    assert_eq!(summarizer(&named).await.as_deref(), Some("named"));
    let hinted = format!("{routes}[summarizer]\nmodel = \"hint:other\"\n");
    assert_eq!(summarizer(&hinted).await.as_deref(), Some("tiny"));
}

#[tokio::test]
async fn the_origin_of_a_key_is_told_and_never_the_key() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("hames.toml"), ROUTES).unwrap();
    let dir = home.path().display().to_string();
    let vars = [("HOME", &*dir), ("HAMES_CONFIG_DIR", &dir), ("OPENAI_API_KEY", "sk-m1"), ("KEY", "sk-m2")];
    let settings = Settings::load(&Environment::new(vars, home.path()), &Overrides::default()).unwrap();
    let choice = choose(&settings).await.unwrap();
    assert_eq!(choice.key_origin.as_deref(), Some("OPENAI_API_KEY"));
    let origins: Vec<_> = choice.fallbacks.iter().map(|fallback| fallback.key_origin.as_deref()).collect();
    assert_eq!(origins, [Some("env:KEY ([providers.keyed] api_key)"), None]);
}
