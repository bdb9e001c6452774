//! The built-in tables as one list, for people who look for a model: prices by provider, windows and notations by family.

use hames_core::types::{DialectKind, Notation, Rate};

use crate::detect::KNOWN_PROVIDERS;
use crate::models::ModelTable;
use crate::rates::RateTable;

/// A family of models: every model whose name begins so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownFamily {
    /// The known provider whose price this is; `None` for families of which only facts are known.
    pub provider: Option<&'static str>,
    /// How its models' names begin.
    pub family: String,
    /// Size of the window at a hosted API.
    pub context_tokens: Option<u64>,
    /// List price.
    pub rate: Option<Rate>,
    /// How calls are written where a server of this machine runs it, if not natively.
    pub local_dialect: Option<DialectKind>,
    /// The notation that it was trained on.
    pub notation: Option<Notation>,
}

/// All of them: priced ones by provider, then the rest by name.
pub fn known_families() -> Vec<KnownFamily> {
    let (models, rates) = (ModelTable::built_in(), RateTable::built_in());
    let facts = |provider, family: &str, rate| KnownFamily {
        provider,
        family: family.to_owned(),
        context_tokens: models.context_tokens(family),
        rate,
        local_dialect: models.local_dialect(family),
        notation: models.notation(family),
    };
    let mut known = Vec::new();
    for provider in KNOWN_PROVIDERS {
        let Some(base_url) = provider.base_url else { continue };
        for family in rates.families_at(base_url) {
            known.push(facts(Some(provider.id), family, rates.rate(base_url, family)));
        }
    }
    let mut rest: Vec<&str> =
        models.prefixes().filter(|prefix| known.iter().all(|priced| priced.family != *prefix)).collect();
    rest.sort_unstable();
    known.extend(rest.into_iter().map(|family| facts(None, family, None)));
    known
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "test")]

    use super::*;

    #[test]
    fn a_family_has_the_price_of_its_provider_and_the_window_of_its_prefix() {
        let known = known_families();
        let mini = known.iter().find(|known| known.family == "gpt-4.1-mini").unwrap();
        assert_eq!((mini.provider, mini.context_tokens), (Some("openai"), Some(1_047_576)));
        assert_eq!(mini.rate.map(|rate| (rate.input, rate.output)), Some((400_000, 1_600_000)));
        let hermes = known.iter().find(|known| known.family == "smollm").unwrap();
        assert_eq!((hermes.provider, hermes.rate, hermes.notation), (None, None, Some(Notation::Hermes)));
        assert!(known.iter().all(|known| known.provider.is_some() == known.rate.is_some()));
    }
}
