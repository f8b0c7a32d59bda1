//! `GET /v1/activities/{activityId}/events`.

use std::time::Duration;

use actix_web::{
    HttpRequest, HttpResponse, HttpResponseBuilder,
    http::{Method, StatusCode, header},
    web::Data,
};
use tokio::time::Instant;

use super::{
    listener::Listener,
    places::{Full, Place},
    service::LiveService,
    told::Told,
};
use crate::{
    http::{PathId, Principal, Problem, Role, Viewer},
    kernel::{ActivityId, Clock, SystemClock},
};

/// Tells what happens in an activity until it is over; HEAD only whether it would.
pub(in super::super) async fn events(
    viewer: Viewer,
    PathId(id): PathId<ActivityId>,
    live: Data<LiveService>,
    request: HttpRequest,
) -> Result<HttpResponse, Problem> {
    let moments = live.follow(id).await?;
    let last_event_id = request.headers().get("last-event-id");
    let told = Told::read(id, last_event_id.and_then(|value| value.to_str().ok()));
    let now = live.shared.activities.now_estimate();
    let first = moments.borrow().at(now);
    if first.is_over && first.tell(&mut told.clone(), 0).is_empty() {
        // To a client that speaks the protocol this says: do not come again.
        return Ok(head(StatusCode::NO_CONTENT).finish());
    }
    if request.method() == Method::HEAD {
        return Ok(head(StatusCode::OK).finish());
    }
    let settings = &live.shared.settings;
    let listener = Listener {
        _place: place(&live, viewer.principal())?,
        moments,
        told,
        stop: live.shared.stop.clone(),
        ends_at: Instant::now() + believed_for(viewer.principal()),
        heartbeat: settings.heartbeat_secs.duration(),
        result_spread: settings.result_spread_ms.duration(),
        retry: settings.retry_ms.duration(),
    };
    Ok(head(StatusCode::OK).streaming(listener.stream(first)))
}

fn head(status: StatusCode) -> HttpResponseBuilder {
    let mut response = HttpResponse::build(status);
    response.insert_header((header::CACHE_CONTROL, "no-store"));
    // A proxy that gathers an answer before it passes it on would pass nothing on.
    response.insert_header(("x-accel-buffering", "no"));
    if status == StatusCode::OK {
        response.insert_header((header::CONTENT_TYPE, "text/event-stream"));
    }
    response
}

/// Other systems listen for whole rooms, so only people have a limit of their own.
fn place(live: &LiveService, caller: &Principal) -> Result<Place, Problem> {
    const RETRY: Duration = Duration::from_secs(5);
    let is_person = !caller.has_role(Role::Service);
    let taken = live.shared.places.take(is_person.then(|| caller.user_id()));
    taken.map_err(|full| match full {
        Full::Process => Problem::unavailable(
            "too_many_streams",
            "this process has no place for another stream",
            RETRY,
        ),
        Full::User => Problem::new(
            StatusCode::TOO_MANY_REQUESTS,
            "too_many_own_streams",
            "this user has too many streams open; close one of them",
        )
        .with_retry_after(RETRY),
    })
}

/// How long the caller's token holds; a stream does not outlive it.
fn believed_for(caller: &Principal) -> Duration {
    /// The longest countdown; no clock is asked for a time that is beyond its reach.
    const LONGEST: Duration = Duration::from_hours(30 * 24);
    let left = caller.believed_until() - SystemClock.now();
    left.to_std().unwrap_or_default().min(LONGEST)
}
