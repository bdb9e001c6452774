//! How many tokens the next request carries, counted as the history grows.
//!
//! The provider's own figure for the last request is the anchor; what came after it is estimated from the kinds of
//! characters, times a factor that is learned from such figures. Where nothing was stated yet a tokenizer can set the
//! anchor. The cost of counting a message is paid once. Estimates err on the high side, so the factor only corrects
//! upwards: a figure for one kind of text (a catalogue of tools) says too little about the next (prose).

use std::sync::Arc;

use crate::provider::TokenCounter;
use crate::types::{Image, Message, ToolSpec};

/// What a provider adds around a message: role, separators.
const MESSAGE_TOKENS: f64 = 4.0;
/// The factor stays between these. The lower bound keeps what is new from being counted by the measure of what is there;
/// the upper one keeps an odd figure from making the count useless.
const FACTORS: (f64, f64) = (1.0, 3.0);
/// One stated figure moves the factor by no more than this.
const MAX_STEP: f64 = 1.5;
/// What a provider may count without our seeing it: its own instructions and templates.
const HIDDEN_TOKENS: u64 = 2_000;

/// Counts one session's requests.
#[derive(Debug, Clone)]
pub struct TokenCount {
    generation: u64,
    /// Uncorrected estimates of the messages, as sent, one running sum per message.
    sums: Vec<f64>,
    bytes: u64,
    tools: Option<CountedTools>,
    anchor: Option<Anchor>,
    factor: f64,
}

/// Tools with their uncorrected estimate and their bytes.
type CountedTools = (Arc<[Arc<ToolSpec>]>, f64, u64);

/// What is known: the first `messages` messages are `tokens` tokens, tools included.
#[derive(Debug, Clone, Copy)]
struct Anchor {
    messages: usize,
    tokens: u64,
}

impl Default for TokenCount {
    fn default() -> Self {
        Self { generation: 0, sums: Vec::new(), bytes: 0, tools: None, anchor: None, factor: 1.0 }
    }
}

impl TokenCount {
    /// Takes in what the next request carries: `messages` as they are sent, and the tools beside them. Costs what was
    /// added since the last time, or everything after the generation changed.
    pub fn observe(&mut self, generation: u64, messages: &[Arc<Message>], tools: &Arc<[Arc<ToolSpec>]>) {
        let is_same = |known: &Arc<[Arc<ToolSpec>]>| {
            Arc::ptr_eq(known, tools) || (known.is_empty() && tools.is_empty())
        };
        if !self.tools.as_ref().is_some_and(|(known, ..)| is_same(known)) {
            let texts: Vec<String> = tools.iter().map(|spec| written_spec(spec)).collect();
            let estimate = texts.iter().map(|text| weight(text) + MESSAGE_TOKENS).sum();
            let bytes = texts.iter().map(String::len).sum::<usize>();
            self.tools = Some((Arc::clone(tools), estimate, length(bytes)));
            self.anchor = None;
        }
        if generation != self.generation || messages.len() < self.sums.len() {
            self.generation = generation;
            self.sums.clear();
            self.bytes = 0;
            self.anchor = None;
        }
        for message in messages.get(self.sums.len()..).unwrap_or_default() {
            let before = self.sums.last().copied().unwrap_or_default();
            self.sums.push(before + message_weight(message));
            self.bytes += length(message.size_bytes());
        }
    }

    /// Tokens of the next request.
    pub fn estimate(&self) -> u64 {
        match self.anchor {
            Some(anchor) => {
                let known = self.sum_to(anchor.messages);
                anchor.tokens.saturating_add(rounded((self.sum() - known) * self.factor))
            }
            None => rounded((self.sum() + self.tool_sum()) * self.factor),
        }
    }

    /// Whether the estimate stands on a stated or exactly counted figure.
    pub fn is_anchored(&self) -> bool {
        self.anchor.is_some()
    }

