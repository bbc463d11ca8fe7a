//! The roles of a composed policy, and one value for each of them.

backstop_core::names! {
    /// One of the questions that a policy answers about a failure.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Role {
        /// What kind of error is it?
        Classifier = "classifier",
        /// Is there another attempt, or is the message dead-lettered or discarded?
        DeadLettering = "dead-lettering",
        /// How long is the delay before the next attempt?
        Backoff = "backoff",
        /// Is what is behind the message down, and for how long?
        Outage = "outage",
    }
}

/// A value for each filled role. The host's defaults apply to the others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parts<T> {
    /// Classifies the error.
    pub classifier: Option<T>,
    /// Decides between another attempt, dead-lettering and discarding.
    pub dead_lettering: Option<T>,
    /// Computes the delay before the next attempt.
    pub backoff: Option<T>,
    /// Says that what is behind the message is down.
    pub outage: Option<T>,
}

/// No role is filled.
impl<T> Default for Parts<T> {
    fn default() -> Self {
        Self {
            classifier: None,
            dead_lettering: None,
            backoff: None,
            outage: None,
        }
    }
}

impl<T> Parts<T> {
    /// Whether no role is filled.
    pub fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }

    /// The values, in the order in which the roles are evaluated.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        let parts = [
            &self.classifier,
            &self.dead_lettering,
            &self.backoff,
            &self.outage,
        ];
        parts.into_iter().flatten()
    }

    /// The values, mutable.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        let parts = [
            &mut self.classifier,
            &mut self.dead_lettering,
            &mut self.backoff,
            &mut self.outage,
        ];
        parts.into_iter().flatten()
    }

    /// Converts each value, in the order in which the roles are evaluated, up to the first error.
    pub fn try_map<U, E>(
        self,
        mut convert: impl FnMut(Role, T) -> Result<U, E>,
    ) -> Result<Parts<U>, E> {
        let mut convert = |role, part: Option<T>| part.map(|it| convert(role, it)).transpose();
        Ok(Parts {
            classifier: convert(Role::Classifier, self.classifier)?,
            dead_lettering: convert(Role::DeadLettering, self.dead_lettering)?,
            backoff: convert(Role::Backoff, self.backoff)?,
            outage: convert(Role::Outage, self.outage)?,
        })
    }

    /// The same parts, borrowed.
    pub fn as_ref(&self) -> Parts<&T> {
        Parts {
            classifier: self.classifier.as_ref(),
            dead_lettering: self.dead_lettering.as_ref(),
            backoff: self.backoff.as_ref(),
            outage: self.outage.as_ref(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_converted_in_the_order_in_which_they_are_evaluated() {
        let parts = Parts {
            backoff: Some(3),
            classifier: Some(1),
            dead_lettering: Some(2),
            outage: Some(4),
        };
        let mut order = Vec::new();
        let mapped = parts.clone().try_map(|role, value| {
            order.push((role.as_str(), value));
            if value < 3 { Ok(value * 10) } else { Err(role) }
        });
        assert_eq!(mapped, Err(Role::Backoff));
        assert_eq!(
            order,
            [("classifier", 1), ("dead-lettering", 2), ("backoff", 3)]
        );
        assert_eq!(parts.iter().copied().collect::<Vec<_>>(), [1, 2, 3, 4]);
        assert!(!parts.is_empty() && Parts::<u8>::default().is_empty());
    }
}
