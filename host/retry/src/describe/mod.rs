//! How an error looks to a policy: [`Describe`].

/// A row for each type of error that is described by a function, and is the source of the [`RetryError`](crate::RetryError) itself.
macro_rules! described {
    ($($(#[$about:meta])* $error:ty => $describe:expr;)+) => {$(
        $(#[$about])*
        impl Describe for $error {
            fn describe(&self) -> Error {
                let describe: fn(&Self) -> Error = $describe;
                describe(self)
            }

            fn as_error(&self) -> Option<&(dyn std::error::Error + 'static)> {
                Some(self)
            }
        }
    )+};
}

#[cfg(feature = "aws")]
mod aws;
#[cfg(feature = "hyper")]
mod http;
mod io;
mod json;
mod network;

use std::error::Error as StdError;

use backstop_core::failure::Error;

#[cfg(feature = "reqwest")]
pub use http::ReqwestError;
#[cfg(feature = "hyper")]
pub use http::{HttpResponse, RequestError, success};
pub use network::describe_by_causes;

/// Describes an error to a policy: its code, its status, how long the other side asks to wait.
///
/// Errors of AWS SDKs (feature `aws`), reqwest (`reqwest`), hyper (`hyper`), [`std::io`] and serde_json implement it, and so do `Box<dyn Error>` and anyhow's (`anyhow`), which are described by their causes. For other errors, implement it, or pass a closure to [`Run::describe`](crate::Run::describe):
///
/// ```
/// use backstop_retry::failure::Milliseconds;
/// use backstop_retry::{Describe, Error};
///
/// enum PaymentError {
///     CardDeclined,
///     Unavailable { seconds: u32 },
/// }
///
/// impl Describe for PaymentError {
///     fn describe(&self) -> Error {
///         match self {
///             Self::CardDeclined => Error::permanent("CardDeclined", "the bank said no"),
///             Self::Unavailable { seconds } => {
///                 let error = Error::new("Unavailable", "the bank is closed");
///                 error.retry_after(Milliseconds(seconds * 1_000))
///             }
///         }
///     }
/// }
/// ```
pub trait Describe {
    /// The error as a policy receives it. Called once for each failed attempt.
    fn describe(&self) -> Error;

    /// The error as the [`source`](StdError::source) of the [`RetryError`](crate::RetryError) that ends a call: `Some(self)` for a type that implements [`std::error::Error`]. By default there is none, and the source is the description.
    fn as_error(&self) -> Option<&(dyn StdError + 'static)> {
        None
    }
}

described! {
    Error => Self::clone;
}

/// A pointer is described as what it points to.
macro_rules! delegate {
    ($($pointer:ty),+) => {$(
        impl<E: Describe + ?Sized> Describe for $pointer {
            fn describe(&self) -> Error {
                (**self).describe()
            }

            fn as_error(&self) -> Option<&(dyn StdError + 'static)> {
                (**self).as_error()
            }
        }
    )+};
}

delegate!(&E, Box<E>, std::sync::Arc<E>);

impl Describe for std::convert::Infallible {
    fn describe(&self) -> Error {
        match *self {}
    }
}

/// Describes the errors of type `E`: by [`Describe`], or with a closure.
pub trait Describer<E> {
    /// The error as a policy receives it.
    fn describe(&self, error: &E) -> Error;

    /// See [`Describe::as_error`].
    fn as_error(error: &E) -> Option<&(dyn StdError + 'static)>
    where
        Self: Sized,
    {
        let _ = error;
        None
    }
}

/// Describes errors with their own [`Describe`].
#[derive(Debug, Clone, Copy, Default)]
pub struct ByTrait;

impl<E: Describe> Describer<E> for ByTrait {
    fn describe(&self, error: &E) -> Error {
        error.describe()
    }

    fn as_error(error: &E) -> Option<&(dyn StdError + 'static)> {
        error.as_error()
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
