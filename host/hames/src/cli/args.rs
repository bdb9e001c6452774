//! The command line as it is written: clap types only. What they mean is decided in the commands.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use hames_core::types::Notation;

use super::debug::DebugCommand;
use crate::config::{ApproveMode, DialectSetting, Overrides, notation_from_name};

/// An agent whose tools run in a sandbox.
#[derive(Debug, Parser)]
#[command(name = "hames", version, about, max_term_width = 100)]
pub(super) struct Cli {
    #[command(flatten)]
    pub(super) shared: Shared,
    #[command(subcommand)]
    pub(super) command: Command,
}

/// Flags of every command.
#[derive(Debug, Args)]
pub(super) struct Shared {
    /// The folder that the agent works in [default: the current one]
    #[arg(long, global = true, value_name = "DIR")]
    workspace: Option<PathBuf>,
    /// The configuration file to use instead of the user's hames.toml
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The policy file to use instead of the user's policy.toml
    #[arg(long, global = true, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// The provider: a known one, one of hames.toml, or recorded:FILE
    #[arg(long, global = true, value_name = "NAME")]
    provider: Option<String>,
    /// The model, alone or as PROVIDER/MODEL, or a route as hint:NAME
    #[arg(long, global = true, value_name = "MODEL")]
    model: Option<String>,
    /// The base URL of an OpenAI-compatible API
    #[arg(long, global = true, value_name = "URL")]
    base_url: Option<String>,
    /// How the model writes calls
    #[arg(long, global = true, value_enum, value_name = "DIALECT")]
    dialect: Option<DialectSetting>,
    /// The notation of the `xml` dialect, such as hermes or qwen_xml [default: the model's own]
    #[arg(long, global = true, value_parser = notation_from_name, value_name = "NAME")]
    pub(super) notation: Option<Notation>,
    /// Who answers when the policy says `ask`
    #[arg(long, global = true, value_enum, value_name = "WHO")]
    approve: Option<ApproveMode>,
    /// Write data for programs: events as JSON lines, listings as one JSON document
    #[arg(long, global = true)]
    pub(super) json: bool,
}

impl Shared {
    pub(super) fn overrides(&self) -> Overrides {
        Overrides {
            workspace: self.workspace.clone(),
            config: self.config.clone(),
            policy: self.policy.clone(),
            provider: self.provider.clone(),
            model: self.model.clone(),
            base_url: self.base_url.clone(),
            approve: self.approve,
            dialect: self.dialect,
            notation: self.notation,
        }
    }
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Run one turn and print its answer
    Run(RunArgs),
    /// Talk, turn by turn
    Chat(ChatArgs),
    /// Look at plugins, call their tools, add one
    #[command(subcommand)]
    Plugin(PluginCommand),
    /// Check the policy, or explain what it says about a tool
    #[command(subcommand)]
    Policy(PolicyCommand),
    /// See and correct what is remembered across sessions
    #[command(subcommand)]
    Memory(MemoryCommand),
    /// See which models could be asked, and try whether they answer
    #[command(subcommand)]
    Models(ModelsCommand),
    /// Look at sessions on disk
    #[command(subcommand)]
    Session(SessionCommand),
    /// Say what was spent, and what the caps leave
    Cost(CostArgs),
    /// Look inside: how a model's reply is read, what the next request of a session would carry
    #[command(subcommand)]
    Debug(DebugCommand),
    /// Say what is found, what is set and from where, and measure the limits of the sandbox
    Doctor,
}

#[derive(Debug, Args)]
pub(super) struct RunArgs {
    /// What to ask; `-` reads it from standard input
    pub(super) prompt: String,
    /// An image to show the model: PNG, JPEG, GIF or WebP (again for more)
    #[arg(long = "image", value_name = "FILE")]
    pub(super) images: Vec<PathBuf>,
    /// Go on with this session
    #[arg(long, value_name = "ID")]
    pub(super) session: Option<String>,
}

#[derive(Debug, Args)]
pub(super) struct ChatArgs {
    /// Go on with this session
    #[arg(long, value_name = "ID")]
    pub(super) session: Option<String>,
}

#[derive(Debug, Args)]
pub(super) struct CostArgs {
    /// How many days to show, today included
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=36_500))]
    pub(super) days: u32,
    /// Show one session, turn by turn and call by call
    #[arg(long, value_name = "ID", conflicts_with = "days")]
    pub(super) session: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(super) enum PluginCommand {
    /// List plugins with their tools
    List,
    /// Show what a plugin asks for, what it is granted, and its tools
    Inspect {
        /// A loaded plugin's name, or a plugin folder
        plugin: String,
    },
    /// Call one tool, through the same gate as a model's call
    Call {
        /// The tool
        tool: String,
        /// Its arguments as a JSON object
        #[arg(default_value = "{}")]
        arguments: String,
    },
    /// Copy a plugin folder into the user's plugins and show the policy lines that load it
    Add {
        /// The folder with plugin.toml
        folder: PathBuf,
        /// Append those lines to the policy file
        #[arg(long)]
        grant: bool,
    },
}

#[derive(Debug, Subcommand)]
pub(super) enum PolicyCommand {
    /// Check the policy file against the plugins that are there
    Check,
    /// Say what happens to a call of a tool, and which rule decides
    Explain {
        /// The tool
        tool: String,
    },
}

#[derive(Debug, Subcommand)]
pub(super) enum MemoryCommand {
    /// List memories, newest first
    List {
        /// How many
        #[arg(long, value_name = "N", default_value_t = 20)]
        limit: usize,
    },
    /// Find memories as a turn would
    Search {
        /// What to look for
        text: String,
        /// How many
        #[arg(long, value_name = "N", default_value_t = 10)]
        limit: usize,
    },
    /// Remember a text
    Add {
        /// The text
        text: String,
    },
    /// Forget a memory for good
    Forget {
        /// Its id
        id: String,
    },
}

#[derive(Debug, Subcommand)]
pub(super) enum ModelsCommand {
    /// List providers, routes, local servers and known models
    List,
    /// Send one tiny request to the model, or to each one of a route
    Test {
        /// PROVIDER/MODEL or hint:NAME [default: what a turn would ask]
        model: Option<String>,
    },
}

#[derive(Debug, Subcommand)]
pub(super) enum SessionCommand {
    /// List sessions, newest first
    List,
    /// Print a session
    Show {
        /// Its id
        id: String,
    },
}
