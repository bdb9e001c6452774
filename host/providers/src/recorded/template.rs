//! Templates in recorded replies: they quote what tools returned in this turn.
//!
//! ```text
//! {{result 0}}                    the first tool result since the last user message
//! {{result 0 | line 2}}           its second line (from 1)
//! {{result 0 | lines}}            how many lines it has
//! {{result 0 | match REGEX}}      the first capture of the first match, or the whole match
//! ```
//!
//! Steps may follow each other; `match` takes the rest up to `}}` and is therefore the last one. Everything outside
//! `{{…}}` is literal. Templates are parsed with the file, so a mistake is found before anything is played.

use regex::Regex;

/// Text with places to fill.
#[derive(Debug)]
pub(super) struct Template {
    parts: Vec<Part>,
}

#[derive(Debug)]
enum Part {
    Literal(String),
    Result { number: usize, steps: Vec<Step> },
}

#[derive(Debug)]
enum Step {
    Line(usize),
    Lines,
    Match(Regex),
}

impl Template {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some((literal, after)) = rest.split_once("{{") {
            let (inner, more) = after
                .split_once("}}")
                .ok_or_else(|| format!("`{{{{{}` is not closed by `}}}}`", excerpt(after)))?;
            parts.push(Part::Literal(literal.to_owned()));
            parts.push(parse_place(inner)?);
            rest = more;
        }
        parts.push(Part::Literal(rest.to_owned()));
        Ok(Self { parts })
    }

    /// Fills the places with the tool results of the turn.
    pub(super) fn render(&self, results: &[&str]) -> Result<String, String> {
        let mut out = String::new();
        for part in &self.parts {
            match part {
                Part::Literal(text) => out.push_str(text),
                Part::Result { number, steps } => {
                    let result = results.get(*number).ok_or_else(|| {
                        format!("it quotes tool result {number}, but the turn has {} (from 0)", results.len())
                    })?;
                    let mut value = (*result).to_owned();
                    for step in steps {
                        value = step.apply(&value)?;
                    }
                    out.push_str(&value);
                }
            }
        }
        Ok(out)
    }
}

impl Step {
    fn apply(&self, value: &str) -> Result<String, String> {
        match self {
            Self::Lines => Ok(value.lines().count().to_string()),
            Self::Line(number) => {
                let line = number.checked_sub(1).and_then(|index| value.lines().nth(index));
                line.map(str::to_owned).ok_or_else(|| {
                    format!("it quotes line {number}, but the result has {} lines", value.lines().count())
                })
            }
            Self::Match(regex) => {
                let found = regex
                    .captures(value)
                    .ok_or_else(|| format!("`{regex}` matches nothing in `{}`", excerpt(value)))?;
                let found = found.get(1).or_else(|| found.get(0)).map_or("", |group| group.as_str());
                Ok(found.to_owned())
            }
        }
    }
}

fn parse_place(inner: &str) -> Result<Part, String> {
    let help = "a place is `result N`, then `| line K`, `| lines` or `| match REGEX`";
    let (source, mut rest) = match inner.split_once('|') {
        Some((source, rest)) => (source, Some(rest)),
        None => (inner, None),
    };
    let number = source.trim().strip_prefix("result").map(str::trim).and_then(|number| number.parse().ok());
    let number = number.ok_or_else(|| format!("`{{{{{}}}}}` is not understood: {help}", excerpt(inner)))?;
    let mut steps = Vec::new();
    while let Some(text) = rest {
        let text = text.trim();
        if let Some(pattern) = text.strip_prefix("match ") {
            let regex = Regex::new(pattern.trim()).map_err(|error| error.to_string())?;
            steps.push(Step::Match(regex));
            break;
        }
        let (step, more) = match text.split_once('|') {
            Some((step, more)) => (step.trim(), Some(more)),
            None => (text, None),
        };
        rest = more;
        let line = step.strip_prefix("line ").and_then(|number| number.trim().parse().ok());
        steps.push(match line {
            Some(number) => Step::Line(number),
            None if step == "lines" => Step::Lines,
            None => return Err(format!("`{}` is not a step: {help}", excerpt(step))),
        });
    }
    Ok(Part::Result { number, steps })
}

fn excerpt(text: &str) -> String {
    text.chars().take(60).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "test")]

    use super::*;

    fn render(template: &str) -> Result<String, String> {
        Template::parse(template)?.render(&["alpha\nbeta = 7\n", "zwei"])
    }

    #[test]
    fn places_are_filled_from_results() {
        let table = [
            ("plain {text}", "plain {text}"),
            ("{{result 1}}!", "zwei!"),
            ("{{ result 0 | line 2 }}", "beta = 7"),
            ("{{result 0 | lines}} lines", "2 lines"),
            (r"{{result 0 | match (\w+) = (\d|x)}}", "beta"),
            (r"{{result 0 | line 2 | match \d+}}/{{result 1}}", "7/zwei"),
        ];
        for (template, expected) in table {
            assert_eq!(render(template).unwrap(), expected, "{template}");
        }
    }

    #[test]
    fn mistakes_say_what_is_wrong() {
        let table = [
            ("{{result 2}}", "the turn has 2"),
            ("{{result 0 | line 3}}", "has 2 lines"),
            ("{{result 0 | line 0}}", "line 0"),
            ("{{result 0 | match q}}", "matches nothing"),
            ("{{result 0 | match (}}", "regex parse error"),
            ("{{result 0 | upper}}", "is not a step"),
            ("{{user}}", "is not understood"),
            ("{{result 0", "is not closed"),
        ];
        for (template, expected) in table {
            let error = render(template).unwrap_err();
            assert!(error.contains(expected), "{template}: {error}");
        }
    }
}
