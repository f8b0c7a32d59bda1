//! One bounded GET of a JWKS.

use std::{error::Error, time::Duration};

use http_body_util::{BodyExt, Empty, LengthLimitError, Limited};
use hyper::{
    Request, Response, StatusCode, Uri,
    body::{Bytes, Incoming},
    header,
};
use hyper_rustls::HttpsConnector;
use hyper_util::{
    client::legacy::{self, Client, connect::HttpConnector},
    rt::TokioExecutor,
};

use super::key_set::SIZE_LIMIT_BYTES;
use crate::infra::https;

/// Why nothing was fetched.
#[derive(Debug, thiserror::Error)]
pub(super) enum FetchError {
    #[error("no complete answer within {} ms", .0.as_millis())]
    TooSlow(Duration),

    #[error("the request failed")]
    Request(#[from] legacy::Error),

    #[error("the answer was {0}; redirects are not followed")]
    Status(StatusCode),

    #[error("the answer has more than {SIZE_LIMIT_BYTES} bytes")]
    TooLarge,

    #[error("the answer broke off")]
    Body(#[source] Box<dyn Error + Send + Sync>),
}

/// Fetches one URL; follows no redirect, uses no proxy, sends no credentials.
#[derive(Debug)]
pub(super) struct Fetcher {
    uri: Uri,
    timeout: Duration,
    client: Client<HttpsConnector<HttpConnector>, Empty<Bytes>>,
}

impl Fetcher {
    /// Trusts the system's root certificates, or those that `SSL_CERT_FILE` names.
    pub(super) fn new(uri: Uri, timeout: Duration) -> Result<Self, String> {
        let connector = https::connector(uri.scheme_str().unwrap_or_default())?;
        let client = Client::builder(TokioExecutor::new())
            // Minutes lie between two fetches.
            .pool_max_idle_per_host(0)
            .build(connector);
        Ok(Self {
            uri,
            timeout,
            client,
        })
    }

    /// The body of the answer, all of it within the time and the size allowed.
    pub(super) async fn fetch(&self) -> Result<Bytes, FetchError> {
        tokio::time::timeout(self.timeout, self.get())
            .await
            .unwrap_or(Err(FetchError::TooSlow(self.timeout)))
    }

    async fn get(&self) -> Result<Bytes, FetchError> {
        let mut request = Request::new(Empty::new());
        *request.uri_mut() = self.uri.clone();
        let accepted = header::HeaderValue::from_static("application/json");
        request.headers_mut().insert(header::ACCEPT, accepted);
        let response: Response<Incoming> = self.client.request(request).await?;
        if response.status() != StatusCode::OK {
            return Err(FetchError::Status(response.status()));
        }
        let body = Limited::new(response.into_body(), SIZE_LIMIT_BYTES);
        match body.collect().await {
            Ok(body) => Ok(body.to_bytes()),
            Err(error) if error.is::<LengthLimitError>() => Err(FetchError::TooLarge),
            Err(error) => Err(FetchError::Body(error)),
        }
    }
}
