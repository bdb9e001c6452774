//! Why a request cannot be made to fit.

/// The context cannot be made small enough without losing what must stay.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ContextError {
    /// What every request must carry is larger than the window allows.
    #[error(
        "the request does not fit the model: {largest} and what else must stay take {prefix_tokens} of \
         {window_tokens} tokens, {over_by_tokens} too many\nhint: shorten {largest} (it takes {largest_tokens} tokens)\
         , or use a model with a larger window{guess}",
        guess = if *is_guess { "; nothing is known about this one's, so set `context.unknown_window_tokens`" } else { "" }
    )]
    PrefixTooLarge {
        /// Tokens of what must stay: system prompt, tools, first and newest message of the user, the newest round.
        prefix_tokens: u64,
        /// The most that may be sent.
        window_tokens: u64,
        /// How much is too much.
        over_by_tokens: u64,
        /// The largest part of it.
        largest: &'static str,
        /// Its size.
        largest_tokens: u64,
        /// The window is a guess.
        is_guess: bool,
    },
}
