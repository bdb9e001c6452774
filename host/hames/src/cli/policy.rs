//! `hames policy check | explain`.

use hames_core::gate::Action;
use hames_core::results::one_safe_line;
use serde_json::json;

use super::args::PolicyCommand;
use super::plugin::{in_words, tool_owner};
use super::start::{CliError, Start};
use crate::config::ApproveMode;

pub(super) async fn policy(start: &Start, command: &PolicyCommand) -> Result<u8, CliError> {
    match command {
        PolicyCommand::Check => check(start).await,
        PolicyCommand::Explain { tool } => explain(start, tool).await,
    }
}

/// Reads the policy against what is there: entries and rules that match nothing are probably mistakes.
async fn check(start: &Start) -> Result<u8, CliError> {
    let (policy, console) = (&start.policy, &start.console);
    if policy.problem.is_some() {
        // Told at the start already.
        return Ok(1);
    }
    let toolbox = start.builder().toolbox().await?;
    let mut doubts = Vec::new();
    for tool in policy.calls.by_tool.keys().filter(|tool| toolbox.registry.tool(tool).is_none()) {
        let nearest = toolbox.registry.nearest(tool);
        doubts.push((format!("[tools] {tool}: no tool of that name is loaded"), nearest.first().cloned()));
    }
    let names: Vec<&str> = toolbox.plugins.iter().map(|plugin| plugin.plugin.name()).collect();
    for name in policy.plugin_names().filter(|name| !names.contains(name)) {
        let is_refused = toolbox.problems.iter().any(|problem| problem.plugin.as_deref() == Some(name));
        if !is_refused {
            let nearest = crate::config::nearest_name(name, &names).map(str::to_owned);
            doubts.push((format!("[plugins.{name}]: no plugin of that name is there"), nearest));
        }
    }
    if console.is_json() {
        let doubts: Vec<_> =
            doubts.iter().map(|(text, nearest)| json!({"message": text, "nearest": nearest})).collect();
        let problems: Vec<_> = toolbox
            .problems
            .iter()
            .map(|problem| json!({"plugin": problem.plugin, "message": problem.message}))
            .collect();
        console.json(&json!({"source": policy.calls.source, "doubts": doubts, "problems": problems}));
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
    for (message, nearest) in &doubts {
        let hint = nearest.as_ref().map(|name| format!("did you mean `{name}`?"));
        console.warning(message, hint.as_deref());
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
