//! The gate: who may call what. Capabilities, policy and approval live in their own files; the chain of checks is here.

mod approval;
mod capability;
mod policy;

pub use approval::{Approval, ApprovalRequest, Approver, NoApprover};
pub use capability::{
    Capabilities, EnvCapability, FsCapability, FsMode, HttpCapability, SecretCapability, StoreCapability,
};
pub use policy::{Action, CallPolicy, EffectActions, Ruling};
