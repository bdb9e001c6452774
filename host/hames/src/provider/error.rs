//! Why no model can be asked, and exactly what to set.

use std::path::PathBuf;

use hames_providers::ProviderConfigError;
use hames_providers::recorded::ProviderFileError;

use super::all_names;
use crate::config::ConfigError;

/// Why no model can be asked.
#[derive(Debug, thiserror::Error)]
pub enum ProviderChoiceError {
    /// Nothing was set and nothing was found.
    #[error("no model to ask: no provider is set, no API key is in the environment, no local server answers")]
    NothingFound,
    /// The name means nothing.
    #[error("no provider is named `{name}`")]
    UnknownProvider {
        /// The name.
        name: String,
        /// The nearest one.
        nearest: Option<String>,
    },
    /// A hosted provider without its key.
    #[error("provider `{name}` needs an API key and `{variable}` is not set")]
    NoKey {
        /// The provider.
        name: String,
        /// The variable that is looked at.
        variable: &'static str,
    },
    /// A configured credential would be readable on the way.
    #[error("the API key of provider `{name}` is not sent to `{base_url}`: plain HTTP to another machine")]
    KeyInClear {
        /// The provider.
        name: String,
        /// The address.
        base_url: String,
    },
    /// A model alone does not tell whom to ask.
    #[error("`{model}` names no provider, no API key is in the environment, no local server answers")]
    NoProvider {
        /// The model.
        model: String,
    },
    /// A provider of the user's own without an address.
    #[error("provider `{name}` has no `base_url`")]
    NoBaseUrl {
        /// The provider.
        name: String,
    },
    /// The provider is known, the model is not.
    #[error("no model is named for provider `{name}`")]
    NoModel {
        /// The provider.
        name: String,
    },
    /// No such route.
    #[error("no route is named `{name}`")]
    UnknownRoute {
        /// The name.
        name: String,
        /// The nearest one.
        nearest: Option<String>,
        /// Those that there are.
        known: String,
    },
    /// None of its candidates can be asked.
    #[error("nobody of route `{name}` can be asked{}", listed(left_out))]
    NobodyInRoute {
        /// The route.
        name: String,
        /// Each candidate with the reason.
        left_out: Vec<String>,
    },
    /// A route and one address.
    #[error("route `{name}` has addresses of its own, and {origin} sets one for all")]
    RouteWithAddress {
        /// The route.
        name: String,
        /// Who sets the address.
        origin: String,
    },
    /// A route and one provider.
    #[error("route `{name}` names its own providers, and --provider names `{provider}`")]
    RouteWithProvider {
        /// The route.
        name: String,
        /// The provider.
        provider: String,
    },
    /// A setting is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The endpoint cannot be used.
    #[error(transparent)]
    Endpoint(#[from] ProviderConfigError),
    /// The recording cannot be read.
    #[error("cannot read the recording `{}`", path.display())]
    ReadRecording {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// The recording is wrong.
    #[error(transparent)]
    Recording(#[from] ProviderFileError),
}

fn listed(left_out: &[String]) -> String {
    left_out.iter().map(|line| format!("\n  {line}")).collect()
}

impl ProviderChoiceError {
    /// What the reader can do.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NothingFound => Some(
                "do one of these:\n  export OPENAI_API_KEY=…          (or OPENROUTER_API_KEY, GEMINI_API_KEY, …)\n  \
                 start Ollama or llama.cpp on its usual port\n  add `--model MODEL --base-url \
                 http://HOST:PORT/v1` for any other server"
                    .to_owned(),
            ),
            Self::UnknownProvider { nearest, .. } => Some(match nearest {
                Some(name) => format!("did you mean `{name}`?"),
                None => format!("known: {}; define others as [providers.NAME] in hames.toml", all_names().join(", ")),
            }),
            Self::NoKey { variable, .. } => Some(format!("export {variable}=…")),
            Self::KeyInClear { .. } => Some(
                "use `https://`, or an address of this machine or of a private network (such as 192.168.0.2)"
                    .to_owned(),
            ),
            Self::NoProvider { model } => Some(format!(
                "write the provider before it, as in `openai/{model}` (known: {}), or add `--base-url`",
                all_names().join(", ")
            )),
            Self::NoBaseUrl { name } => Some(format!("set `base_url` under [providers.{name}] in hames.toml")),
            Self::NoModel { name } => Some(format!("add `--model {name}/MODEL`, or set `model` in hames.toml")),
            Self::UnknownRoute { nearest: Some(name), .. } => Some(format!("did you mean `hint:{name}`?")),
            Self::UnknownRoute { name, known, .. } => {
                let known = if known.is_empty() { String::new() } else { format!(" (there are: {known})") };
                Some(format!("add `{name} = [\"PROVIDER/MODEL\"]` under [routes] in hames.toml{known}"))
            }
            Self::NobodyInRoute { left_out, .. } if left_out.is_empty() => {
                Some("start Ollama, llama.cpp, LM Studio or vLLM on its usual port".to_owned())
            }
            Self::NobodyInRoute { .. } => Some("set one of these keys, or name other models in the route".to_owned()),
            Self::RouteWithAddress { .. } => {
                Some("leave it out, or name a model of your own in place of the route".to_owned())
            }
            Self::RouteWithProvider { .. } => Some("leave one of the two out".to_owned()),
            Self::Config(error) => error.hint(),
            Self::ReadRecording { .. } => Some("`recorded:` is followed by the path of a file".to_owned()),
            Self::Endpoint(_) | Self::Recording(_) => None,
        }
    }
}
