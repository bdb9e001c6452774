//! What every command begins with: settings, policy, and from them a harness.

use std::io::{ErrorKind, IsTerminal};
use std::sync::Arc;

use hames_core::gate::{Approver, NoApprover};
use tokio::sync::mpsc;

use super::approve::{AlwaysApprover, ApprovalDesk, AskingApprover};
use super::console::Console;
use crate::config::{ApproveMode, Environment, Origin, Overrides, Policy, Settings};
use crate::error::HarnessError;
use crate::harness::{Harness, HarnessBuilder};
use crate::words::chain;

/// Why a command failed.
#[derive(Debug)]
pub(super) enum CliError {
    /// Something of the library.
    Harness(HarnessError),
    /// What was typed makes no sense.
    Input { message: String, hint: Option<String> },
    /// The system refused.
    Io { action: String, source: std::io::Error },
}

impl<E: Into<HarnessError>> From<E> for CliError {
    fn from(error: E) -> Self {
        Self::Harness(error.into())
    }
}

impl CliError {
    pub(super) fn input(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Input { message: message.into(), hint: Some(hint.into()) }
    }

    /// Text that the user named could not be read. Whether it is there and is text is up to them; the rest is the system's.
    pub(super) fn unreadable(name: &str, source: std::io::Error) -> Self {
        let hint = match source.kind() {
            ErrorKind::InvalidData => "write it as UTF-8",
            ErrorKind::NotFound => "check the name; it is relative to the folder that you are in",
            ErrorKind::IsADirectory => "name a file",
            ErrorKind::PermissionDenied => "check that you may read it",
            _ => return Self::Io { action: format!("read {name}"), source },
        };
        Self::input(format!("cannot read {name}: {source}"), hint)
    }

    pub(super) fn words(&self) -> String {
        match self {
            Self::Harness(error) => chain(error),
            Self::Input { message, .. } => message.clone(),
            Self::Io { action, source } => format!("cannot {action}: {source}"),
        }
    }

    pub(super) fn hint(&self) -> Option<String> {
        match self {
            Self::Harness(error) => error.hint(),
            Self::Input { hint, .. } => hint.clone(),
            Self::Io { .. } => None,
        }
    }

    pub(super) fn status(&self) -> u8 {
        match self {
            Self::Harness(error) if !error.is_input() => 2,
            Self::Harness(_) | Self::Input { .. } => 1,
            Self::Io { .. } => 2,
        }
    }
}

/// Settings and policy of one run of the program.
pub(super) struct Start {
    pub(super) settings: Settings,
    pub(super) policy: Policy,
    pub(super) console: Console,
}

impl Start {
    pub(super) fn new(
        environment: &Environment,
        overrides: &Overrides,
        console: &Console,
    ) -> Result<Self, CliError> {
        let settings = Settings::load(environment, overrides)?;
        let file = &settings.policy_file;
        let policy = Policy::load(&file.value, file.origin != Origin::Default, environment);
        Ok(Self { settings, policy, console: console.clone() })
    }

    /// Refuses what a policy has to rule on when there is none to rule: one error in place of one per plugin.
    pub(super) fn usable_policy(&self) -> Result<(), CliError> {
        let Some(problem) = &self.policy.problem else { return Ok(()) };
        let message = format!("the policy is unusable, everything is refused: {}", chain(&**problem));
        Err(CliError::Input { message, hint: problem.hint() })
    }

    /// A builder with everything but provider and approver.
    pub(super) fn builder(&self) -> HarnessBuilder {
        Harness::builder().settings(&self.settings).policy(self.policy.clone())
    }

    /// Everything that a turn needs, and the desk at which approvals arrive.
    pub(super) async fn harness(&self) -> Result<(Harness, ApprovalDesk), CliError> {
        self.usable_policy()?;
        let (approver, desk) = self.approver();
        let choice = crate::provider::choose(&self.settings).await?;
        for left_out in &choice.left_out {
            self.console.warning(left_out, None);
        }
        let mut builder = self.builder();
        if let Some(summarizer) = crate::provider::choose_summarizer(&self.settings, &choice).await? {
            builder = builder.summarizer(summarizer);
        }
        builder = builder.provider(choice.provider, choice.model).approver(approver);
        for fallback in choice.fallbacks {
            builder = builder.fallback(fallback.provider, fallback.model);
        }
        let harness = Box::pin(builder.build()).await?;
        self.show_problems(harness.problems());
        if self.settings.paths.bundle_dir.is_none() {
            self.console.warning(
                "the first-party plugins are not found",
                Some("build them with `cargo xtask guests`, or set `HAMES_PLUGIN_DIR` to their folder"),
            );
        }
        Ok((harness, desk))
    }

    /// Who answers when the policy says `ask`. Fails closed: without a terminal nobody does, and the answer is no.
    pub(super) fn approver(&self) -> (Arc<dyn Approver>, ApprovalDesk) {
        let (sender, desk) = mpsc::channel(1);
        let approver: Arc<dyn Approver> = match self.settings.approve.value {
            ApproveMode::Always => Arc::new(AlwaysApprover),
            ApproveMode::Ask if std::io::stderr().is_terminal() => Arc::new(AskingApprover::new(sender)),
            ApproveMode::Ask | ApproveMode::Never => Arc::new(NoApprover),
        };
        (approver, desk)
    }

    pub(super) fn show_problems(&self, problems: &[crate::harness::plugins::PluginProblem]) {
        for problem in problems {
            self.console.warning(&problem.words(), problem.hint.as_deref());
        }
    }
}
