//! `hames models`: what could be asked, and whether it answers.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use hames_core::provider::{ChatRequest, Provider, ProviderError, ProviderErrorKind, ReplyEvent, StopReason};
use hames_core::results::{chain, one_safe_line};
use hames_core::types::{Message, SessionId, Usage};
use hames_providers::catalogue::known_families;
use hames_providers::detect::{
    KNOWN_LOCAL_SERVERS, KNOWN_PROVIDERS, KnownProvider, PROBE_TIMEOUT, probe_local,
};
use serde::Serialize;
use tokio::time::{Instant, timeout};

use super::args::ModelsCommand;
use super::start::{CliError, Start};
use super::view::grouped;
use crate::config::{HINT, Origin, Settings, Sourced};
use crate::provider::Fallback;

/// The question of a test: as small as an answer can be.
const QUESTION: &str = "Answer with the word OK.";
/// Room for it. Models that think first may be cut off, which is an answer too; some providers refuse less.
const MAX_ANSWER_TOKENS: u32 = 32;
/// Bytes of a provider's words that are shown.
const MAX_ERROR_BYTES: usize = 1000;

pub(super) async fn models(start: &Start, command: &ModelsCommand) -> Result<u8, CliError> {
    match command {
        ModelsCommand::List => {
            list(start).await;
            Ok(0)
        }
        ModelsCommand::Test { model } => test(start, model.as_deref()).await,
    }
}

#[derive(Serialize)]
struct Listing {
    providers: Vec<ProviderLine>,
    routes: Vec<RouteLine>,
    local: Vec<LocalLine>,
    models: Vec<ModelLine>,
}

#[derive(Serialize)]
struct ProviderLine {
    id: String,
    protocol: &'static str,
    base_url: Option<String>,
    /// Where its key is looked for.
    key: Option<String>,
    /// A configured one is only looked up when it is needed.
    has_key: bool,
    default_model: Option<String>,
}

#[derive(Serialize)]
struct RouteLine {
    name: String,
    models: Vec<String>,
}

#[derive(Serialize)]
struct LocalLine {
    id: String,
    base_url: String,
    models: Vec<String>,
}

/// A family of models.
#[derive(Serialize)]
struct ModelLine {
    provider: Option<&'static str>,
    family: String,
    context_tokens: Option<u64>,
    input_microdollars_per_million: Option<u64>,
    output_microdollars_per_million: Option<u64>,
    dialect: &'static str,
    notation: Option<&'static str>,
}

async fn list(start: &Start) {
    let local = probe_local(KNOWN_LOCAL_SERVERS, PROBE_TIMEOUT).await;
    let local = local.into_iter().map(|server| LocalLine {
        id: server.id,
        base_url: server.base_url,
        models: server.models,
    });
    let routes = start.settings.routes.iter().map(|(name, entries)| RouteLine {
        name: name.to_owned(),
        models: entries.iter().map(|entry| format!("{}/{}", entry.provider, entry.model)).collect(),
    });
    let models = known_families().into_iter().map(|known| ModelLine {
        provider: known.provider,
        context_tokens: known.context_tokens,
        input_microdollars_per_million: known.rate.map(|rate| rate.input),
        output_microdollars_per_million: known.rate.map(|rate| rate.output),
        // A hosted API reads calls itself.
        dialect: known.local_dialect.filter(|_| known.provider.is_none()).unwrap_or_default().as_str(),
        notation: known.notation.map(|notation| notation.as_str()),
        family: known.family,
    });
    let listing = Listing {
        providers: providers(&start.settings),
        routes: routes.collect(),
        local: local.collect(),
        models: models.collect(),
    };
    if start.console.is_json() {
        start.console.json(&listing);
    } else {
        show(start, &listing);
    }
}

/// Known ones, then the user's own.
fn providers(settings: &Settings) -> Vec<ProviderLine> {
    let known = KNOWN_PROVIDERS.iter().map(|known| line(settings, known.id, Some(known)));
    let own = settings.providers.keys().filter(|name| KnownProvider::by_id(name).is_none());
    known.chain(own.map(|name| line(settings, name, None))).collect()
}

