//! Tokens: who says so, and until when.
//!
//! A token is verified by a key that was configured: the secret, or a public key of a JWKS that comes
//! from a file or a URL. The key says which algorithm a token must use; the token's own word only
//! helps to find the key.

mod claims;
mod error;
mod issue;
mod jwk;
mod jwks_fetch;
mod jwks_file;
mod jwks_url;
mod key_set;
mod key_slot;
mod keyring;
mod refusal;

pub use error::AuthError;
pub use issue::{NewToken, issue_token};

use std::{fmt, path::Path, sync::Arc};

use actix_web::{HttpRequest, http::header};
use jsonwebtoken::{Algorithm, DecodingKey, Header};
use secrecy::ExposeSecret;

use self::{
    claims::ClaimRules, jwk::VerifyingKey, jwks_file::JwksFile, jwks_url::JwksUrl,
    key_slot::KeySlot, keyring::Keyring, refusal::Refusal,
};
use super::{health::Readiness, principal::Principal, problem::Problem};
use crate::{
    kernel::{Clock, Supervisor},
    settings::AuthSettings,
    telemetry::metrics,
};

/// Verifies bearer tokens. Part of the application's data as `Arc<Auth>`.
pub struct Auth {
    keys: Keyring,
    file: Option<Arc<JwksFile>>,
    url: Option<Arc<JwksUrl>>,
    rules: ClaimRules,
    clock: Arc<dyn Clock>,
}

impl fmt::Debug for Auth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Auth").finish_non_exhaustive()
    }
}

impl Auth {
    /// Reads the file, when one is configured: it is part of the configuration and must be there.
    /// A URL is asked later, by what [`Auth::spawn`] starts.
    pub fn new(settings: &AuthSettings, clock: Arc<dyn Clock>) -> Result<Self, AuthError> {
        let secret = secret_key(settings)?;
        let file = settings
            .jwks_file
            .as_deref()
            .map(Path::new)
            .map(JwksFile::open);
        let file = file.transpose()?.map(Arc::new);
        let url = JwksUrl::new(settings)?.map(Arc::new);
        if secret.is_none() && file.is_none() && url.is_none() {
            return Err(AuthError::NoKeys);
        }
        let file_keys = file.as_ref().map(|file| file.keys());
        let url_keys = url.as_ref().map(|url| url.keys());
        Ok(Self {
            keys: Keyring::new(secret, file_keys.into_iter().chain(url_keys).collect()),
            file,
            url,
            rules: ClaimRules::new(settings),
            clock,
        })
    }

    /// Starts what keeps the keys fresh.
    pub fn spawn(&self, ground: &Supervisor) {
        let stop = ground.stop_token();
        if let Some(file) = self.file.clone() {
            let stop = stop.clone();
            ground.spawn("jwks file", async move { file.run(stop).await });
        }
        if let Some(url) = self.url.clone() {
            ground.spawn("jwks url", async move { url.run(stop).await });
        }
    }

    /// Shows a URL of keys as the dependency `jwks`: up while its last fetch went well.
    pub fn register(&self, readiness: &Readiness) {
        if let Some(url) = &self.url {
            let keys = url.keys();
            readiness.register("jwks", Arc::new(move || keys.is_fresh()));
        }
    }

    /// Resolves once every configured source of keys has been read at least once.
    pub async fn wait_for_keys(&self) {
        if let Some(url) = &self.url {
            url.wait_for_keys().await;
        }
    }

    /// The bearer of the request's token, or `401`.
    pub(super) fn of_request(
        request: &HttpRequest,
    ) -> impl Future<Output = Result<Principal, Problem>> + use<> {
        // The request itself must not outlive its turn.
        let auth = request.app_data::<Arc<Self>>().cloned();
        let token = bearer(request).map(str::to_owned);
        async move {
            let auth =
                auth.ok_or_else(|| Problem::internal("the application has no `Arc<Auth>`"))?;
            let Some(token) = token else {
                return Err(refused(Refusal::missing()));
            };
            auth.verify(&token).await
        }
    }

    /// The bearer of `token`, or `401`; `503` while the key may be among some not fetched yet.
    pub async fn verify(&self, token: &str) -> Result<Principal, Problem> {
        self.principal(token).await.map_err(refused)
    }

    async fn principal(&self, token: &str) -> Result<Principal, Refusal> {
        let header = jsonwebtoken::decode_header(token).map_err(|error| Refusal::of(&error))?;
        if !ClaimRules::knows(header.alg) {
            return Err(Refusal::algorithm());
        }
        let key = match self.keys.find(&header) {
            Err(refusal) if refusal.is_unknown_key() => self.find_later(&header, refusal).await?,
            found => found?,
        };
        self.rules.check(token, &key, self.clock.now())
    }

    /// Looks for a key that came with a fetch made because of this token.
    async fn find_later(
        &self,
        header: &Header,
        refusal: Refusal,
    ) -> Result<Arc<VerifyingKey>, Refusal> {
        let Some(url) = &self.url else {
            return Err(refusal);
        };
        if header.alg == Algorithm::HS256 {
            return Err(refusal);
        }
        if !url.keys().is_loaded() {
            return Err(Refusal::keys_away());
        }
        if header.kid.is_some() && url.was_fetched_again().await {
            return self.keys.find(header);
        }
        Err(refusal)
    }
}

fn secret_key(settings: &AuthSettings) -> Result<Option<VerifyingKey>, AuthError> {
    let secret = settings.signing_secret.expose_secret();
    if secret.is_empty() {
        return Ok(None);
    }
    let key = DecodingKey::from_secret(secret.as_bytes()).map_err(AuthError::Key)?;
    Ok(Some(VerifyingKey::of_secret(key)))
}

/// Counts a refusal where it is answered.
fn refused(refusal: Refusal) -> Problem {
    metrics::token_refused(refusal.reason());
    refusal.into_problem()
}

fn bearer(request: &HttpRequest) -> Option<&str> {
    let value = request
        .headers()
        .get(header::AUTHORIZATION)?
        .to_str()
        .ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme
        .eq_ignore_ascii_case("bearer")
        .then_some(token.trim())
}
