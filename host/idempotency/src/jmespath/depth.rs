//! How deep an expression is: the parser, and what walks its tree, call themselves once for each level.

/// The most levels of an expression. A thread with a stack of 2 MiB has room for more than twice as many.
pub(super) const DEEPEST: usize = 100;

/// The most levels that the tree of this text can have. Brackets, and operators one after the other, add to it; what commas separate does not.
pub(super) fn depth(text: &str) -> usize {
    let mut brackets = Vec::new();
    let (mut depth, mut deepest) = (0, 0);
    let mut quote = None;
    let mut before = ' ';
    for character in text.chars() {
        match (quote, character) {
            (Some(_), '\\') if before == '\\' => {
                before = ' ';
                continue;
            }
            (Some(open), _) if open == character && before != '\\' => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"' | '`') => quote = Some(character),
            (None, '[' | '(' | '{') => {
                brackets.push((depth, deepest));
                depth += 1;
                deepest = depth;
            }
            (None, ',') => depth = brackets.last().map_or(0, |(start, _)| start + 1),
            (None, ']' | ')' | '}') => {
                depth = deepest;
                let (_, outside) = brackets.pop().unwrap_or_default();
                deepest = deepest.max(outside);
            }
            (None, '|' | '&') if before == character => {}
            (None, '=') if before != '=' => {}
            (None, '.' | '!' | '&' | '|' | '=' | '<' | '>' | '*') => depth += 1,
            (None, _) => {}
        }
        deepest = deepest.max(depth);
        before = character;
    }
    deepest
}

#[cfg(test)]
mod tests {
    use super::depth;

    #[test]
    fn each_level_counts_and_what_is_beside_does_not() {
        for (text, expected) in [
            ("a", 0),
            ("a.b.c", 2),
            ("[a.b, a.c, [d, e]]", 2),
            ("[a.b.c, a].d", 4),
            ("!!a", 2),
            ("a == 'x' || a != 'y' || a <= `1`", 5),
            (
                "contains(a, '[[[') && \"((\" && 'it\\'s ((' && `[[1]]` && '\\\\'",
                5,
            ),
        ] {
            assert_eq!(depth(text), expected, "{text}");
        }
    }
}
