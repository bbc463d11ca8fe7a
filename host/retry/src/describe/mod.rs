//! How an error looks to a policy: [`Describe`].

#[cfg(feature = "aws")]
mod aws;
#[cfg(feature = "hyper")]
mod http;
mod io;
mod network;

use backstop_core::failure::Error;

#[cfg(feature = "hyper")]
pub use http::{HttpResponse, RequestError, success};
pub use network::describe_by_causes;

/// Describes an error to a policy: its code, its status, how long the other side asks to wait.
///
/// Errors of AWS SDKs (feature `aws`), reqwest (`reqwest`), hyper (`hyper`) and [`std::io`] implement it. For other errors, implement it, or pass a closure to [`Run::describe`](crate::Run::describe):
///
/// ```
/// use backstop_retry::{Describe, Error};
///
/// enum PaymentError {
///     CardDeclined,
///     Unavailable { seconds: u64 },
/// }
///
/// impl Describe for PaymentError {
///     fn describe(&self) -> Error {
///         match self {
///             Self::CardDeclined => Error::new("CardDeclined", "the bank said no"),
///             Self::Unavailable { .. } => Error { status: Some(503), ..Error::new("Unavailable", "") },
///         }
///     }
/// }
/// ```
pub trait Describe {
    /// The error as a policy receives it. Called once for each failed attempt.
    fn describe(&self) -> Error;
}

impl Describe for Error {
    fn describe(&self) -> Error {
        self.clone()
    }
}

impl<E: Describe + ?Sized> Describe for &E {
    fn describe(&self) -> Error {
        (**self).describe()
    }
}

impl<E: Describe + ?Sized> Describe for Box<E> {
    fn describe(&self) -> Error {
        (**self).describe()
    }
}

impl<E: Describe + ?Sized> Describe for std::sync::Arc<E> {
    fn describe(&self) -> Error {
        (**self).describe()
    }
}

impl Describe for std::convert::Infallible {
    fn describe(&self) -> Error {
        match *self {}
    }
}

/// Describes the errors of type `E`: by [`Describe`], or with a closure.
pub trait Describer<E> {
    /// The error as a policy receives it.
    fn describe(&self, error: &E) -> Error;
}

/// Describes errors with their own [`Describe`].
#[derive(Debug, Clone, Copy, Default)]
pub struct ByTrait;

impl<E: Describe> Describer<E> for ByTrait {
    fn describe(&self, error: &E) -> Error {
        error.describe()
    }
}

/// Describes errors with a closure.
#[derive(Clone, Copy)]
pub struct By<C>(pub(crate) C);

impl<E, C: Fn(&E) -> Error> Describer<E> for By<C> {
    fn describe(&self, error: &E) -> Error {
        (self.0)(error)
    }
}

impl<C> std::fmt::Debug for By<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("By(..)")
    }
}
