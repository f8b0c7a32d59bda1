//! The calls about rooms, activities and prizes.

mod activities;
mod moves;
mod operations;
mod prizes;
mod problem;
mod schemas;
mod view;

pub use activities::{actor, in_own_room};
pub use problem::ACTIVITY_NOT_FOUND;

use futures_util::future::BoxFuture;

use super::live;
use crate::{
    http::{Endpoint, Routes},
    kernel::ActivityId,
};

/// Knows how many take part in an activity; the application's data holds one.
pub trait CountParticipants: Send + Sync {
    /// The count to show, `None` when it cannot be read now.
    fn count_participants(&self, id: ActivityId) -> BoxFuture<'_, Option<u64>>;
}

/// Needs `Data<ActivityService>`, `Data<dyn CountParticipants>` and `Data<LiveService>` in the
/// application.
pub fn routes(routes: &mut Routes) {
    routes
        .service(
            Endpoint::new("/v1/rooms/{roomId}/activities")
                .get(activities::of_room, operations::of_room()),
        )
        .service(
            Endpoint::new("/v1/activities")
                .get(activities::list, operations::list())
                .post(activities::create, operations::create()),
        )
        .service(
            Endpoint::new("/v1/activities/{activityId}")
                .get(activities::show, operations::show())
                .patch(activities::update, operations::update()),
        )
        .service(
            Endpoint::new("/v1/activities/{activityId}/audit")
                .get(activities::audit, operations::audit()),
        )
        .service(
            Endpoint::new("/v1/activities/{activityId}/events")
                .get(live::events, operations::events()),
        )
        .configure(move_routes)
        .service(
            Endpoint::new("/v1/prizes")
                .get(prizes::list, operations::list_prizes())
                .post(prizes::create, operations::create_prize()),
        )
        .service(
            Endpoint::new("/v1/prizes/{prizeId}").patch(prizes::update, operations::update_prize()),
        );
}

fn move_routes(routes: &mut Routes) {
    routes
        .service(
            Endpoint::new("/v1/activities/{activityId}/submit")
                .post(moves::submit, operations::submit()),
        )
        .service(
            Endpoint::new("/v1/activities/{activityId}/approve")
                .post(moves::approve, operations::approve()),
        )
        .service(
            Endpoint::new("/v1/activities/{activityId}/reject")
                .post(moves::reject, operations::reject()),
        )
        .service(
            Endpoint::new("/v1/activities/{activityId}/open").post(moves::open, operations::open()),
        )
        .service(
            Endpoint::new("/v1/activities/{activityId}/cancel")
                .post(moves::cancel, operations::cancel()),
        );
}
