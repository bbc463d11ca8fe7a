//! How often an expression uses the same part of an event.

use jmespath::ast::Ast;

/// How many places of the expression may find the same array: what one of them changes in it, the others see. An expression with `&` is evaluated more than once.
pub(super) fn uses(ast: &Ast) -> usize {
    let sum = |parts: &[&Ast]| parts.iter().map(|it| uses(it)).sum();
    match ast {
        Ast::Identity { .. }
        | Ast::Field { .. }
        | Ast::Index { .. }
        | Ast::Slice { .. }
        | Ast::Literal { .. } => 1,
        Ast::Expref { ast, .. } => 1 + uses(ast),
        Ast::Flatten { node, .. } | Ast::Not { node, .. } | Ast::ObjectValues { node, .. } => {
            uses(node)
        }
        Ast::Function { args, .. } => args.iter().map(uses).sum(),
        Ast::MultiList { elements, .. } => elements.iter().map(of_element).sum(),
        Ast::MultiHash { elements, .. } => elements.iter().map(|it| of_element(&it.value)).sum(),
        Ast::Condition {
            predicate, then, ..
        } => sum(&[predicate, then]),
        Ast::Comparison { lhs, rhs, .. } | Ast::And { lhs, rhs, .. } | Ast::Or { lhs, rhs, .. } => {
            sum(&[lhs, rhs])
        }
        // The right side uses what the left one found.
        Ast::Projection { lhs, rhs, .. } | Ast::Subexpr { lhs, rhs, .. } => {
            uses(lhs).max(uses(rhs))
        }
    }
}

/// A literal by itself has no part of the event.
fn of_element(ast: &Ast) -> usize {
    if matches!(ast, Ast::Literal { .. }) {
        0
    } else {
        uses(ast)
    }
}
