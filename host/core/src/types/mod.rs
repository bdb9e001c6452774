//! The words of hames: plain data that every floor shares, with no behaviour beyond arithmetic and formatting.
//!
//! These types are what a transcript holds, what events carry and what ports exchange. They import nothing of hames.

mod call;
mod citation;
mod dialect;
mod event;
mod ids;
mod image;
mod ledger;
mod message;
mod usage;

pub use call::{CallOutcome, Effect, FailureKind, Part, ToolFailure, ToolOutput, ToolSpec};
pub use citation::Citation;
pub use dialect::{DialectChoice, DialectKind, Notation};
pub use event::{CompactionTier, EventKind, TurnEnd, TurnEvent};
pub use ids::{AgentPath, CallId, SessionId, TurnId};
pub use image::{Image, ImageError, ImageKind, MAX_IMAGE_BYTES};
pub use ledger::Ledger;
pub use message::{AssistantMessage, Message, ToolCall, ToolResultMessage};
pub use usage::{ContextLimits, Cost, CostBasis, Rate, TurnLimits, Usage};
