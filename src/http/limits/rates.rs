//! The limits of a process, and where they are asked for.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr},
    num::NonZeroU32,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use actix_web::{
    Error, HttpRequest, ResponseError,
    body::{BoxBody, MessageBody},
    dev::{ServiceRequest, ServiceResponse},
    http::header::{HeaderMap, X_FORWARDED_FOR},
    middleware::Next,
};
use governor::clock::DefaultClock;

use super::{
    super::{
        health,
        principal::{Principal, Role},
        problem::Problem,
    },
    buckets::{Buckets, Rate},
    client_address::{TrustedProxies, shared_by},
};
use crate::{
    kernel::UserId,
    settings::{LimitsSettings, ServerSettings},
    telemetry::metrics,
};

/// Counts the calls of users and of addresses in this process. Part of the application's data as
/// `Arc<RateLimits>`; an application without it has no limits.
pub struct RateLimits {
    /// `None` is no limit.
    users: Option<Buckets<UserId>>,
    addresses: Option<Buckets<IpAddr>>,
    proxies: TrustedProxies,
    has_seen_stranger_forward: AtomicBool,
}

impl fmt::Debug for RateLimits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimits").finish_non_exhaustive()
    }
}

fn buckets<K>(per_second: u32, burst: NonZeroU32, max: NonZeroU32) -> Option<Buckets<K>>
where
    K: Copy + Eq + std::hash::Hash + Send + Sync + 'static,
{
    let per_second = NonZeroU32::new(per_second)?;
    let rate = Rate { per_second, burst };
    Some(Buckets::new(rate, max, DefaultClock::default()))
}

impl RateLimits {
    pub fn of(limits: &LimitsSettings, server: &ServerSettings) -> Self {
        let max = limits.buckets_max;
        Self {
            users: buckets(limits.user_per_second, limits.user_burst, max),
            addresses: buckets(limits.ip_per_second, limits.ip_burst, max),
            proxies: TrustedProxies::new(&server.trusted_proxies),
            has_seen_stranger_forward: AtomicBool::new(false),
        }
    }

    /// Counts a call of the bearer of a good token, or refuses it with 429.
    ///
    /// Other systems have no limit of their own: they report for whole rooms.
    pub(in super::super) fn admit(
        limits: Option<&Self>,
        caller: Principal,
    ) -> Result<Principal, Problem> {
        let users = limits.and_then(|limits| limits.users.as_ref());
        if let Some(users) = users
            && !caller.has_role(Role::Service)
            && let Err(wait) = users.take(caller.user_id())
        {
            metrics::rate_limited("user");
            return Err(Problem::rate_limited("this user calls too often", wait));
        }
        Ok(caller)
    }

    /// The limits of the application that answers the request.
    pub(in super::super) fn of_request(request: &HttpRequest) -> Option<Arc<Self>> {
        request.app_data::<Arc<Self>>().map(Arc::clone)
    }

    /// Counts a call from wherever it comes, before anything is made of it.
    fn admit_address(&self, request: &ServiceRequest) -> Result<(), Problem> {
        let Some(addresses) = &self.addresses else {
            return Ok(());
        };
        let peer = request
            .peer_addr()
            .map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |peer| peer.ip());
        let client = self.client(peer, request.headers());
        addresses.take(shared_by(client)).map_err(|wait| {
            metrics::rate_limited("address");
            Problem::rate_limited("too many calls come from this address", wait)
        })
    }

    fn client(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        let peer = peer.to_canonical();
        let mut forwarded = headers.get_all(X_FORWARDED_FOR).peekable();
        if forwarded.peek().is_none() {
            return peer;
        }
        if !self.proxies.trusts(peer) {
            self.warn_of_stranger(peer);
            return peer;
        }
        // What is not even text is no address either.
        let values: Vec<&str> = forwarded
            .map(|value| value.to_str().unwrap_or_default())
            .collect();
        self.proxies.client(peer, values.into_iter())
    }

    /// Says once what may be a proxy that was forgotten: all its clients would share one limit.
    fn warn_of_stranger(&self, peer: IpAddr) {
        if !self.has_seen_stranger_forward.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                peer.address = %peer,
                "X-Forwarded-For comes from an address that is not in server.trusted_proxies; if it \
                 is a proxy, all its clients share one limit"
            );
        }
    }
}

/// Middleware inside `track_request`: refuses what comes too often from one address, before the
/// token is looked at. Health and metrics are always answered.
pub async fn limit_by_address<B: MessageBody + 'static>(
    request: ServiceRequest,
    next: Next<B>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    let limits = request.app_data::<Arc<RateLimits>>();
    let admitted = match limits {
        Some(limits) if !health::PATHS.contains(&request.path()) => limits.admit_address(&request),
        Some(_) | None => Ok(()),
    };
    match admitted {
        Ok(()) => Ok(next.call(request).await?.map_into_boxed_body()),
        Err(problem) => Ok(request.into_response(problem.error_response())),
    }
}
