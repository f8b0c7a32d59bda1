//! Why tokens cannot be verified or signed.

use std::io;

use super::key_set::KeySetFault;

/// Why there is nobody who could verify or sign tokens.
#[derive(Debug, thiserror::Error)]
pub enum AuthError {
    #[error(
        "nothing is configured that tokens could be verified with: set \
         LUCKYBAG__AUTH__SIGNING_SECRET to 32 bytes or more, LUCKYBAG__AUTH__JWKS_URL or \
         LUCKYBAG__AUTH__JWKS_FILE"
    )]
    NoKeys,

    #[error(
        "no signing key is configured: set LUCKYBAG__AUTH__SIGNING_SECRET to 32 bytes or more; \
         the keys of a JWKS verify tokens and cannot sign them"
    )]
    NoSigningKey,

    #[error("the configured key cannot be used")]
    Key(#[source] jsonwebtoken::errors::Error),

    #[error("cannot sign the token")]
    Sign(#[source] jsonwebtoken::errors::Error),

    #[error("auth.jwks_file cannot be used")]
    JwksFile(#[from] JwksFileError),

    #[error("auth.jwks_url cannot be used: {0}")]
    JwksUrl(String),
}

/// Why a file gives no keys.
#[derive(Debug, thiserror::Error)]
pub enum JwksFileError {
    #[error("cannot read it")]
    Read(#[from] io::Error),

    #[error("it is not a regular file")]
    NotAFile,

    #[error(transparent)]
    Content(#[from] KeySetFault),
}
