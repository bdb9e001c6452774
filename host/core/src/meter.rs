//! Tokens and money of one turn, and whether its budgets allow another provider call.
//!
//! What the provider states wins; a free model costs nothing; everything else is unknown and counts as a lower bound.
//! Prices by rate table are not here yet.

use crate::types::{Cost, CostBasis, TurnLimits, Usage};

/// Bytes of text that stand for one token where the provider states no usage. On the low side for prose, so that a token
/// budget is rather reached too early than never.
const BYTES_PER_TOKEN: u64 = 3;

/// Adds up a turn.
#[derive(Debug, Clone)]
pub struct Meter {
    usage: Usage,
    cost: Cost,
}

impl Default for Meter {
    fn default() -> Self {
        Self { usage: Usage::default(), cost: Cost::NOTHING }
    }
}

/// Size of one provider call, for providers that state no usage.
#[derive(Debug, Clone, Copy)]
pub struct CallBytes {
    /// The messages that were sent.
    pub sent: u64,
    /// The reply.
    pub received: u64,
}

impl Meter {
    /// Adds one provider call; returns its usage, estimated from `bytes` if none was stated, and its cost.
    pub fn add(&mut self, stated: Option<Usage>, is_free: bool, bytes: CallBytes) -> (Usage, Cost) {
        let cost = cost_of(stated, is_free);
        let usage = match stated {
            Some(usage) if usage.total_tokens() > 0 => usage,
            Some(_) | None => Usage {
                input_tokens: bytes.sent.div_ceil(BYTES_PER_TOKEN),
                output_tokens: bytes.received.div_ceil(BYTES_PER_TOKEN),
                is_estimate: true,
                ..stated.unwrap_or_default()
            },
        };
        self.usage = self.usage.plus(usage);
        self.cost = self.cost.plus(cost);
        (usage, cost)
    }

    /// Usage of the turn so far.
    pub fn usage(&self) -> Usage {
        self.usage
    }

    /// Money of the turn so far.
    pub fn cost(&self) -> Cost {
        self.cost
    }

    /// Why no further call may be made, with the key that set the limit; `None` while the budgets allow one.
    pub fn exhausted(&self, limits: &TurnLimits) -> Option<String> {
        if let Some(max) = limits.max_tokens
            && self.usage.total_tokens() >= max
        {
            let used = self.usage.total_tokens();
            return Some(format!("the turn used {used} tokens of `limits.max_tokens` = {max}"));
        }
        let max = limits.max_cost_microdollars?;
        if self.cost.microdollars >= max && (max > 0 || self.cost.basis != CostBasis::Free) {
            return Some(format!(
                "the turn cost {} micro-dollars of `limits.max_cost_microdollars` = {max}",
                self.cost.microdollars
            ));
        }
        // Fails closed: a money limit that cannot be measured is not kept.
        (self.cost.basis == CostBasis::Unknown).then(|| {
            format!(
                "what the model costs is not known, so `limits.max_cost_microdollars` = {max} cannot be kept\n\
                 hint: remove it and set `limits.max_tokens`"
            )
        })
    }
}

/// Charged over free over unknown: a stated charge is the truth even for a model that is thought to be free.
fn cost_of(usage: Option<Usage>, is_free: bool) -> Cost {
    match usage.and_then(|usage| usage.charged_microdollars) {
        Some(microdollars) => Cost { microdollars, basis: CostBasis::Charged },
        None if is_free => Cost { microdollars: 0, basis: CostBasis::Free },
        None => Cost { microdollars: 0, basis: CostBasis::Unknown },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(tokens: u64, charged: Option<u64>) -> Option<Usage> {
        Some(Usage { input_tokens: tokens, charged_microdollars: charged, ..Usage::default() })
    }

    fn bytes(sent: u64) -> CallBytes {
        CallBytes { sent, received: 0 }
    }

    #[test]
    fn charged_wins_over_free_over_unknown() {
        assert_eq!(cost_of(usage(1, Some(0)), false), Cost { microdollars: 0, basis: CostBasis::Charged });
        assert_eq!(cost_of(usage(1, Some(7)), true), Cost { microdollars: 7, basis: CostBasis::Charged });
        assert_eq!(cost_of(usage(1, None), true).basis, CostBasis::Free);
        assert_eq!(cost_of(None, false).basis, CostBasis::Unknown);
    }

    #[test]
    fn token_budget_counts_estimates_when_nothing_is_stated() {
        let limits = TurnLimits { max_tokens: Some(10), ..TurnLimits::default() };
        let mut meter = Meter::default();
        assert_eq!(meter.exhausted(&limits), None);
        meter.add(usage(9, None), true, bytes(1_000_000));
        assert_eq!(meter.exhausted(&limits), None);
        assert!(meter.add(None, true, bytes(3)).0.is_estimate);
        assert!(meter.exhausted(&limits).is_some_and(|why| why.contains("limits.max_tokens")));
    }

    #[test]
    fn money_limit_fails_closed_when_the_price_is_unknown() {
        let limits = TurnLimits { max_cost_microdollars: Some(10), ..TurnLimits::default() };
        let mut meter = Meter::default();
        meter.add(usage(1, Some(9)), false, bytes(0));
        assert_eq!(meter.exhausted(&limits), None);
        meter.add(usage(1, None), false, bytes(0));
        assert!(meter.exhausted(&limits).is_some_and(|why| why.contains("hint:")));
    }

    #[test]
    fn free_models_never_reach_a_money_limit() {
        let limits = TurnLimits { max_cost_microdollars: Some(0), ..TurnLimits::default() };
        let mut meter = Meter::default();
        meter.add(usage(5, None), true, bytes(0));
        assert_eq!(meter.exhausted(&limits), None);
    }
}