    /// The provider counted what was observed last as `input_tokens`. A figure that cannot be true is ignored.
    pub fn stated(&mut self, input_tokens: u64) {
        let bytes = self.bytes.saturating_add(self.tools.as_ref().map_or(0, |(.., bytes)| *bytes));
        // Blank space and repetition are the shortest: some 16 bytes a token. Nothing is longer than a token per byte.
        let is_plausible = input_tokens > 0
            && input_tokens >= bytes / 16
            && input_tokens <= bytes.saturating_add(HIDDEN_TOKENS);
        if !is_plausible {
            return;
        }
        self.anchor = Some(Anchor { messages: self.sums.len(), tokens: input_tokens });
        let estimate = self.sum() + self.tool_sum();
        // Short requests are mostly what the provider adds: they teach nothing about text.
        if estimate > 500.0 {
            #[expect(clippy::cast_precision_loss, reason = "token counts are far below 2^52")]
            let seen = input_tokens as f64 / estimate;
            let step = (self.factor / MAX_STEP, self.factor * MAX_STEP);
            self.factor = seen.clamp(step.0, step.1).clamp(FACTORS.0, FACTORS.1);
        }
    }

    /// Sets the anchor with a tokenizer, for `messages` and tools as observed. Costs the whole history.
    pub fn count(&mut self, messages: &[Arc<Message>], counter: &dyn TokenCounter) {
        let tools = self.tools.as_ref().map(|(tools, ..)| Arc::clone(tools));
        let tools: u64 = tools
            .iter()
            .flat_map(|tools| tools.iter())
            .map(|spec| counter.count(&written_spec(spec)).saturating_add(rounded(MESSAGE_TOKENS)))
            .fold(0, u64::saturating_add);
        let messages = messages
            .iter()
            .map(|message| {
                let texts = texts_of(message).into_iter().map(|text| counter.count(&text));
                texts.fold(rounded(MESSAGE_TOKENS) + image_tokens(message), u64::saturating_add)
            })
            .fold(0, u64::saturating_add);
        self.stated(tools.saturating_add(messages));
    }

    /// Tokens of one message, by estimate.
    pub fn of_message(&self, message: &Message) -> u64 {
        rounded(message_weight(message) * self.factor)
    }

    /// Tokens of a text, by estimate.
    pub fn of_text(&self, text: &str) -> u64 {
        rounded(weight(text) * self.factor)
    }

    /// Tokens of the tools beside the messages, by estimate.
    pub fn of_tools(&self) -> u64 {
        rounded(self.tool_sum() * self.factor)
    }

    fn tool_sum(&self) -> f64 {
        self.tools.as_ref().map_or(0.0, |(_, estimate, _)| *estimate)
    }

    fn sum(&self) -> f64 {
        self.sums.last().copied().unwrap_or_default()
    }

    fn sum_to(&self, messages: usize) -> f64 {
        messages.checked_sub(1).and_then(|last| self.sums.get(last)).copied().unwrap_or_default()
    }
}

fn message_weight(message: &Message) -> f64 {
    let written = texts_of(message).iter().map(|text| weight(text)).sum::<f64>();
    #[expect(clippy::cast_precision_loss, reason = "token counts are far below 2^52")]
    let shown = image_tokens(message) as f64;
    written + shown + MESSAGE_TOKENS
}

fn image_tokens(message: &Message) -> u64 {
    message.images().iter().map(Image::tokens).sum()
}

/// Everything of a message that may be sent. Reasoning is counted although not every provider takes it back.
fn texts_of(message: &Message) -> Vec<std::borrow::Cow<'_, str>> {
    match message {
        Message::System { text } | Message::User { text, .. } => vec![text.into()],
        Message::ToolResult(result) => vec![result.text.as_str().into()],
        Message::Assistant(reply) => {
            let mut texts: Vec<std::borrow::Cow<'_, str>> = Vec::new();
            match &reply.written {
                Some(written) => texts.push(written.into()),
                None => {
                    texts.push(reply.text.as_str().into());
                    for call in &reply.calls {
                        texts.push(call.name.as_str().into());
                        texts.push(call.arguments.as_str().into());
                        texts.push(call.id.as_str().into());
                    }
                }
            }
            texts.extend(reply.reasoning.as_deref().map(Into::into));
            texts.extend(reply.opaque.as_ref().map(|opaque| opaque.to_string().into()));
            texts
        }
    }
}

fn written_spec(spec: &ToolSpec) -> String {
    format!("{} {} {}", spec.name, spec.description, spec.parameters)
}

/// Letters and digits in a row that are more than a word: hashes, base64.
const MAX_WORD_BYTES: u32 = 20;

