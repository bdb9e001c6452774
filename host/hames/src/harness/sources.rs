//! What grants of plugins draw on: the workspace, the environment, the operator's secrets, the folder of stores.

use std::collections::BTreeMap;
use std::sync::Arc;

use hames_wasm::{GrantSources, Secret, SecretSource, Workspace};

use super::HarnessBuilder;
use super::plugins::PluginProblem;
use crate::error::HarnessError;
use crate::session::make_private_dir;

impl HarnessBuilder {
    pub(super) fn sources(
        &self,
        workspace: Workspace,
        problems: &mut Vec<PluginProblem>,
    ) -> Result<GrantSources, HarnessError> {
        let mut sources = GrantSources::new(workspace);
        sources.env = Arc::new(self.environment.vars().clone());
        let secrets = self.policy.secrets(&self.environment);
        problems.extend(secrets.problems.iter().map(|error| PluginProblem {
            plugin: None,
            message: crate::words::chain(error),
            hint: error.hint(),
        }));
        let values = secrets.values.into_iter().map(|(name, value)| (name, Secret::new(value.expose())));
        sources.secrets = Arc::new(PolicySecrets(values.collect()));
        if let Some(dir) = &self.state_dir {
            let dir = dir.join("stores");
            make_private_dir(&dir)?;
            sources.store_dir = Some(dir);
        }
        Ok(sources)
    }
}

/// The operator's credentials behind the sandbox's port.
struct PolicySecrets(BTreeMap<String, Secret>);

impl SecretSource for PolicySecrets {
    fn secret(&self, name: &str) -> Option<Secret> {
        self.0.get(name).cloned()
    }
}