fn line(settings: &Settings, id: &str, known: Option<&KnownProvider>) -> ProviderLine {
    let defined = settings.providers.get(id);
    let in_environment = known.map(|known| known.key_variable);
    let is_set = in_environment.is_some_and(|name| settings.environment().var(name).is_some());
    // The reference itself is not shown: until it is followed it may be the key.
    let is_configured = settings.provider_key_reference(id).is_some();
    let protocol = defined.and_then(|defined| defined.protocol).or(known.map(|known| known.protocol));
    let own_model = defined.and_then(|defined| defined.model.clone());
    let own_url = defined.and_then(|defined| defined.base_url.clone());
    ProviderLine {
        id: id.to_owned(),
        protocol: protocol.unwrap_or_default().as_str(),
        base_url: own_url.or(known.and_then(|known| known.base_url).map(str::to_owned)),
        key: if is_configured {
            Some(format!("[providers.{id}] api_key"))
        } else {
            in_environment.map(str::to_owned)
        },
        has_key: is_configured || is_set,
        default_model: own_model.or(known.and_then(|known| known.default_model).map(str::to_owned)),
    }
}

fn show(start: &Start, listing: &Listing) {
    let console = &start.console;
    console.data("providers");
    for provider in &listing.providers {
        let mark = if provider.has_key { "✓" } else { " " };
        let key = match &provider.key {
            Some(key) if provider.has_key => format!("key from {key}"),
            Some(key) => format!("no key: {key} is not set"),
            None => "no key".to_owned(),
        };
        let address = provider.base_url.as_deref().unwrap_or("needs a base_url");
        let ProviderLine { id, protocol, .. } = provider;
        console.data(&format!("  {mark} {id:<12} {protocol:<17} {key:<38} {address}"));
    }
    console.data("\nroutes");
    if listing.routes.is_empty() {
        console.data("  none: [routes] in hames.toml defines them");
    }
    for route in &listing.routes {
        console.data(&format!("  {HINT}{:<16} {}", route.name, route.models.join(", ")));
    }
    console.data("\nlocal servers");
    if listing.local.is_empty() {
        console.data("  none answers");
    }
    for server in &listing.local {
        console.data(&format!("  {:<12} {}  {}", server.id, server.base_url, server.models.join(", ")));
    }
    console.data("\nmodels (names that begin so; dollars per million tokens, in / out)");
    for model in &listing.models {
        let window = model.context_tokens.map_or_else(|| "?".to_owned(), grouped);
        let price = match (model.input_microdollars_per_million, model.output_microdollars_per_million) {
            (Some(input), Some(output)) => format!("{} / {}", dollars(input), dollars(output)),
            _ => String::new(),
        };
        let speech = match model.notation {
            Some(notation) => format!("{} ({notation})", model.dialect),
            None => model.dialect.to_owned(),
        };
        let ModelLine { family, .. } = model;
        let provider = model.provider.unwrap_or("-");
        console.data(format!("  {provider:<11} {family:<26} {window:>9}  {price:<16} {speech}").trim_end());
    }
}

fn dollars(microdollars: u64) -> String {
    let cents = microdollars % 1_000_000;
    let text = format!("{}.{cents:06}", microdollars / 1_000_000);
    let short = text.trim_end_matches('0');
    // Two digits at least, as prices are written.
    let digits = short.rsplit('.').next().map_or(0, str::len);
    format!("{short}{}", "0".repeat(2_usize.saturating_sub(digits)))
}

/// How one candidate answered.
#[derive(Serialize)]
struct Tested {
    provider: String,
    model: String,
    ok: bool,
    latency_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<Usage>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stop: Option<StopReason>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
}

#[derive(Serialize)]
struct Report {
    candidates: Vec<Tested>,
    /// Candidates that cannot be asked at all.
    left_out: Vec<String>,
}

/// Asks each candidate once, one after the other. Status 1 if one fails.
async fn test(start: &Start, model: Option<&str>) -> Result<u8, CliError> {
    let mut settings = start.settings.clone();
    if let Some(model) = model {
        settings.model = Some(Sourced { value: model.to_owned(), origin: Origin::Flag("MODEL") });
        // What the files say of a provider is about the model that they name; a flag is about this one.
        settings.provider = settings.provider.filter(|provider| matches!(provider.origin, Origin::Flag(_)));
    }
    let choice = crate::provider::choose(&settings).await?;
    let first = Fallback { provider: choice.provider, model: choice.model, key_origin: choice.key_origin };
    let idle = Duration::from_millis(settings.limits.provider_idle_ms);
    let mut candidates = Vec::new();
    for candidate in std::iter::once(first).chain(choice.fallbacks) {
        let tested = ask(&candidate.provider, &candidate.model, idle).await;
        if !start.console.is_json() {
            start.console.data(&tested.words());
        }
        candidates.push(tested);
    }
    let is_well = choice.left_out.is_empty() && candidates.iter().all(|tested| tested.ok);
    if start.console.is_json() {
        start.console.json(&Report { candidates, left_out: choice.left_out });
    } else {
        choice.left_out.iter().for_each(|left_out| start.console.data(&format!("✗ {left_out}")));
    }
    Ok(u8::from(!is_well))
}

