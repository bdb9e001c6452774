//! hames-providers: model APIs over HTTP, and models played from a recording.
//!
//! [`openai_chat`] speaks the OpenAI-compatible chat completions API, [`openai_responses`] OpenAI's Responses API, [`gemini`]
//! Google's own, [`anthropic`] Anthropic's Messages API, [`recorded`] plays a file, [`detect`] knows the usual endpoints,
//! [`connect`] makes a provider of whatever protocol is named. `wire`, `http` and `sse` are the layers that they share.
//! Nothing here reads files or the environment, and nothing retries: the turn does.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod anthropic;
pub mod catalogue;
pub mod connect;
pub mod detect;
pub mod gemini;
mod http;
mod models;

pub mod openai_chat;
pub mod openai_responses;
mod rates;
pub mod recorded;
mod sse;
mod tokens;
mod wire;

pub use http::{ApiKey, HttpOptions, KeyHeader, ProviderConfigError};
pub use wire::{Ending, Protocol, ReplyDecoder};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
