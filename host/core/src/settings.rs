//! Settings of a policy: names and values, in the operator's order.

/// Names and values, in the operator's order.
pub type Settings = Vec<(String, String)>;

/// `settings` with those of `above` on top.
pub fn merge(settings: &[(String, String)], above: &[(String, String)]) -> Vec<(String, String)> {
    let is_replaced = |name: &String| above.iter().any(|(above, _)| above == name);
    let kept = settings.iter().filter(|(name, _)| !is_replaced(name));
    kept.chain(above).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_that_is_given_again_takes_the_place_of_the_first() {
        let settings = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
            let pairs = pairs.iter();
            pairs
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect()
        };
        assert_eq!(
            merge(
                &settings(&[("base", "1s"), ("cap", "1h")]),
                &settings(&[("base", "2s"), ("floor", "1s")])
            ),
            settings(&[("cap", "1h"), ("base", "2s"), ("floor", "1s")])
        );
    }
}
