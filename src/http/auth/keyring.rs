//! Finds the key of a token among all configured ones.

use std::sync::Arc;

use jsonwebtoken::{Algorithm, Header};

use super::{KeySlot, Refusal, VerifyingKey, key_set::KeySet};

/// The secret, and the sources of public keys in the order of their say.
#[derive(Debug)]
pub(super) struct Keyring {
    secret: Option<Arc<VerifyingKey>>,
    sources: Vec<Arc<KeySlot>>,
}

impl Keyring {
    pub(super) fn new(secret: Option<VerifyingKey>, sources: Vec<Arc<KeySlot>>) -> Self {
        Self {
            secret: secret.map(Arc::new),
            sources,
        }
    }

    /// The key that the token's header means, which has the header's algorithm.
    pub(super) fn find(&self, header: &Header) -> Result<Arc<VerifyingKey>, Refusal> {
        match &header.kid {
            Some(kid) => self.named(kid, header.alg),
            None => self.only(header.alg),
        }
    }

    fn named(&self, kid: &str, algorithm: Algorithm) -> Result<Arc<VerifyingKey>, Refusal> {
        let sets = self.public();
        let public = sets.iter().flat_map(|set| &set.keys);
        let mut named = public.filter(|key| key.kid() == Some(kid)).peekable();
        if named.peek().is_some() {
            let key = named.find(|key| key.algorithm() == algorithm);
            return key.cloned().ok_or_else(Refusal::algorithm);
        }
        // The secret has no name, so whatever its issuer calls it.
        let secret = self.secret.iter().find(|key| key.algorithm() == algorithm);
        secret.cloned().ok_or_else(Refusal::unknown_key)
    }

    /// Without a name only one key may fit.
    fn only(&self, algorithm: Algorithm) -> Result<Arc<VerifyingKey>, Refusal> {
        let sets = self.public();
        let public = sets.iter().flat_map(|set| &set.keys);
        let all = self.secret.iter().chain(public);
        let mut fitting = all.filter(|key| key.algorithm() == algorithm);
        match (fitting.next(), fitting.next()) {
            (Some(key), None) => Ok(Arc::clone(key)),
            (Some(_), Some(_)) | (None, _) => Err(Refusal::unknown_key()),
        }
    }

    fn public(&self) -> Vec<Arc<KeySet>> {
        let sources = self.sources.iter();
        sources.filter_map(|source| source.current()).collect()
    }
}
