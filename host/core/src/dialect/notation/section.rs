//! A section of calls between two marks, each call behind a mark of its own, as DeepSeek and Kimi write them.

use super::cursor::{Cursor, Halt, Step, broken};
use super::{Context, Item};

/// How a model marks sections and calls.
pub(super) struct Marks {
    pub(super) begin: &'static [&'static str],
    pub(super) end: &'static [&'static str],
    pub(super) call: &'static [&'static str],
    /// What a section is called when the model is told about it.
    pub(super) name: &'static str,
}

/// The section, or the one call without a section, at the start of the text. `call` reads what stands behind a call's mark.
pub(super) fn read(
    mut cursor: Cursor<'_>,
    marks: &Marks,
    context: &Context<'_>,
    call: fn(&mut Cursor<'_>, &Context<'_>) -> Step<Item>,
) -> Step<(usize, Vec<Item>)> {
    let is_section = cursor.eat_any(marks.begin)?.is_some();
    let is_spaced = cursor.peek() == Some(' ');
    let mut items = Vec::new();
    loop {
        cursor.skip_blank();
        if cursor.eat_any(marks.call)?.is_none() {
            break;
        }
        items.push(call(&mut cursor, context)?);
        if !is_section {
            break;
        }
    }
    let is_prose = items.is_empty() && !context.is_line_start && is_spaced;
    if is_prose && cursor.peek().is_some_and(char::is_alphanumeric) {
        // A sentence that names the mark.
        return Err(Halt::Text);
    }
    if is_section && !cursor.close(marks.end)? {
        return broken(format!("between the calls of a {} stands something else", marks.name));
    }
    if items.is_empty() {
        return broken(format!("the {} of calls is empty", marks.name));
    }
    Ok((cursor.at(), items))
}
