//! The names of Lambda functions: a plain name or an ARN, each with a version or an alias or without.

use backstop_core::failure::SOURCE_BYTES;

/// Whether `text` can name a function as Lambda's `Invoke` accepts it: a name, an ARN, or the end of an ARN from the account on. Its length has the limit of a record's source.
pub fn is_function(text: &str) -> bool {
    text.len() <= SOURCE_BYTES && FunctionName::parse(text).is_some()
}

/// The function without its version or alias.
pub fn unqualified(function: &str) -> &str {
    // arn:aws:lambda:REGION:ACCOUNT:function:NAME:ALIAS, ACCOUNT:function:NAME:ALIAS or NAME:ALIAS.
    let parts = function.split(':').count();
    let has_alias = match function.split(':').next() {
        Some("arn") => parts > 7,
        _ => parts == 2 || parts == 4,
    };
    match function.rsplit_once(':') {
        Some((name, _)) if has_alias => name,
        _ => function,
    }
}

/// A function's name in its parts; `None` for each part that the text leaves out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FunctionName<'a> {
    region: Option<&'a str>,
    account: Option<&'a str>,
    name: &'a str,
    /// The version or alias.
    qualifier: Option<&'a str>,
}

impl<'a> FunctionName<'a> {
    /// Parses `arn:aws:lambda:REGION:ACCOUNT:function:NAME`, `ACCOUNT:function:NAME` or `NAME`, each with `:QUALIFIER` or without.
    pub fn parse(text: &'a str) -> Option<Self> {
        let plain = unqualified(text);
        let qualifier = match text.strip_prefix(plain)? {
            "" => None,
            rest => Some(rest.strip_prefix(':')?),
        };
        let parts: Vec<_> = plain.split(':').collect();
        let (partition, region, account, name) = match parts[..] {
            [
                "arn",
                partition,
                "lambda",
                region,
                account,
                "function",
                name,
            ] => (Some(partition), Some(region), Some(account), name),
            [account, "function", name] => (None, None, Some(account), name),
            [name] => (None, None, None, name),
            _ => return None,
        };
        let is_word = |word: &str| {
            let is_part = |c: char| c.is_ascii_alphanumeric() || "-_$.".contains(c);
            !word.is_empty() && word.chars().all(is_part)
        };
        let mut words = [partition, region, account, Some(name), qualifier]
            .into_iter()
            .flatten();
        words.all(is_word).then_some(Self {
            region,
            account,
            name,
            qualifier,
        })
    }

    /// Fills in the region and the account of the queue with this ARN where the name leaves them out. A queue in memory has none.
    pub fn at(self, queue: &'a str) -> Self {
        let mut parts = queue.split(':').skip(3);
        let mut part = || parts.next().filter(|part| !part.is_empty());
        let (region, account) = (part(), part());
        Self {
            region: self.region.or(region),
            account: self.account.or(account),
            ..self
        }
    }

    /// Its ARN in a partition: `*` for a region or an account that is not known. `version` is the version or alias, if the name has none; without either, it is the function itself.
    pub fn arn(&self, partition: &str, version: Option<&str>) -> String {
        let (region, account) = (self.region.unwrap_or("*"), self.account.unwrap_or("*"));
        let function = format!(
            "arn:{partition}:lambda:{region}:{account}:function:{}",
            self.name
        );
        match self.qualifier.or(version) {
            Some(version) => format!("{function}:{version}"),
            None => function,
        }
    }

    /// Whether `function` is this one, at the same version or alias; at any if this name has none. An invocation without a qualifier runs `$LATEST`.
    pub fn covers(&self, function: &Self) -> bool {
        let is_same = |ours: Option<&str>, other: Option<&str>| {
            ours.zip(other).is_none_or(|(ours, other)| ours == other)
        };
        let qualifier = function.qualifier.unwrap_or("$LATEST");
        self.name == function.name
            && is_same(self.region, function.region)
            && is_same(self.account, function.account)
            && self.qualifier.is_none_or(|ours| ours == qualifier)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_of_a_name_is_a_word() {
        for (text, is_one) in [
            ("arn:aws-cn:lambda:cn-north-1:1:function:f", true),
            ("arn:a b/*:lambda:eu-west-1:1:function:f", false),
            ("arn::lambda:eu-west-1:1:function:f", false),
            ("arn:aws:lambda:eu/west:1:function:f", false),
        ] {
            assert_eq!(is_function(text), is_one, "{text}");
        }
    }

    #[test]
    fn the_version_or_alias_is_cut_off() {
        for (given, expected) in [
            (
                "arn:aws:lambda:eu-west-1:1:function:f:$LATEST",
                "arn:aws:lambda:eu-west-1:1:function:f",
            ),
            (
                "arn:aws:lambda:eu-west-1:1:function:f:live",
                "arn:aws:lambda:eu-west-1:1:function:f",
            ),
            (
                "arn:aws:lambda:eu-west-1:1:function:f",
                "arn:aws:lambda:eu-west-1:1:function:f",
            ),
            ("f", "f"),
            ("f:live", "f"),
            ("1:function:f", "1:function:f"),
            ("1:function:f:live", "1:function:f"),
        ] {
            assert_eq!(unqualified(given), expected);
        }
    }
}
