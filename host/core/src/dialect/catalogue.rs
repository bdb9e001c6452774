//! The catalogue of a text dialect: which tools there are and how to call them, in the dialect's own notation. It stands
//! once, behind the system prompt, and is the same bytes for the same tools, so that the provider's cache holds.

use super::Tools;
use super::notation::{notation_parser, signature};
use crate::lenient::{argument_names, has_inner_form};
use crate::types::{Notation, ToolSpec};

const CATALOGUE_PROMPT: &str = include_str!("prompts/catalogue.md");

/// The catalogue, or `None` where there are no tools.
pub(super) fn catalogue(notation: Notation, tools: &Tools) -> Option<String> {
    if tools.is_empty() {
        return None;
    }
    let entry = if notation == Notation::PFormat { short_entry } else { entry };
    let entries: Vec<String> = tools.iter().map(|tool| entry(tool)).collect();
    // A description is foreign text and may hold a placeholder: each is replaced in the prompt, never in what was put in.
    let mut text = String::new();
    let (before, rest) = CATALOGUE_PROMPT.split_once("{{syntax}}").unwrap_or((CATALOGUE_PROMPT, ""));
    let (between, after) = rest.split_once("{{tools}}").unwrap_or((rest, ""));
    for piece in [
        before,
        notation_parser(notation).syntax().trim_end(),
        between,
        &entries.join("\n\n"),
        after.trim_end(),
    ] {
        text.push_str(piece);
    }
    Some(text)
}

/// Name, description, JSON Schema.
fn entry(tool: &ToolSpec) -> String {
    format!("## {}\n{}\nArguments (JSON Schema): {}", tool.name, tool.description.trim(), tool.parameters)
}

/// Signature, description, and what is known of the arguments besides their types.
fn short_entry(tool: &ToolSpec) -> String {
    let mut text = format!("## {}\n{}", signature(tool), tool.description.trim());
    for name in argument_names(&tool.parameters) {
        let schema =
            tool.parameters.pointer(&format!("/properties/{}", name.replace('~', "~0").replace('/', "~1")));
        let words = schema.and_then(|schema| schema.get("description")?.as_str()).map(str::trim);
        let form = schema
            .filter(|_| has_inner_form(&tool.parameters, name))
            .map(|schema| format!("JSON that matches {schema}"));
        let facts: Vec<&str> = words.into_iter().chain(form.as_deref()).collect();
        if !facts.is_empty() {
            text.push_str(&format!("\n- {name}: {}", facts.join("; ")));
        }
    }
    text
}
