//! Regions of a reply that are never searched for calls: thinking, results that the model made up, declarations that it
//! repeats, comments. And the tokens with which a turn ends, which are no text.

/// What a region's content is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Content {
    Thinking,
    /// A tool's result, written by the model: made up.
    Result,
    /// The tools as they were declared to the model, a comment, code or an example in HTML: text that is only quoted.
    Quoted,
}

/// A region between two tags.
#[derive(Debug)]
pub(super) struct Region {
    pub(super) open: &'static str,
    pub(super) close: &'static str,
    pub(super) content: Content,
}

const fn region(open: &'static str, close: &'static str, content: Content) -> Region {
    Region { open, close, content }
}

/// The region that a prompt opens.
pub(super) const THINK: &Region = &region("<think>", "</think>", Content::Thinking);

pub(super) const REGIONS: &[Region] = &[
    region("<think>", "</think>", Content::Thinking),
    region("<thinking>", "</thinking>", Content::Thinking),
    region("<think ", "</think>", Content::Thinking),
    region("<thinking ", "</thinking>", Content::Thinking),
    region("<thought>", "</thought>", Content::Thinking),
    region("<reasoning>", "</reasoning>", Content::Thinking),
    region("<seed:think>", "</seed:think>", Content::Thinking),
    region("[THINK]", "[/THINK]", Content::Thinking),
    region("<tool_response>", "</tool_response>", Content::Result),
    region("<tool_result>", "</tool_result>", Content::Result),
    region("<tool_results>", "</tool_results>", Content::Result),
    region("<tool_output>", "</tool_output>", Content::Result),
    region("<function_response>", "</function_response>", Content::Result),
    region("<function_result>", "</function_result>", Content::Result),
    region("<function_results>", "</function_results>", Content::Result),
    // The same with attributes, as this harness writes them.
    region("<tool_response ", "</tool_response>", Content::Result),
    region("<tool_result ", "</tool_result>", Content::Result),
    region("<tool_results ", "</tool_results>", Content::Result),
    region("<tool_output ", "</tool_output>", Content::Result),
    region("<function_response ", "</function_response>", Content::Result),
    region("<function_result ", "</function_result>", Content::Result),
    region("<function_results ", "</function_results>", Content::Result),
    region("[TOOL_RESULTS]", "[/TOOL_RESULTS]", Content::Result),
    region("<tools>", "</tools>", Content::Quoted),
    region("<!--", "-->", Content::Quoted),
    region("<pre>", "</pre>", Content::Quoted),
    region("<code>", "</code>", Content::Quoted),
    region("<example>", "</example>", Content::Quoted),
    region("[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]", Content::Quoted),
];

/// Tokens that end a turn. At the end of a reply they are left out.
pub(super) const END_TOKENS: &[&str] = &[
    "<|im_end|>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|end|>",
    "<|return|>",
    "<|eos|>",
    "<end_of_turn>",
    "<eos>",
    "</s>",
    "<｜end▁of▁sentence｜>",
];

/// Tokens that begin somebody's turn. What follows was made up.
pub(super) const TURN_TOKENS: &[&str] =
    &["<|im_start|>", "<|start_header_id|>", "<start_of_turn>", "<｜User｜>"];

/// How the beginning of a text compares to a marker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Match {
    Full,
    /// The text is too short to tell.
    Partial,
    No,
}

/// Compares the beginning of `text` to `marker`.
pub(super) fn compare(text: &str, marker: &str, ignores_case: bool) -> Match {
    let len = text.len().min(marker.len());
    let (found, wanted) = (text.as_bytes().get(..len), marker.as_bytes().get(..len));
    let (Some(found), Some(wanted)) = (found, wanted) else { return Match::No };
    let is_same = if ignores_case { found.eq_ignore_ascii_case(wanted) } else { found == wanted };
    match is_same {
        false => Match::No,
        true if len == marker.len() => Match::Full,
        true => Match::Partial,
    }
}

/// The first marker that matches in full, else whether one may still.
pub(super) fn first_match<T>(
    text: &str,
    markers: impl Iterator<Item = (T, &'static str, bool)>,
) -> (Match, Option<T>) {
    let mut found = Match::No;
    for (item, marker, ignores_case) in markers {
        match compare(text, marker, ignores_case) {
            Match::Full => return (Match::Full, Some(item)),
            Match::Partial => found = Match::Partial,
            Match::No => {}
        }
    }
    (found, None)
}
