//! Connections to other HTTP servers, with TLS where the address asks for it.

use std::sync::Arc;

use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use rustls::{ClientConfig, RootCertStore, crypto::aws_lc_rs};

/// Connects to addresses with this scheme, `http` or `https`, speaking HTTP/1.1.
///
/// For `https` it trusts the system's root certificates, or those that `SSL_CERT_FILE` names, and
/// fails when there are none.
pub fn connector(scheme: &str) -> Result<HttpsConnector<HttpConnector>, String> {
    let roots = if scheme == "https" {
        system_roots()?
    } else {
        RootCertStore::empty()
    };
    let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(HttpsConnectorBuilder::new()
        .with_tls_config(config)
        .https_or_http()
        .enable_http1()
        .build())
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
