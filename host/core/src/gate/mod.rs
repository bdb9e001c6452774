//! The gate: who may call what. Capabilities, policy, approval and the action budget live in their own files; the chain
//! of checks is [`Gate::admit`].

mod actions;
mod approval;
pub(crate) mod arguments;
mod capability;
mod chain;
mod policy;

pub use actions::{
    ACTION_WINDOW_MS, ActionWindow, ActionWindowError, DEFAULT_MAX_ACTIONS_PER_HOUR, HourWindow,
};
pub use approval::{Approval, ApprovalRequest, Approver, NoApprover};
pub use capability::{
    Capabilities, EnvCapability, FsCapability, FsMode, HttpCapability, SecretCapability, StoreCapability,
};
pub(crate) use chain::not_started;
pub use chain::{Admitted, Approvals, Attempt, Catalogue, Gate, Refused, Writing};
pub use policy::{Action, CallPolicy, EffectActions, Ruling};
