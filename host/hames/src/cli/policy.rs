//! `hames policy check | explain`.

use hames_core::gate::Action;
use hames_core::results::one_safe_line;
use serde_json::json;

use super::args::PolicyCommand;
use super::plugin::{in_words, tool_owner};
use super::start::{CliError, Start};
use crate::config::ApproveMode;

pub(super) async fn policy(start: &Start, command: &PolicyCommand) -> Result<u8, CliError> {
    start.usable_policy()?;
    match command {
        PolicyCommand::Check => check(start).await,
        PolicyCommand::Explain { tool } => explain(start, tool).await,
    }
}

/// Reads the policy against what is there: entries and rules that match nothing are probably mistakes.
async fn check(start: &Start) -> Result<u8, CliError> {
    let (policy, console) = (&start.policy, &start.console);
    let toolbox = start.builder().toolbox().await?;
    if console.is_json() {
        let problems: Vec<_> = toolbox
            .problems
            .iter()
            .map(
                |problem| json!({"plugin": problem.plugin, "message": problem.message, "hint": problem.hint}),
            )
            .collect();
        console.json(&json!({"source": policy.calls.source, "problems": problems}));
        return Ok(u8::from(!toolbox.problems.is_empty()));
    }
    let effects = policy.calls.by_effect;
    console.data(&format!("policy     {}", policy.calls.source));
    console.data(&format!(
        "effects    read {} · write {} · external {}",
        word(effects.read),
        word(effects.write),
        word(effects.external)
    ));
    for (tool, action) in &policy.calls.by_tool {
        console.data(&format!("tool       {tool}: {}", word(*action)));
    }
    console.data(&format!("actions    at most {} in a rolling hour", policy.max_actions_per_hour));
    for plugin in &toolbox.plugins {
        let origin =
            if policy.plugin(plugin.plugin.name()).is_some() { "policy" } else { "built-in defaults" };
        console.data(&format!(
            "plugin     {}: {} ({origin})",
            plugin.plugin.name(),
            in_words(&plugin.effective)
        ));
    }
    start.show_problems(&toolbox.problems);
    Ok(u8::from(!toolbox.problems.is_empty()))
}

async fn explain(start: &Start, name: &str) -> Result<u8, CliError> {
    let console = &start.console;
    let toolbox = start.builder().toolbox().await?;
    let Some(tool) = toolbox.registry.tool(name) else {
        start.show_problems(&toolbox.problems);
        let hint = match toolbox.registry.nearest(name).first() {
            Some(nearest) => format!("did you mean `{nearest}`?"),
            None => "`hames plugin list` shows the tools".to_owned(),
        };
        return Err(CliError::input(format!("no tool is named `{}`", one_safe_line(name, 80)), hint));
    };
    let (claimed, enforced) = (tool.spec().effect, tool.effect());
    let effect = claimed.max(enforced);
    let ruling = start.policy.calls.decide(name, effect);
    let owner = tool_owner(&toolbox.plugins, name);
    if console.is_json() {
        console.json(&json!({
            "tool": name, "origin": tool.origin(), "claimed": claimed, "enforced": enforced, "effect": effect,
            "action": ruling.action, "rule": ruling.rule,
            "granted": owner.map(|(plugin, spec)| plugin.effective.narrowed_to(spec.effect)),
        }));
        return Ok(0);
    }
    console.data(&format!("{name} of {}", tool.origin()));
    console.data(&format!("effect     {effect} (claims {claimed}, its grants make {enforced} possible)"));
    if let Some((plugin, spec)) = owner {
        console.data(&format!("may use    {}", in_words(&plugin.effective.narrowed_to(spec.effect))));
    }
    console.data(&format!("a call     {} by {}", word(ruling.action), ruling.rule));
    if ruling.action == Action::Ask {
        let who = match start.settings.approve.value {
            ApproveMode::Ask => "the person at the terminal is asked; without one it is refused",
            ApproveMode::Never => "it is refused (`--approve never`)",
            ApproveMode::Always => "it runs (`--approve always`)",
        };
        console.data(&format!("           {who}"));
    }
    if ruling.action != Action::Allow {
        console.note(&format!(
            "to allow it, in {}:\n[tools]\n{name} = \"allow\"",
            start.policy.file().display()
        ));
    }
    Ok(0)
}

fn word(action: Action) -> &'static str {
    match action {
        Action::Allow => "allow",
        Action::Ask => "ask",
        Action::Deny => "deny",
    }
}
