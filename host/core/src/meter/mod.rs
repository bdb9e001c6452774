//! Tokens and money of one turn, and whether its budgets allow another provider call.
//!
//! What the provider charged wins; a free model costs nothing; a rate table estimates; everything else is unknown, counts
//! as a lower bound, and is never asked under a money limit. `price.rs` has the arithmetic.

mod price;

pub use price::{ASSUMED_OUTPUT_TOKENS, cost_of, worst_case};

use crate::provider::ModelFacts;
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
    pub fn add(&mut self, stated: Option<Usage>, facts: &ModelFacts, bytes: CallBytes) -> (Usage, Cost) {
        let usage = match stated {
            Some(usage) if usage.total_tokens() > 0 => usage,
            Some(_) | None => Usage {
                input_tokens: bytes.sent.div_ceil(BYTES_PER_TOKEN),
                output_tokens: bytes.received.div_ceil(BYTES_PER_TOKEN),
                is_estimate: true,
                ..stated.unwrap_or_default()
            },
        };
        let cost = cost_of(usage, facts);
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

    /// Why no further call may be made, with the key that set the limit; `None` while the budgets allow one. `session` is
    /// the money of the whole session, this turn included.
    pub fn exhausted(&self, limits: &TurnLimits, session: Cost) -> Option<String> {
        if let Some(max) = limits.max_tokens
            && self.usage.total_tokens() >= max
        {
            let used = self.usage.total_tokens();
            return Some(format!("the turn used {used} tokens of `limits.max_tokens` = {max}"));
        }
        self.money_limits(limits, session).find_map(|limit| limit.reached().or_else(|| limit.unmeasured()))
    }

    /// Why a call that may cost up to `most` would break a money limit; `None` if there is room.
    pub fn too_dear(&self, most: u64, limits: &TurnLimits, session: Cost) -> Option<String> {
        self.money_limits(limits, session).find_map(|limit| limit.passed_by(most))
    }

    fn money_limits(&self, limits: &TurnLimits, session: Cost) -> impl Iterator<Item = MoneyLimit> {
        let limit = |whose, key, max: Option<u64>, cost| Some(MoneyLimit { whose, key, max: max?, cost });
        let turn = limit("turn", "max_cost_microdollars", limits.max_cost_microdollars, self.cost);
        let max = limits.max_session_cost_microdollars;
        let session = limit("session", "max_session_cost_microdollars", max, session);
        turn.into_iter().chain(session)
    }
}

/// A limit and what was spent of it.
struct MoneyLimit {
    whose: &'static str,
    key: &'static str,
    max: u64,
    cost: Cost,
}

impl MoneyLimit {
    fn reached(&self) -> Option<String> {
        let Self { whose, key, max, cost } = self;
        let spent = cost.microdollars;
        // A limit of 0 lets calls run that cost nothing.
        (spent >= *max && spent > 0)
            .then(|| format!("the {whose} cost {spent} micro-dollars of `limits.{key}` = {max}"))
    }

    /// Fails closed: a money limit that cannot be measured is not kept.
    fn unmeasured(&self) -> Option<String> {
        let Self { whose, key, max, cost } = self;
        let way_out =
            if *whose == "turn" { "use a model whose price is known" } else { "start a new session" };
        (cost.basis == CostBasis::Unknown).then(|| {
            format!(
                "what calls of this {whose} cost is not known, so `limits.{key}` = {max} cannot be kept\n\
                 hint: {way_out}, or remove the limit and set `limits.max_tokens`"
            )
        })
    }

