//! `[routes]`: names for ordered lists of providers with models. `--model hint:NAME` chooses one.
//!
//! Only the user's own file has them: who is asked is a matter of money and of who may read along.

use std::collections::BTreeMap;

use serde::Deserialize;

/// What stands before a route's name where a model is named.
pub(crate) const HINT: &str = "hint:";
/// Names that hames itself looks for or that users expect; any other may be used too.
pub(crate) const USUAL_ROUTES: [&str; 6] =
    ["chat", "reasoning", "agentic", "coding", "summarization", "local"];
/// Beyond this it is a mistake, not a route.
const MAX_ENTRIES: usize = 32;

/// One entry of a route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteEntry {
    /// The provider's name.
    pub provider: String,
    /// The model, as the provider calls it.
    pub model: String,
}

/// The user's routes.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(try_from = "BTreeMap<String, Vec<String>>")]
pub struct Routes {
    by_name: BTreeMap<String, Vec<RouteEntry>>,
}

impl Routes {
    /// The entries of a route, in the order in which they are asked.
    pub fn get(&self, name: &str) -> Option<&[RouteEntry]> {
        self.by_name.get(name).map(Vec::as_slice)
    }

    /// All routes, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[RouteEntry])> {
        self.by_name.iter().map(|(name, entries)| (name.as_str(), entries.as_slice()))
    }
}

impl TryFrom<BTreeMap<String, Vec<String>>> for Routes {
    type Error = String;

    fn try_from(written: BTreeMap<String, Vec<String>>) -> Result<Self, String> {
        let mut by_name = BTreeMap::new();
        for (name, entries) in written {
            let is_name =
                !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'));
            if !is_name {
                let name = shown(&name);
                return Err(format!(
                    "the name of a route has letters, digits, `-` and `_` only, not `{name}`"
                ));
            }
            if entries.is_empty() || entries.len() > MAX_ENTRIES {
                return Err(format!(
                    "route `{name}` needs 1 to {MAX_ENTRIES} models, and has {}",
                    entries.len()
                ));
            }
            let parsed: Result<Vec<RouteEntry>, String> =
                entries.iter().map(|text| entry(&name, text)).collect();
            by_name.insert(name, parsed?);
        }
        Ok(Self { by_name })
    }
}

fn entry(route: &str, text: &str) -> Result<RouteEntry, String> {
    match text.split_once('/') {
        Some((provider, model)) if !provider.is_empty() && !model.is_empty() && !text.starts_with(HINT) => {
            Ok(RouteEntry { provider: provider.to_owned(), model: model.to_owned() })
        }
        Some(_) | None => Err(format!(
            "route `{route}`: `{}` is not written as `PROVIDER/MODEL`, such as `openai/gpt-4.1-mini`",
            shown(text)
        )),
    }
}

fn shown(text: &str) -> String {
    text.chars().take(60).collect()
}
