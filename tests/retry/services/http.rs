//! An HTTP service, called with reqwest and with hyper: an article is read.

use std::error::Error as StdError;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use backstop_retry::{FullJitter, Policy, RequestError, success};
use backstop_tests::proxy::Fault;
use http_body_util::{BodyExt, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};

use super::Service;

/// Where a service listens that has one article.
async fn articles() -> String {
    let router = Router::new().route("/articles/a-1", get(async || "an article"));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await });
    endpoint
}

fn policy(attempts: u32) -> Arc<dyn Policy> {
    let policy = FullJitter::default().base(Duration::from_millis(1));
    Arc::new(policy.max_attempts(attempts))
}

const THROTTLED: (Fault, &str, u16) = (Fault::refused(429, ""), "HTTP 429", 429);
const FAILED: (Fault, &str, u16) = (Fault::refused(500, ""), "HTTP 500", 500);
const REFUSED: (&str, u16) = ("HTTP 404", 404);

pub(crate) struct Reqwest {
    client: reqwest::Client,
    upstream: String,
    endpoint: String,
}

impl Reqwest {
    async fn get(
        &self,
        article: &str,
    ) -> Result<(), RequestError<reqwest::Error, reqwest::Response>> {
        let url = format!("{}/articles/{article}", self.endpoint);
        let response = success(self.client.get(url).send().await?)?;
        response.text().await?;
        Ok(())
    }
}

impl Service for Reqwest {
    type Error = RequestError<reqwest::Error, reqwest::Response>;

    const THROTTLED: (Fault, &str, u16) = THROTTLED;
    const FAILED: (Fault, &str, u16) = FAILED;
    const REFUSED: (&str, u16) = REFUSED;

    fn policy(attempts: u32) -> Arc<dyn Policy> {
        policy(attempts)
    }

    async fn prepare() -> Self {
        let endpoint = articles().await;
        Self {
            client: reqwest::Client::new(),
            upstream: endpoint.clone(),
            endpoint,
        }
    }

    fn upstream(&self) -> String {
        self.upstream.clone()
    }

    async fn connect(&mut self, endpoint: &str) {
        endpoint.clone_into(&mut self.endpoint);
    }

    async fn call(&self) -> Result<(), Self::Error> {
        self.get("a-1").await
    }

    async fn refused(&self) -> Result<(), Self::Error> {
        self.get("a-2").await
    }
}

pub(crate) struct Hyper {
    upstream: String,
    endpoint: String,
}

/// hyper leaves connections to its user, so there is more than one type of error.
type AnyError = Box<dyn StdError + Send + Sync>;

impl Hyper {
    async fn get(&self, article: &str) -> Result<(), RequestError<AnyError, Response<Incoming>>> {
        let response = success(self.request(article).await?)?;
        let body = response.into_body().collect().await;
        body.map_err(AnyError::from)?;
        Ok(())
    }

    async fn request(&self, article: &str) -> Result<Response<Incoming>, AnyError> {
        let host = self.endpoint.trim_start_matches("http://");
        let stream = TcpStream::connect(host).await?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        let request = Request::get(format!("/articles/{article}")).header("host", host);
        Ok(sender
            .send_request(request.body(Empty::<Bytes>::new())?)
            .await?)
    }
}

impl Service for Hyper {
    type Error = RequestError<AnyError, Response<Incoming>>;

    const THROTTLED: (Fault, &str, u16) = THROTTLED;
    const FAILED: (Fault, &str, u16) = FAILED;
    const REFUSED: (&str, u16) = REFUSED;

    fn policy(attempts: u32) -> Arc<dyn Policy> {
        policy(attempts)
    }

    async fn prepare() -> Self {
        let endpoint = articles().await;
        Self {
            upstream: endpoint.clone(),
            endpoint,
        }
    }

    fn upstream(&self) -> String {
        self.upstream.clone()
    }

    async fn connect(&mut self, endpoint: &str) {
        endpoint.clone_into(&mut self.endpoint);
    }

    async fn call(&self) -> Result<(), Self::Error> {
        self.get("a-1").await
    }

    async fn refused(&self) -> Result<(), Self::Error> {
        self.get("a-2").await
    }
}
