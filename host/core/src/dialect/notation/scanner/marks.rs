//! What may stand at a byte of ordinary text besides an opener.

use crate::dialect::notation::Opener;
use crate::dialect::notation::byte_set::ByteSet;
use crate::dialect::notation::regions::{
    Content, END_TOKENS, Match, REGIONS, Region, TURN_TOKENS, first_match,
};

/// Something that is neither text nor an opener.
#[derive(Debug, Clone, Copy)]
pub(super) enum Mark {
    Region(&'static Region),
    /// The end of a thinking block that never began here.
    StrayClose(&'static str),
    EndToken,
    TurnToken,
}

/// The text is too short to tell.
pub(super) struct Undecided;

fn thinking_closes() -> impl Iterator<Item = &'static str> {
    REGIONS.iter().filter(|region| region.content == Content::Thinking).map(|region| region.close)
}

/// The bytes with which any of this may begin.
pub(super) fn firsts(openers: &[Opener]) -> ByteSet {
    let mut firsts = vec![b'\n', b'`', b'<'];
    let opens = REGIONS.iter().map(|region| region.open);
    for text in opens.chain(thinking_closes()).chain(END_TOKENS.iter().chain(TURN_TOKENS).copied()) {
        firsts.extend(text.bytes().take(1));
    }
    for opener in openers {
        for first in opener.text.bytes().take(1) {
            firsts.push(first);
            if opener.ignores_case {
                firsts.extend([first.to_ascii_lowercase(), first.to_ascii_uppercase()]);
            }
        }
    }
    ByteSet::new(&firsts)
}

/// The bytes that may stand behind the first one of any of this: most marks are told from text by them. Every byte where
/// some mark is a single byte long.
pub(super) fn seconds(openers: &[Opener]) -> ByteSet {
    let fixed = REGIONS.iter().flat_map(|region| [region.open, region.close]);
    let fixed = fixed.chain(END_TOKENS.iter().chain(TURN_TOKENS).copied());
    let all = fixed.map(|text| (text, true));
    let all = all.chain(openers.iter().map(|opener| (opener.text, opener.ignores_case)));
    let mut seconds = Vec::new();
    for (text, ignores_case) in all {
        let Some(second) = text.as_bytes().get(1).copied() else {
            return ByteSet::new(&Vec::from_iter(0..=u8::MAX));
        };
        seconds.push(second);
        if ignores_case {
            seconds.extend([second.to_ascii_lowercase(), second.to_ascii_uppercase()]);
        }
    }
    ByteSet::new(&seconds)
}

/// What stands at the start of `text`, openers aside.
pub(super) fn find(text: &str, is_whole: bool) -> Result<Option<Mark>, Undecided> {
    let opens = REGIONS.iter().map(|region| (Mark::Region(region), region.open, true));
    let closes = thinking_closes().map(|close| (Mark::StrayClose(close), close, true));
    let ends = END_TOKENS.iter().map(|token| (Mark::EndToken, *token, false));
    let turns = TURN_TOKENS.iter().map(|token| (Mark::TurnToken, *token, false));
    match first_match(text, opens.chain(closes).chain(ends).chain(turns)) {
        (Match::Full, mark) => Ok(mark),
        (Match::Partial, _) if !is_whole => Err(Undecided),
        (Match::Partial | Match::No, _) => Ok(None),
    }
}
