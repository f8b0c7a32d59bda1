//! The table of what is looked for.

use std::time::Duration;

use super::{Retention, Step, StepError};
use crate::{
    activity::ActivityService, candidate::CandidateService, draw::DrawService,
    infra::idempotency::Answers, telemetry::state,
};

/// Whose work is looked after.
#[derive(Clone)]
pub struct SweeperDeps {
    pub activities: ActivityService,
    pub candidates: CandidateService,
    pub draws: DrawService,
    pub answers: Answers,
    pub retention: Retention,
}

/// Draws that one sweep begins at most.
const DRAWS_AT_ONCE: u32 = 32;

/// Proofs that one sweep publishes at most.
const PROOFS_AT_ONCE: u32 = 32;

/// After this long an undrawn activity is an alarm.
const OVERDUE: Duration = Duration::from_secs(30);

/// Every step of a sweep, in its order.
pub fn steps(deps: &SweeperDeps) -> Vec<Step> {
    let SweeperDeps {
        activities,
        candidates,
        draws,
        answers,
        retention,
    } = deps;
    vec![
        step("due_draws", draws, |draws| async move {
            draws.begin_due(DRAWS_AT_ONCE).await
        }),
        step("missed_proofs", draws, |draws| async move {
            draws.publish_missed_proofs(PROOFS_AT_ONCE).await
        })
        .long(),
        step("overdue_draws", draws, alarm_overdue).every(10).long(),
        step("scheduled_openings", activities, |activities| async move {
            activities.open_scheduled().await
        }),
        step("arm_draws", activities, |activities| async move {
            activities.arm_draws().await
        }),
        step("rebuild_lagging", candidates, |candidates| async move {
            candidates.rebuild_lagging().await
        })
        .long(),
        step("stock", activities, alarm_stock).every(60).long(),
        step("results", draws, alarm_results).every(60).long(),
        step("old_answers", answers, |answers| async move {
            answers.forget_old().await
        })
        .every(60),
        step("retention", retention, |retention| async move {
            retention.remove_expired().await
        })
        .every(10)
        .long(),
    ]
}

/// A step over a service of its own.
fn step<S, F, E>(
    name: &'static str,
    service: &S,
    run: impl Fn(S) -> F + Send + Sync + 'static,
) -> Step
where
    S: Clone + Send + Sync + 'static,
    F: Future<Output = Result<usize, E>> + Send + 'static,
    E: Into<StepError>,
{
    let service = service.clone();
    Step::new(name, move || run(service.clone()))
}

/// Says aloud which activities should have been drawn long ago.
async fn alarm_overdue(draws: DrawService) -> Result<usize, StepError> {
    let overdue = draws.list_overdue(OVERDUE).await;
    state::draws_overdue(overdue.as_ref().ok().map(Vec::len));
    for id in overdue? {
        tracing::error!(activity.id = %id, "activity is more than 30 s past drawAt and not drawn");
    }
    // An alarm repairs nothing.
    Ok(0)
}

/// Says aloud of which prizes the stock does not add up.
async fn alarm_stock(activities: ActivityService) -> Result<usize, StepError> {
    let wrong = activities.list_wrong_stock().await;
    state::stock_wrong(wrong.as_ref().ok().map(Vec::len));
    for id in wrong? {
        tracing::error!(prize.id = %id, "the stock of a prize does not add up");
    }
    // Nor does this one.
    Ok(0)
}

/// Says aloud which draws have another number of winners than they should.
async fn alarm_results(draws: DrawService) -> Result<usize, StepError> {
    let wrong = draws.list_wrong_results().await;
    state::results_wrong(wrong.as_ref().ok().map(Vec::len));
    for id in wrong? {
        tracing::error!(activity.id = %id, "a draw has another number of wins than seats");
    }
    // It is for people to find out why.
    Ok(0)
}
