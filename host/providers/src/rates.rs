//! List prices of hosted models, for estimates and for room to be set aside before a call.
//!
//! The table is data (`rates.json`), by the page that states the prices and the day on which they stood there. A price
//! belongs to a host: the same open model costs something else elsewhere. What is not in the table is unknown, never free;
//! a model that came later than its family's entry (`gpt-5.9` after `gpt-5`) is not taken for it.

use hames_core::types::Rate;
use reqwest::Url;
use serde::Deserialize;

#[derive(Debug, Deserialize)]
struct Table {
    pages: Vec<Page>,
}

#[derive(Debug, Deserialize)]
struct Page {
    hosts: Vec<String>,
    /// How routers call the vendor.
    vendors: Vec<String>,
    families: Vec<Family>,
}

/// Dollars per million tokens.
#[derive(Debug, Deserialize)]
struct Family {
    prefix: String,
    input: f64,
    output: f64,
    cached_read: Option<f64>,
    cached_write: Option<f64>,
}

/// A router that passes the vendors' list prices on. It also states its charge; the table is for before the call.
const ROUTER_HOST: &str = "openrouter.ai";

/// The prices of known families.
#[derive(Debug)]
pub(crate) struct RateTable {
    pages: Vec<Page>,
}

impl RateTable {
    /// The table that is compiled in.
    pub(crate) fn built_in() -> Self {
        #[expect(clippy::expect_used, reason = "the file is part of this crate and a test reads it")]
        let table: Table = serde_json::from_str(include_str!("rates.json")).expect("rates.json is valid");
        Self { pages: table.pages }
    }

    /// How the names of all families begin that have a price at the host of `base_url`.
    pub(crate) fn families_at(&self, base_url: &str) -> impl Iterator<Item = &str> {
        let host = Url::parse(base_url).ok().and_then(|url| url.host_str().map(str::to_owned));
        let pages =
            self.pages.iter().filter(move |page| host.as_ref().is_some_and(|host| page.hosts.contains(host)));
        pages.flat_map(|page| page.families.iter().map(|family| family.prefix.as_str()))
    }

    /// What a model costs at the host of `base_url`: the family with the longest prefix that ends where a part of the
    /// name ends.
    pub(crate) fn rate(&self, base_url: &str, model: &str) -> Option<Rate> {
        let url = Url::parse(base_url).ok()?;
        let host = url.host_str()?;
        let model = model.to_ascii_lowercase();
        let (vendor, name) = model.rsplit_once('/').unwrap_or(("", &model));
        let page = self.pages.iter().find(|page| {
            if host == ROUTER_HOST {
                page.vendors.iter().any(|known| known == vendor)
            } else {
                page.hosts.iter().any(|known| known == host)
            }
        })?;
        let is_of = |family: &&Family| {
            let rest = name.strip_prefix(family.prefix.as_str());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['-', ':', '@']))
        };
        let family = page.families.iter().filter(is_of).max_by_key(|family| family.prefix.len())?;
        Some(Rate {
            input: microdollars(family.input),
            output: microdollars(family.output),
            cached_read: microdollars(family.cached_read.unwrap_or(family.input)),
            cached_write: microdollars(family.cached_write.unwrap_or(family.input)),
        })
    }
}

/// A cast from float saturates, and takes what is no number for 0: a test looks at every number of the table.
fn microdollars(dollars: f64) -> u64 {
    (dollars * 1e6).round() as u64
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "test")]

    use super::*;
    use crate::detect::KNOWN_PROVIDERS;

    #[test]
    fn a_price_belongs_to_a_host_and_a_family() {
        let table = RateTable::built_in();
        let rate =
            |input, output, cached_read, cached_write| Rate { input, output, cached_read, cached_write };
        let openai = "https://api.openai.com/v1";
        let mini = rate(150_000, 600_000, 75_000, 150_000);
        assert_eq!(table.rate(openai, "gpt-4o-mini-2024-07-18"), Some(mini));
        assert_eq!(table.rate("https://openrouter.ai/api/v1", "openai/GPT-4o-mini:nitro"), Some(mini));
        let sonnet = rate(3_000_000, 15_000_000, 300_000, 3_750_000);
        assert_eq!(table.rate("https://api.anthropic.com", "claude-sonnet-4-5-20250929"), Some(sonnet));
        let oss = rate(100_000, 500_000, 100_000, 100_000);
        assert_eq!(table.rate("https://api.groq.com/openai/v1", "openai/gpt-oss-20b"), Some(oss));
        for (base_url, model) in [
            (openai, "gpt-4.9"),
            (openai, "gpt-oss-20b"),
            (openai, "claude-sonnet-4"),
            ("https://proxy.example/v1", "gpt-4o"),
            ("https://api.openai.com.example/v1", "gpt-4o"),
            ("https://openrouter.ai/api/v1", "someone/gpt-4o"),
            ("https://openrouter.ai/api/v1", "gpt-4o"),
            ("nonsense", "gpt-4o"),
        ] {
            assert_eq!(table.rate(base_url, model), None, "{model} at {base_url}");
        }
    }

    #[test]
    fn every_number_is_a_price_in_whole_micro_dollars() {
        for family in RateTable::built_in().pages.iter().flat_map(|page| &page.families) {
            let Family { prefix, input, output, cached_read, cached_write } = family;
            for dollars in [Some(*input), Some(*output), *cached_read, *cached_write].into_iter().flatten() {
                assert!(dollars.is_finite() && dollars > 0.0 && dollars < 1000.0, "{prefix}: {dollars}");
                let exact = microdollars(dollars) as f64 / 1e6;
                assert!((exact - dollars).abs() < 1e-9, "{prefix}: {dollars} has more than six places");
            }
            assert!(
                cached_read.is_none_or(|cached| cached <= *input),
                "{prefix}: a cache does not cost more"
            );
            assert_eq!(*prefix, prefix.to_ascii_lowercase());
        }
    }

    #[test]
    fn every_page_names_its_source_and_its_day() {
        let table: serde_json::Value = serde_json::from_str(include_str!("rates.json")).unwrap();
        for page in table.get("pages").unwrap().as_array().unwrap() {
            let text = |key| page.get(key).unwrap().as_str().unwrap();
            assert!(text("source").starts_with("https://"));
            assert!(text("dated").len() == 10 && text("dated").starts_with("20"));
        }
    }

    #[test]
    fn the_model_that_a_known_provider_asks_by_default_has_a_price() {
        let table = RateTable::built_in();
        for known in KNOWN_PROVIDERS {
            let (Some(base_url), Some(model)) = (known.base_url, known.default_model) else { continue };
            assert!(table.rate(base_url, model).is_some(), "{}", known.id);
        }
    }
}
