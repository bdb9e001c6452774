//! Errors in words (the message, then the causes that it does not already contain) and counted things.

pub(crate) use hames_core::results::chain;

/// `1 tool`, `2 tools`.
pub(crate) fn counted<N: Copy + std::fmt::Display + PartialEq + From<u8>>(number: N, thing: &str) -> String {
    let ending = if number == N::from(1) { "" } else { "s" };
    format!("{number} {thing}{ending}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thing_is_no_plural() {
        assert_eq!(
            [counted(0, "tool"), counted(1, "tool"), counted(2, "tool")],
            ["0 tools", "1 tool", "2 tools"]
        );
    }
}