impl Tested {
    fn words(&self) -> String {
        let name = format!("{}/{}", self.provider, self.model);
        match &self.error {
            Some(error) => {
                let hint = self.hint.as_ref().map_or_else(String::new, |hint| format!("\n  hint: {hint}"));
                format!("✗ {name} after {} ms: {error}{hint}", self.latency_ms)
            }
            None => {
                let usage = self.usage.map_or_else(
                    || "usage not stated".to_owned(),
                    |usage| format!("{} in / {} out tokens", usage.input_tokens, usage.output_tokens),
                );
                let stop =
                    self.stop.as_ref().map_or_else(String::new, |stop| format!(" · stop: {}", word(stop)));
                format!("✓ {name} in {} ms · {usage}{stop}", self.latency_ms)
            }
        }
    }
}

fn word(stop: &StopReason) -> String {
    match stop {
        StopReason::Unknown(word) => one_safe_line(word, 40),
        StopReason::End
        | StopReason::ToolUse
        | StopReason::Length
        | StopReason::Refusal
        | StopReason::Pause
        | StopReason::Error => {
            // silent: a word of ours always has a name.
            serde_json::to_value(stop)
                .ok()
                .and_then(|word| Some(word.as_str()?.to_owned()))
                .unwrap_or_default()
        }
    }
}

async fn ask(provider: &Arc<dyn Provider>, model: &str, idle: Duration) -> Tested {
    let begun = Instant::now();
    let reply = reply(provider.as_ref(), model, idle).await;
    let latency_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
    let mut tested = Tested {
        provider: provider.id().to_owned(),
        model: model.to_owned(),
        ok: reply.is_ok(),
        latency_ms,
        usage: None,
        stop: None,
        error: None,
        hint: None,
    };
    match reply {
        Ok((usage, stop)) => (tested.usage, tested.stop) = (usage, Some(stop)),
        Err(error) => {
            tested.error = Some(one_safe_line(&chain(&error), MAX_ERROR_BYTES));
            tested.hint = error.hint.map(|hint| one_safe_line(&hint, MAX_ERROR_BYTES));
        }
    }
    tested
}

async fn reply(
    provider: &dyn Provider,
    model: &str,
    idle: Duration,
) -> Result<(Option<Usage>, StopReason), ProviderError> {
    let stalled = |_| ProviderError::new(ProviderErrorKind::TimedOut, "no sign of life for too long");
    let session_id = SessionId::new("models-test");
    let messages = [Arc::new(Message::user(QUESTION))];
    let request = ChatRequest {
        session_id: &session_id,
        model,
        messages: &messages,
        history_generation: 0,
        tools: &Arc::from([]),
        max_output_tokens: Some(MAX_ANSWER_TOKENS),
    };
    let mut stream = timeout(idle, provider.chat(request)).await.map_err(stalled)??;
    loop {
        match timeout(idle, stream.next()).await.map_err(stalled)? {
            Some(Ok(ReplyEvent::Finished(reply))) if reply.stop == StopReason::Error => {
                return Err(ProviderError::new(
                    ProviderErrorKind::Overloaded,
                    "the reply ended with an error",
                ));
            }
            Some(Ok(ReplyEvent::Finished(reply))) => return Ok((reply.usage, reply.stop)),
            Some(Ok(
                ReplyEvent::Text(_)
                | ReplyEvent::Reasoning(_)
                | ReplyEvent::Arguments { .. }
                | ReplyEvent::KeepAlive,
            )) => {}
            Some(Err(error)) => return Err(error),
            None => {
                let words = "the stream ended before the reply was complete";
                return Err(ProviderError::new(ProviderErrorKind::Transport, words));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dollars_have_two_digits_and_as_many_as_they_need() {
        let said = [0, 50_000, 400_000, 1_250_000, 15_000_000].map(dollars);
        assert_eq!(said, ["0.00", "0.05", "0.40", "1.25", "15.00"]);
        assert_eq!(dollars(75_000), "0.075");
    }
}
