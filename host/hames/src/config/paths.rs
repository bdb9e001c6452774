//! Where things are kept: `HAMES_*_DIR` first, then the XDG folders, then their usual places below `HOME`.

use std::path::PathBuf;

use super::{ConfigError, Environment};

/// The folders that hames uses outside the workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Paths {
    /// `hames.toml` and `policy.toml` of the user.
    pub config_dir: PathBuf,
    /// Transcripts, results, line history.
    pub state_dir: PathBuf,
    /// Compiled plugins. May be deleted at any time.
    pub cache_dir: PathBuf,
    /// The first-party plugins, if they are found.
    pub bundle_dir: Option<PathBuf>,
}

impl Paths {
    /// Works them out. Nothing is created here.
    pub fn new(environment: &Environment) -> Result<Self, ConfigError> {
        let dir = |what, own: &'static str, xdg, below_home| {
            if let Some(path) = environment.var(own) {
                return Ok(environment.current_dir().join(path));
            }
            // The XDG rules: a relative path there is to be ignored.
            if let Some(base) = environment.var(xdg).map(PathBuf::from).filter(|base| base.is_absolute()) {
                return Ok(base.join("hames"));
            }
            let home = environment.var("HOME").ok_or(ConfigError::NoHome { what, variable: own })?;
            Ok(PathBuf::from(home).join(below_home).join("hames"))
        };
        Ok(Self {
            config_dir: dir("configuration", "HAMES_CONFIG_DIR", "XDG_CONFIG_HOME", ".config")?,
            state_dir: dir("state", "HAMES_STATE_DIR", "XDG_STATE_HOME", ".local/state")?,
            cache_dir: dir("the cache", "HAMES_CACHE_DIR", "XDG_CACHE_HOME", ".cache")?,
            bundle_dir: bundle_dir(environment),
        })
    }

    /// The folder of transcripts.
    pub fn sessions_dir(&self) -> PathBuf {
        self.state_dir.join("sessions")
    }

    /// The folder of the spend book.
    pub fn spend_dir(&self) -> PathBuf {
        self.state_dir.join("spend")
    }

    /// What is remembered across sessions.
    pub fn memory_file(&self) -> PathBuf {
        self.state_dir.join("memory.sqlite3")
    }

    /// The folder of whole results, one folder per session below it.
    pub fn results_dir(&self) -> PathBuf {
        self.state_dir.join("results")
    }
}

/// `HAMES_PLUGIN_DIR`, else `plugins` beside the folder of the program (`bin/hames`, `plugins/`), as installed, or as
/// built by cargo (`target/debug/hames`, `target/plugins/`).
fn bundle_dir(environment: &Environment) -> Option<PathBuf> {
    if let Some(path) = environment.var("HAMES_PLUGIN_DIR") {
        return Some(environment.current_dir().join(path));
    }
    let beside = environment.executable()?.parent()?.parent()?.join("plugins");
    beside.join("bundle.toml").is_file().then_some(beside)
}
