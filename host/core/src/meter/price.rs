//! What one provider call costs, and what it may cost at most.

use crate::provider::ModelFacts;
use crate::types::{Cost, CostBasis, Rate, Usage};

/// Tokens of a reply whose length nobody limits (`max_output_tokens`), for the reservation before the call. A longer reply
/// is paid for all the same; what it passes a cap by stops the next call.
pub const ASSUMED_OUTPUT_TOKENS: u64 = 4096;
/// Bytes that stand for one token in a reservation: fewer than in prose, as tool results are often code or numbers.
const BYTES_PER_RESERVED_TOKEN: u64 = 2;
const MILLION: u128 = 1_000_000;

impl Rate {
    /// Micro-dollars of these tokens, each part priced once, rounded up; saturates.
    pub fn microdollars(&self, usage: Usage) -> u64 {
        let read = usage.cached_read_tokens.min(usage.input_tokens);
        let written = usage.cached_write_tokens.min(usage.input_tokens - read);
        let fresh = usage.input_tokens - read - written;
        let parts = [
            (fresh, self.input),
            (read, self.cached_read),
            (written, self.cached_write),
            // Reasoning is a part of it and has no price of its own.
            (usage.output_tokens, self.output),
        ];
        // Two factors of 64 bits fit 128; four of their products may not.
        let product = |(tokens, rate): (u64, u64)| u128::from(tokens) * u128::from(rate);
        let total = parts.into_iter().map(product).fold(0_u128, u128::saturating_add);
        u64::try_from(total.div_ceil(MILLION)).unwrap_or(u64::MAX)
    }
}

/// Charged over free over the rate table: a stated charge is the truth even for a model that is thought to be free. A
/// charge of 0 is a charge.
pub fn cost_of(usage: Usage, facts: &ModelFacts) -> Cost {
    match (usage.charged_microdollars, facts.is_free, facts.rate) {
        (Some(microdollars), _, _) => Cost { microdollars, basis: CostBasis::Charged },
        (None, true, _) => Cost { microdollars: 0, basis: CostBasis::Free },
        (None, false, Some(rate)) => {
            Cost { microdollars: rate.microdollars(usage), basis: CostBasis::Estimated }
        }
        (None, false, None) => Cost { microdollars: 0, basis: CostBasis::Unknown },
    }
}

/// The most that a call may cost: nothing of the input is read from a cache, and the reply is as long as it may be.
pub fn worst_case(rate: &Rate, sent_bytes: u64, max_output_tokens: Option<u32>) -> u64 {
    let rate = Rate { input: rate.input.max(rate.cached_write).max(rate.cached_read), ..*rate };
    rate.microdollars(Usage {
        input_tokens: sent_bytes.div_ceil(BYTES_PER_RESERVED_TOKEN),
        output_tokens: max_output_tokens.map_or(ASSUMED_OUTPUT_TOKENS, u64::from),
        ..Usage::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: Rate =
        Rate { input: 3_000_000, output: 15_000_000, cached_read: 300_000, cached_write: 3_750_000 };

    fn facts(is_free: bool, rate: Option<Rate>) -> ModelFacts {
        ModelFacts { is_free, rate, ..ModelFacts::default() }
    }

    #[test]
    fn every_part_is_priced_once() {
        let usage = Usage {
            input_tokens: 1_000_000,
            output_tokens: 100_000,
            cached_read_tokens: 600_000,
            cached_write_tokens: 200_000,
            reasoning_tokens: 90_000,
            ..Usage::default()
        };
        // 200,000 fresh at 3, 600,000 read at 0.3, 200,000 written at 3.75, 100,000 out at 15 dollars per million.
        assert_eq!(RATE.microdollars(usage), 600_000 + 180_000 + 750_000 + 1_500_000);
        let one = Usage { input_tokens: 1, cached_read_tokens: 1, ..Usage::default() };
        assert_eq!(RATE.microdollars(one), 1, "rounded up: a part of a micro-dollar is not nothing");
    }

    #[test]
    fn parts_are_never_more_than_the_whole_and_sums_saturate() {
        let wrong =
            Usage { input_tokens: 10, cached_read_tokens: 99, cached_write_tokens: 99, ..Usage::default() };
        assert_eq!(RATE.microdollars(wrong), 3);
        let most = u64::MAX;
        let rate = Rate { input: most, output: most, cached_read: most, cached_write: most };
        let usage = Usage { input_tokens: most, output_tokens: most, ..Usage::default() };
        assert_eq!(rate.microdollars(usage), most);
    }

    #[test]
    fn charged_over_free_over_table_over_unknown() {
        let usage =
            |charged| Usage { input_tokens: 1_000_000, charged_microdollars: charged, ..Usage::default() };
        let cost = |microdollars, basis| Cost { microdollars, basis };
        assert_eq!(cost_of(usage(Some(0)), &facts(false, Some(RATE))), cost(0, CostBasis::Charged));
        assert_eq!(cost_of(usage(Some(7)), &facts(true, None)), cost(7, CostBasis::Charged));
        assert_eq!(cost_of(usage(None), &facts(true, Some(RATE))), cost(0, CostBasis::Free));
        assert_eq!(cost_of(usage(None), &facts(false, Some(RATE))), cost(3_000_000, CostBasis::Estimated));
        assert_eq!(cost_of(usage(None), &facts(false, None)), cost(0, CostBasis::Unknown));
    }

    #[test]
    fn the_worst_case_takes_the_dearest_input_and_a_full_reply() {
        // 500 tokens at 3.75 and 100 at 15 dollars per million.
        assert_eq!(worst_case(&RATE, 1_000, Some(100)), 1_875 + 1_500);
        assert_eq!(worst_case(&RATE, 0, None), 4_096 * 15);
        assert_eq!(worst_case(&RATE, u64::MAX, None), u64::MAX);
    }
}
