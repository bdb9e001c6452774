//! Prices of `[models."PREFIX"]`: decimal numbers of dollars per million tokens, checked where they stand.

use std::fmt;
use std::path::Path;

use hames_core::types::Rate;
use serde::Deserialize;
use serde::de::{self, Visitor};
use toml::Spanned;

use super::ModelSettings;
use super::error::{ConfigError, Place};

/// No model costs a million dollars per million tokens.
const MAX_USD_PER_MILLION: f64 = 1e6;

/// Micro-dollars per million tokens, written as dollars.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Price(u64);

impl<'de> Deserialize<'de> for Price {
    fn deserialize<D: de::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(PriceVisitor)
    }
}

struct PriceVisitor;

impl Visitor<'_> for PriceVisitor {
    type Value = Price;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("dollars per million tokens, such as 0.25")
    }

    fn visit_i64<E: de::Error>(self, dollars: i64) -> Result<Price, E> {
        self.visit_f64(dollars as f64)
    }

    fn visit_u64<E: de::Error>(self, dollars: u64) -> Result<Price, E> {
        self.visit_f64(dollars as f64)
    }

    fn visit_f64<E: de::Error>(self, dollars: f64) -> Result<Price, E> {
        // Fails closed: NaN is in no range.
        if !(0.0..=MAX_USD_PER_MILLION).contains(&dollars) {
            return Err(E::custom(format!(
                "a price is a number of dollars from 0 to {MAX_USD_PER_MILLION}, not `{dollars}`"
            )));
        }
        // In range, so the cast is exact up to a part of a micro-dollar. A price above nothing does not become nothing.
        Ok(Price(((dollars * 1e6).round() as u64).max(u64::from(dollars > 0.0))))
    }
}

impl ModelSettings {
    /// The prices, if there are any. Cached tokens cost what the input costs unless said otherwise.
    pub(super) fn rate(&self) -> Option<Rate> {
        let price = |price: &Option<Spanned<Price>>| price.as_ref().map(|price| price.get_ref().0);
        let (input, output) = (price(&self.input_usd_per_million)?, price(&self.output_usd_per_million)?);
        Some(Rate {
            input,
            output,
            cached_read: price(&self.cached_read_usd_per_million).unwrap_or(input),
            cached_write: price(&self.cached_write_usd_per_million).unwrap_or(input),
        })
    }

    /// Refuses prices that are not whole: input and output belong together.
    pub(super) fn check_prices(&self, prefix: &str, file: &Path, text: &str) -> Result<(), ConfigError> {
        let (input, output) = (&self.input_usd_per_million, &self.output_usd_per_million);
        let cached = [&self.cached_read_usd_per_million, &self.cached_write_usd_per_million];
        let Some(first) = [input, output].into_iter().chain(cached).flatten().next() else { return Ok(()) };
        let missing: Vec<&str> = [(input, "`input_usd_per_million`"), (output, "`output_usd_per_million`")]
            .into_iter()
            .filter_map(|(price, key)| price.is_none().then_some(key))
            .collect();
        if missing.is_empty() {
            return Ok(());
        }
        let message = format!("[models.\"{prefix}\"] has no {}", missing.join(" and no "));
        Err(ConfigError::Parse {
            place: Place::in_text(file, text, first.span().start),
            message,
            nearest: None,
        })
    }
}
