//! How an export reaches the collector.

use std::{fmt, time::Duration};

use async_trait::async_trait;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper_rustls::HttpsConnector;
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use opentelemetry_http::{HttpClient, HttpError, Request, Response};
use tokio::runtime::Handle;

/// Longest answer that is read.
const ANSWER_LIMIT_BYTES: usize = 64 * 1024;

/// Sends each export on the runtime that made it: the thread that exports has none.
pub(super) struct Transport {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    limit: Duration,
    runtime: Handle,
}

impl Transport {
    /// Must be called on a runtime.
    pub(super) fn new(connector: HttpsConnector<HttpConnector>, limit: Duration) -> Self {
        Self {
            client: Client::builder(TokioExecutor::new()).build(connector),
            limit,
            runtime: Handle::current(),
        }
    }
}

impl fmt::Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transport").finish_non_exhaustive()
    }
}

#[async_trait]
impl HttpClient for Transport {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let answer = self.client.request(request.map(Full::new));
        let whole = async move {
            let (head, body) = answer.await?.into_parts();
            let body = Limited::new(body, ANSWER_LIMIT_BYTES).collect().await?;
            Ok::<_, HttpError>(Response::from_parts(head, body.to_bytes()))
        };
        let sending = self.runtime.spawn(tokio::time::timeout(self.limit, whole));
        sending.await??
    }
}
