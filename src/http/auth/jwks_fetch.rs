//! One bounded GET of a JWKS.

use std::{error::Error, sync::Arc, time::Duration};

use http_body_util::{BodyExt, Empty, LengthLimitError, Limited};
use hyper::{
    Request, Response, StatusCode, Uri,
    body::{Bytes, Incoming},
    header,
};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{self, Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use rustls::{ClientConfig, RootCertStore, crypto::aws_lc_rs};

use super::key_set::SIZE_LIMIT_BYTES;

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
        let roots = if uri.scheme_str() == Some("https") {
            system_roots()?
        } else {
            RootCertStore::empty()
        };
        let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(config)
            .https_or_http()
            .enable_http1()
            .build();
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

fn system_roots() -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        let faults: Vec<String> = found.errors.iter().map(ToString::to_string).collect();
        return Err(format!(
            "no root certificates for https: install ca-certificates or set SSL_CERT_FILE ({})",
            faults.join("; ")
        ));
    }
    Ok(roots)
}
