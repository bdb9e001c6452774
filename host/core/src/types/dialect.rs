//! How calls are written in a reply: the dialects, and the notations in which text models write them.

use serde::{Deserialize, Serialize};

/// A dialect is four inseparable things: how tools are described to the model, how a call is parsed, how a result is
/// rendered, how history is replayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DialectKind {
    /// Structured calls of the provider's API.
    #[default]
    Native,
    /// Calls in the text, in one of the tagged [`Notation`]s.
    Xml,
    /// Calls in the text as `name[a|b|c]`: short, for small local models.
    PFormat,
}

impl DialectKind {
    /// The word used in files, events and messages.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Xml => "xml",
            Self::PFormat => "pformat",
        }
    }
}

/// Calls `$apply!(Variant, "name")` for each notation, so that none is forgotten in one of the tables.
macro_rules! notations {
    ($($(#[$doc:meta])* $variant:ident = $name:literal,)*) => {
        /// How a text model writes a call. Chosen by the model's entry in the capability data or by the operator, never
        /// guessed from prose.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
        pub enum Notation {
            $($(#[$doc])* #[serde(rename = $name)] $variant,)*
        }

        impl Notation {
            /// Every notation.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The name used in files and flags.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }
        }
    };
}

notations! {
    /// `<tool_call>{"name":…,"arguments":{…}}</tool_call>`: Hermes, Qwen and most others.
    #[default]
    Hermes = "hermes",
    /// The same JSON in a code fence named `tool_call`.
    Fenced = "fenced",
    /// `<function=name><parameter=key>value</parameter></function>`: Qwen3-Coder.
    QwenXml = "qwen_xml",
    /// `<function_calls><invoke name="…"><parameter name="…">`: Claude.
    AnthropicXml = "anthropic_xml",
    /// `<name><key>value</key></name>`: Cline and Roo.
    ClineXml = "cline_xml",
    /// `[name(key=value)]`: Llama 4, LFM2, Gemini's `tool_code`.
    Pythonic = "pythonic",
    /// `{"name":…,"parameters":{…}}` as the whole reply, or after `<|python_tag|>`: Llama 3.
    Llama3Json = "llama3_json",
    /// `<｜tool▁calls▁begin｜>…`: DeepSeek.
    DeepSeek = "deepseek",
    /// `[TOOL_CALLS]…`: Mistral.
    Mistral = "mistral",
    /// Channels with `to=functions.name`: gpt-oss.
    Harmony = "harmony",
    /// `<tool_call>name<arg_key>…</arg_key><arg_value>…</arg_value></tool_call>`: GLM.
    Glm = "glm",
    /// `<|tool_call_begin|>functions.name:0<|tool_call_argument_begin|>{…}`: Kimi.
    Kimi = "kimi",
    /// `<|tool_call>call:name{key:value}<tool_call|>`: Gemma.
    Gemma = "gemma",
    /// `<minimax:tool_call><invoke name="…">`: MiniMax.
    MiniMax = "minimax",
    /// `functools[{…}]`: Phi-4.
    Phi4 = "phi4",
    /// `Action:` and `Action Input:` lines.
    React = "react",
    /// `[TOOL_CALL]{…}[/TOOL_CALL]`.
    Bracket = "bracket",
    /// `[TOOL_CALL:name:key=value]`.
    BracketKv = "bracket_kv",
    /// `name[a|b|c]`: the notation of the `pformat` dialect.
    PFormat = "pformat",
}

impl Notation {
    /// The notation of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|notation| notation.as_str() == name)
    }
}

/// Which dialect an agent speaks: the model's own, or a fixed one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DialectChoice {
    /// What is known about the model decides.
    #[default]
    Auto,
    /// This one.
    Fixed(DialectKind),
}