    fn passed_by(&self, most: u64) -> Option<String> {
        let Self { whose, key, max, cost } = self;
        let spent = cost.microdollars;
        // Checked, not saturating: at the end of the numbers a limit of the largest one would never bite.
        let has_room = spent.checked_add(most).is_some_and(|total| total <= *max);
        (!has_room).then(|| {
            format!(
                "the {whose} cost {spent} micro-dollars of `limits.{key}` = {max} and the next call may cost up to {most}\n\
                 hint: raise the limit, or bring `max_output_tokens` down"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FREE: ModelFacts = ModelFacts {
        sees_images: None,
        is_free: true,
        context_tokens: None,
        rate: None,
        dialect: None,
        notation: None,
        is_prefilled_think: false,
    };
    const UNKNOWN: ModelFacts = ModelFacts { is_free: false, ..FREE };

    fn usage(tokens: u64, charged: Option<u64>) -> Option<Usage> {
        Some(Usage { input_tokens: tokens, charged_microdollars: charged, ..Usage::default() })
    }

    fn bytes(sent: u64) -> CallBytes {
        CallBytes { sent, received: 0 }
    }

    #[test]
    fn token_budget_counts_estimates_when_nothing_is_stated() {
        let limits = TurnLimits { max_tokens: Some(10), ..TurnLimits::default() };
        let mut meter = Meter::default();
        assert_eq!(meter.exhausted(&limits, Cost::NOTHING), None);
        meter.add(usage(9, None), &FREE, bytes(1_000_000));
        assert_eq!(meter.exhausted(&limits, Cost::NOTHING), None);
        assert!(meter.add(None, &FREE, bytes(3)).0.is_estimate);
        let why = meter.exhausted(&limits, Cost::NOTHING);
        assert!(why.is_some_and(|why| why.contains("limits.max_tokens")));
    }

    #[test]
    fn money_limit_fails_closed_when_the_price_is_unknown() {
        let limits = TurnLimits { max_cost_microdollars: Some(10), ..TurnLimits::default() };
        let mut meter = Meter::default();
        meter.add(usage(1, Some(9)), &UNKNOWN, bytes(0));
        assert_eq!(meter.exhausted(&limits, Cost::NOTHING), None);
        meter.add(usage(1, None), &UNKNOWN, bytes(0));
        assert!(meter.exhausted(&limits, Cost::NOTHING).is_some_and(|why| why.contains("hint:")));
    }

    #[test]
    fn calls_that_cost_nothing_never_reach_a_money_limit() {
        let limits = TurnLimits {
            max_cost_microdollars: Some(0),
            max_session_cost_microdollars: Some(0),
            ..TurnLimits::default()
        };
        let mut meter = Meter::default();
        meter.add(usage(5, None), &FREE, bytes(0));
        meter.add(usage(5, Some(0)), &UNKNOWN, bytes(0));
        assert_eq!(meter.exhausted(&limits, meter.cost()), None);
        assert_eq!(meter.too_dear(0, &limits, meter.cost()), None);
        assert!(meter.too_dear(1, &limits, meter.cost()).is_some());
    }

    #[test]
    fn a_limit_is_kept_to_the_last_micro_dollar() {
        let limits = TurnLimits {
            max_cost_microdollars: Some(10),
            max_session_cost_microdollars: Some(20),
            ..TurnLimits::default()
        };
        let mut meter = Meter::default();
        let (_, cost) = meter.add(usage(1, Some(9)), &UNKNOWN, bytes(0));
        let session = cost.plus(Cost { microdollars: 10, basis: CostBasis::Charged });
        assert_eq!(meter.too_dear(1, &limits, session), None);
        assert!(
            meter.too_dear(2, &limits, session).is_some_and(|why| why.contains("`limits.max_cost_micro"))
        );
        let session = session.plus(cost);
        assert!(meter.too_dear(1, &limits, session).is_some_and(|why| why.contains("max_session_cost")));
        assert!(meter.exhausted(&limits, session).is_some_and(|why| why.contains("the session cost 28")));
        let limits = TurnLimits { max_cost_microdollars: Some(u64::MAX), ..TurnLimits::default() };
        assert!(meter.too_dear(u64::MAX, &limits, session).is_some());
    }
}
