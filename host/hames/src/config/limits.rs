//! Limits of a turn: the user's file sets them, a workspace may only bring them down. Each keeps its origin.

use std::collections::BTreeMap;
use std::path::Path;

use hames_core::types::TurnLimits;
use toml::Spanned;

use super::Origin;
use super::error::{ConfigError, Place};
use super::raw::RawLimits;
use super::settings::WorkspaceFile;

/// Calls `$apply!(field, raw value)` for each limit of a turn, so that none is forgotten in one of the two places.
macro_rules! for_each_limit {
    ($apply:ident) => {
        $apply!(max_iterations, plain);
        $apply!(max_tokens, optional);
        $apply!(max_cost_microdollars, optional);
        $apply!(max_session_cost_microdollars, optional);
        $apply!(max_day_cost_microdollars, optional);
        $apply!(max_elapsed_ms, plain);
        $apply!(max_result_bytes, plain);
        $apply!(provider_idle_ms, plain);
        $apply!(max_attempts, plain);
        $apply!(max_parallel_calls, plain);
        $apply!(max_turn_result_bytes, plain);
        $apply!(max_hook_ms, plain);
        $apply!(max_post_turn_hook_ms, plain);
        $apply!(max_same_failures, plain);
        $apply!(max_identical_rounds, plain);
        $apply!(max_failures_in_row, plain);
    };
}

/// Applies the user's file.
pub(super) fn widen(
    limits: &mut TurnLimits,
    raw: &RawLimits,
    file: &Path,
    origins: &mut BTreeMap<&'static str, Origin>,
) {
    macro_rules! apply {
        ($name:ident, plain) => {
            if let Some(value) = &raw.$name {
                limits.$name = *value.get_ref();
                origins.insert(stringify!($name), Origin::User(file.to_owned()));
            }
        };
        ($name:ident, optional) => {
            if let Some(value) = &raw.$name {
                limits.$name = Some(*value.get_ref());
                origins.insert(stringify!($name), Origin::User(file.to_owned()));
            }
        };
    }
    for_each_limit!(apply);
}

impl WorkspaceFile<'_> {
    /// A workspace may only bring a limit down.
    pub(super) fn narrow(
        &self,
        limits: &mut TurnLimits,
        raw: &RawLimits,
        origins: &mut BTreeMap<&'static str, Origin>,
    ) -> Result<(), ConfigError> {
        macro_rules! apply {
            ($name:ident, plain) => {
                if let Some(value) = &raw.$name {
                    self.check(stringify!($name), value, *value.get_ref() <= limits.$name)?;
                    limits.$name = *value.get_ref();
                    origins.insert(stringify!($name), Origin::Workspace(self.path.to_owned()));
                }
            };
            ($name:ident, optional) => {
                if let Some(value) = &raw.$name {
                    self.check(
                        stringify!($name),
                        value,
                        limits.$name.is_none_or(|limit| *value.get_ref() <= limit),
                    )?;
                    limits.$name = Some(*value.get_ref());
                    origins.insert(stringify!($name), Origin::Workspace(self.path.to_owned()));
                }
            };
        }
        for_each_limit!(apply);
        Ok(())
    }

    fn check<T>(&self, name: &str, value: &Spanned<T>, is_narrower: bool) -> Result<(), ConfigError> {
        if is_narrower {
            return Ok(());
        }
        let place = Place::in_text(self.path, self.text, value.span().start);
        let key = format!("limits.{name}");
        Err(ConfigError::Authority {
            place,
            key: format!("{key}` above the user's `{key}"),
            belongs_in: self.user_file.to_owned(),
        })
    }
}
