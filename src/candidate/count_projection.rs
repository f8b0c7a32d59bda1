//! The display count of a drawn activity, brought up to date for good.

use futures_util::future::BoxFuture;

use super::CandidateService;
use crate::{
    activity,
    infra::outbox::{Project, ProjectError},
    kernel::ActivityId,
};

/// Sets the display count of an activity from `MySQL`. Registered as [`CountProjection::NAME`].
pub struct CountProjection(pub CandidateService);

impl CountProjection {
    /// What `Entry::Project { what, .. }` names.
    pub const NAME: &'static str = "candidates";
}

impl Project for CountProjection {
    fn project(&self, activity_id: ActivityId) -> BoxFuture<'_, Result<(), ProjectError>> {
        Box::pin(async move {
            if let Some(activity) = activity::find(self.0.db(), activity_id).await? {
                self.0.reconcile_count(&activity).await?;
            }
            Ok(())
        })
    }
}
