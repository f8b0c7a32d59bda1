//! The calls about rooms, activities and prizes.

mod activities;
mod moves;
mod prizes;
mod problem;
mod view;

pub use activities::{actor, in_own_room};

use actix_web::web::ServiceConfig;
use futures_util::future::BoxFuture;

use super::live;
use crate::{http::Endpoint, kernel::ActivityId};

/// Knows how many take part in an activity; the application's data holds one.
pub trait CountParticipants: Send + Sync {
    /// The count to show, `None` when it cannot be read now.
    fn count_participants(&self, id: ActivityId) -> BoxFuture<'_, Option<u64>>;
}

/// Needs `Data<ActivityService>`, `Data<dyn CountParticipants>` and `Data<LiveService>` in the
/// application.
pub fn routes(config: &mut ServiceConfig) {
    config
        .service(Endpoint::new("/v1/rooms/{roomId}/activities").get(activities::of_room))
        .service(
            Endpoint::new("/v1/activities")
                .get(activities::list)
                .post(activities::create),
        )
        .service(
            Endpoint::new("/v1/activities/{activityId}")
                .get(activities::show)
                .patch(activities::update),
        )
        .service(Endpoint::new("/v1/activities/{activityId}/audit").get(activities::audit))
        .service(Endpoint::new("/v1/activities/{activityId}/events").get(live::events))
        .service(Endpoint::new("/v1/activities/{activityId}/submit").post(moves::submit))
        .service(Endpoint::new("/v1/activities/{activityId}/approve").post(moves::approve))
        .service(Endpoint::new("/v1/activities/{activityId}/reject").post(moves::reject))
        .service(Endpoint::new("/v1/activities/{activityId}/open").post(moves::open))
        .service(Endpoint::new("/v1/activities/{activityId}/cancel").post(moves::cancel))
        .service(
            Endpoint::new("/v1/prizes")
                .get(prizes::list)
                .post(prizes::create),
        )
        .service(Endpoint::new("/v1/prizes/{prizeId}").patch(prizes::update));
}
