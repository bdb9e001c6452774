//! What compiling a component costs, judged from its binary before the compiler sees it.
//!
//! A compiler carries every local through every block, so one function with many of both takes minutes and gigabytes, long
//! before any limit of a call applies. Size alone does not tell: such a function fits into a few hundred kilobytes. Only
//! walked when something is compiled, never on the way from the cache to a call.

use wasmparser::{BinaryReaderError, FunctionBody, Operator, Parser, Payload};

use crate::error::LoadError;

/// Locals times blocks of one function. The largest honest functions (interpreter loops) stay below a tenth of it; at
/// this bound one function takes seconds, not minutes.
const MAX_FUNCTION_COST: u64 = 32_000_000;

/// Refuses a component with a function that no compiler should be given.
pub(crate) fn check(component: &str, wasm: &[u8]) -> Result<(), LoadError> {
    let invalid = |error: BinaryReaderError| LoadError::Invalid {
        component: component.to_owned(),
        reason: error.to_string(),
    };
    // Nested modules and components come as payloads of their own.
    for payload in Parser::new(0).parse_all(wasm) {
        if let Payload::CodeSectionEntry(body) = payload.map_err(invalid)? {
            let (locals, blocks) = measure(&body).map_err(invalid)?;
            if locals.saturating_mul(blocks) > MAX_FUNCTION_COST {
                return Err(LoadError::TooCostly { component: component.to_owned(), locals, blocks });
            }
        }
    }
    Ok(())
}

/// Locals, and places where control flow meets or parts. Parameters are not counted: there are at most a thousand.
fn measure(body: &FunctionBody<'_>) -> Result<(u64, u64), BinaryReaderError> {
    let mut locals = 0_u64;
    for group in body.get_locals_reader()? {
        locals = locals.saturating_add(u64::from(group?.0));
    }
    let mut blocks = 1_u64;
    let mut operators = body.get_operators_reader()?;
    while !operators.eof() {
        let more = match operators.read()? {
            Operator::Block { .. } | Operator::Loop { .. } | Operator::If { .. } | Operator::Else => 1,
            Operator::BrTable { targets } => u64::from(targets.len()),
            _ => 0,
        };
        blocks = blocks.saturating_add(more);
    }
    Ok((locals, blocks))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "test")]
    use super::*;

    fn function(locals: usize, loops: usize) -> Vec<u8> {
        let (locals, loops) = ("i64 ".repeat(locals), "(loop)".repeat(loops));
        wat::parse_str(format!("(component (core module (func (local {locals}) {loops})))")).unwrap()
    }

    #[test]
    fn many_locals_and_many_blocks_are_fine_alone_but_not_together() {
        assert!(check("plugin", &function(10_000, 10)).is_ok());
        assert!(check("plugin", &function(10, 10_000)).is_ok());
        let refused = check("plugin", &function(6_000, 6_000)).unwrap_err();
        assert!(matches!(refused, LoadError::TooCostly { locals: 6_000, blocks: 6_001, .. }), "{refused}");
    }
}
