//! How many connections the operating system lets the process have.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::settings::Settings;

/// For everything but streams: calls in hand, kept connections, the three servers, the log.
const BESIDE_STREAMS: u64 = 1_000;

/// Raises the limit of open files, often 1,024, as far as this process may; each connection is one.
/// Says so when that is too little for all the streams that are configured.
pub(super) fn allow_for(settings: &Settings) {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    let allowed = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum,
        Err(error) => {
            let error = &error as &dyn std::error::Error;
            tracing::debug!(error, "the limit of open files stays as it is");
            limit.current
        }
    };
    let streams = u64::try_from(settings.live.max_streams.get()).unwrap_or(u64::MAX);
    let needed = streams.saturating_add(BESIDE_STREAMS);
    // `None` is no limit.
    if let Some(allowed) = allowed.filter(|&allowed| allowed < needed) {
        tracing::warn!(
            open_files.allowed = allowed,
            open_files.needed = needed,
            "the operating system allows fewer open files than live.max_streams needs; raise the \
             hard limit (ulimit -Hn), or lower live.max_streams"
        );
    }
}