/// Tokens of a text by the kinds of its characters: words are long; digits, punctuation and what is no word are short;
/// other scripts have tokens of about two bytes. Rather too many than too few.
fn weight(text: &str) -> f64 {
    let (mut words, mut spaces, mut marks, mut others, mut dense) = (0_u32, 0_u32, 0_u32, 0_u32, 0_u32);
    let (mut letters, mut digits) = (0_u32, 0_u32);
    for byte in text.bytes().chain([b' ']) {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => letters += 1,
            b'0'..=b'9' => digits += 1,
            other => {
                let run = letters + digits;
                let is_word = digits == 0 && run <= MAX_WORD_BYTES;
                let kind = if is_word { &mut words } else { &mut dense };
                *kind = kind.saturating_add(run);
                (letters, digits) = (0, 0);
                let kind = match other {
                    b' ' => &mut spaces,
                    0..=127 => &mut marks,
                    128.. => &mut others,
                };
                *kind = kind.saturating_add(1);
            }
        }
    }
    f64::from(words + spaces.saturating_sub(1)) * 0.26
        + f64::from(marks) * 0.55
        + f64::from(others) * 0.45
        + f64::from(dense) * 0.7
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "estimates are positive and far below 2^52; a cast saturates"
)]
fn rounded(tokens: f64) -> u64 {
    tokens.ceil() as u64
}

fn length(bytes: usize) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(text: &str) -> Arc<Message> {
        Arc::new(Message::user(text))
    }

    fn count_of(messages: &[Arc<Message>]) -> TokenCount {
        let mut count = TokenCount::default();
        count.observe(0, messages, &Arc::from([]));
        count
    }

    #[test]
    fn estimates_are_on_the_safe_side_for_text_code_and_other_scripts() {
        // Counted with o200k_base, a hundred times each.
        let texts = [
            ("The quick brown fox jumps over the lazy dog. ", 1001),
            (r#"{"path":"src/main.rs","start_line":1,"end_line":200}"#, 1700),
            ("Die Überprüfung der Größe ist abgeschlossen. ", 801),
            ("这是一个用来测试分词的句子。", 1100),
            ("Это предложение для проверки. ", 501),
            ("77a0bd6ea0fba7c9f16c1ab3 9f3e51a5c6d0b2e4\n", 3500),
            ("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ\n", 2200),
        ];
        for (text, tokens) in texts {
            let estimate = count_of(&[user(&text.repeat(100))]).estimate();
            assert!(estimate >= tokens / 5 * 4 && estimate < tokens * 5, "{text}: {estimate} for {tokens}");
        }
    }

    #[test]
    fn a_stated_figure_is_the_anchor_and_teaches_the_factor() {
        let mut messages = vec![user(&"some words of text ".repeat(1000))];
        let mut count = count_of(&messages);
        let first = count.estimate();
        count.stated(first * 12 / 10);
        assert_eq!(count.estimate(), first * 12 / 10);
        messages.push(user(&"some words of text ".repeat(1000)));
        count.observe(0, &messages, &Arc::from([]));
        assert!(count.is_anchored());
        let estimate = count.estimate();
        assert!(estimate.abs_diff(first * 24 / 10) < 20, "{estimate} for {first}");
    }

    #[test]
    fn a_low_figure_for_one_kind_of_text_makes_no_low_estimate_of_another() {
        let catalogue = r#"{"name":"read","parameters":{"type":"object"}}"#;
        let mut messages = vec![user(&catalogue.repeat(100))];
        let mut count = count_of(&messages);
        let stated = count.estimate() / 2;
        count.stated(stated);
        let prose = "some words ".repeat(1000);
        let alone = count_of(&[user(&prose)]).estimate();
        messages.push(user(&prose));
        count.observe(0, &messages, &Arc::from([]));
        assert!(count.estimate() >= stated + alone - 1, "{} for {stated} and {alone}", count.estimate());
    }

    #[test]
    fn figures_that_cannot_be_true_are_ignored() {
        let messages = [user(&"words ".repeat(10_000))];
        let mut count = count_of(&messages);
        let before = count.estimate();
        for odd in [0, 3, 1_000_000] {
            count.stated(odd);
            assert_eq!(count.estimate(), before);
        }
        count.stated(before * 3);
        let factor = count.factor;
        assert!((factor - MAX_STEP).abs() < 0.01, "one figure moves the factor a step only: {factor}");
    }

    #[test]
    fn a_new_generation_is_counted_anew() {
        let mut count = count_of(&[user(&"words ".repeat(1000)), user("b")]);
        count.observe(1, &[user("a"), user("b")], &Arc::from([]));
        assert!(count.estimate() < 20);
    }
}
