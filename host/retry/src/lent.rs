//! A value that belongs to a call and is lent to one attempt after the other.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex};

use backstop_core::lock::lock;

use crate::attempt::Attempt;
use crate::retrier::Retrier;
use crate::run::Run;

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
        let value = lock(&self.0).take();
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
        *lock(&self.owner) = value;
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

impl Retrier {
    /// As [`run`](Self::run), for a function that needs a value of its own that changes, such as a connection: each attempt gets it, lent to it for as long as its future lives. Pass a value, or a mutable reference to one that is needed later.
    ///
    /// A closure cannot lend what it owns to the future that it returns, nor move it into more than one. An attempt that is cut short gives the value back too.
    ///
    /// ```
    /// use backstop_retry::{Error, Retrier, TestClock};
    ///
    /// struct Connection {
    ///     requests: u32,
    /// }
    ///
    /// impl Connection {
    ///     async fn send(&mut self) -> Result<u32, Error> {
    ///         self.requests += 1;
    ///         match self.requests {
    ///             3 => Ok(self.requests),
    ///             _ => Err(Error::new("HTTP 503", "busy")),
    ///         }
    ///     }
    /// }
    ///
    /// let clock = TestClock::new();
    /// let retrier = Retrier::builder().clock(clock.clone()).build()?;
    /// let mut connection = Connection { requests: 0 };
    /// let call = retrier.run_with(&mut connection, |mut connection, _attempt| async move {
    ///     connection.send().await
    /// });
    /// assert_eq!(clock.block_on(call).unwrap(), 3);
    /// assert_eq!(connection.requests, 3);
    /// # Ok::<(), backstop_retry::BuildError>(())
    /// ```
    ///
    /// # Panics
    ///
    /// If an attempt has put the lent value somewhere else, such as into a task that still runs, when the next one needs it.
    pub fn run_with<S, F, Fut, T, E>(
        &self,
        value: S,
        mut function: F,
    ) -> Run<'_, impl FnMut(Attempt) -> Fut, Fut, T, E>
    where
        F: FnMut(Lent<S>, Attempt) -> Fut,
        Fut: Future<Output = Result<T, E>>,
    {
        let owner = Owner::new(value);
        self.run(move |attempt| function(owner.lend(), attempt))
    }
}
