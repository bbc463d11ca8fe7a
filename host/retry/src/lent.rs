//! A value that belongs to a call and is lent to one attempt after the other.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, PoisonError};

/// A value that a call lends to one attempt, see [`Retrier::run_with`](crate::Retrier::run_with). Dropped, it goes back to the call.
pub struct Lent<S> {
    /// `None` once it was given back.
    value: Option<S>,
    owner: Arc<Mutex<Option<S>>>,
}

/// Where the value is between two attempts.
pub(crate) struct Owner<S>(Arc<Mutex<Option<S>>>);

impl<S> Owner<S> {
    pub(crate) fn new(value: S) -> Self {
        Self(Arc::new(Mutex::new(Some(value))))
    }

    /// Lends the value.
    ///
    /// # Panics
    ///
    /// If it is lent already.
    pub(crate) fn lend(&self) -> Lent<S> {
        let value = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        assert!(
            value.is_some(),
            "the value of the call is still lent to an earlier attempt"
        );
        Lent {
            value,
            owner: Arc::clone(&self.0),
        }
    }
}

impl<S> Drop for Lent<S> {
    fn drop(&mut self) {
        let value = self.value.take();
        *self.owner.lock().unwrap_or_else(PoisonError::into_inner) = value;
    }
}

impl<S> Deref for Lent<S> {
    type Target = S;

    fn deref(&self) -> &S {
        match &self.value {
            Some(value) => value,
            None => unreachable!("it is given back when it is dropped"),
        }
    }
}

impl<S> DerefMut for Lent<S> {
    fn deref_mut(&mut self) -> &mut S {
        match &mut self.value {
            Some(value) => value,
            None => unreachable!("it is given back when it is dropped"),
        }
    }
}

impl<S: fmt::Debug> fmt::Debug for Lent<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
