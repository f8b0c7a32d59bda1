//! Admits a run of messages whatever it takes: holds it while a server is down, sets aside what is
//! itself bad.

use sea_orm::DbErr;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use super::{
    batch::{Message, Numbered},
    events,
    outcome::Outcome,
};
use crate::{
    activity::drawing,
    candidate::{
        BarrierPass, CandidateService,
        holding::{Hold, publish_until_confirmed},
        store,
    },
    infra::mysql,
    kernel::step,
};

/// What an outage stops, for the log.
const HELD: &str = "stream";

/// Tries of an item whose data `MySQL` refuses.
const TRIES: u32 = 3;

impl CandidateService {
    /// Admits the messages of one partition, in their order, and tells what became of them.
    ///
    /// On return everything is committed and every event is confirmed; `None`: the stop was
    /// requested before that, and the messages must be handled again. Repeating is harmless.
    pub(in crate::candidate) async fn admit(
        &self,
        partition: u16,
        messages: &[Message],
        stop: &CancellationToken,
    ) -> Option<()> {
        let items: Vec<Numbered<'_>> = messages
            .iter()
            .flat_map(|message| &message.items)
            .enumerate()
            .map(|(number, item)| Numbered { number, item })
            .collect();
        let span = tracing::debug_span!("admission.commit", message.count = items.len());
        let committing = self.commit_in_parts(partition, &items, stop);
        let outcome = committing.instrument(span).await?;
        outcome.record_metrics();

        let span = tracing::debug_span!("admission.project");
        let projecting = self.project(outcome.activities.values());
        projecting.instrument(span).await;
        step("admit.projected");

        let mut outgoing = events::dead_letters(partition, messages, &outcome.dead);
        outgoing.extend(events::updates(messages, &outcome, self.event_time().await));
        if self.shared.deps.join.report_accepted {
            outgoing.extend(events::accepted_joins(
                messages,
                &outcome,
                self.event_time().await,
            ));
        }
        let broker = &self.shared.deps.broker;
        publish_until_confirmed(broker, outgoing, HELD, stop).await?;
        step("admit.told");
        Some(())
    }

    /// Notes that everything before the barriers has been handled, and answers those that no draw
    /// asked for; `None` as in `admit`.
    pub(in crate::candidate) async fn pass_barriers(
        &self,
        partition: u16,
        passes: &[BarrierPass],
        stop: &CancellationToken,
    ) -> Option<Vec<BarrierPass>> {
        let mut hold = Hold::new(HELD);
        loop {
            match mysql::within_limit(self.note_barriers(partition, passes)).await {
                Ok(unasked) => return Some(unasked),
                Err(error) => hold.pause(&error, stop).await?,
            }
        }
    }

    /// A barrier that came before its draw was claimed would let the draw overtake the joins
    /// behind it, so it is not noted.
    async fn note_barriers(
        &self,
        partition: u16,
        passes: &[BarrierPass],
    ) -> Result<Vec<BarrierPass>, DbErr> {
        let mut asked_for = Vec::with_capacity(passes.len());
        let mut unasked = Vec::new();
        for pass in passes {
            let state = drawing::find_state(self.db(), pass.activity_id).await?;
            let last_token = state.as_ref().map_or(0, |state| state.draw_token);
            if !(1..=last_token).contains(&pass.draw_token) {
                unasked.push(*pass);
            } else if state.is_some_and(|state| state.pending_draw_at().is_some()) {
                asked_for.push(*pass);
            }
            // Else the draw is over, and nobody waits for its barriers.
        }
        store::insert_barriers(self.db(), partition, &asked_for).await?;
        Ok(unasked)
    }

    /// Commits the items, in one transaction if possible; a batch that is refused is split until the
    /// culprit is alone.
    async fn commit_in_parts(
        &self,
        partition: u16,
        items: &[Numbered<'_>],
        stop: &CancellationToken,
    ) -> Option<Outcome> {
        let mut outcome = Outcome::default();
        let mut waiting = vec![items];
        while let Some(part) = waiting.pop() {
            match (self.commit_held(partition, part, stop).await?, part) {
                (Ok(committed), _) => outcome.extend(committed),
                (Err(error), [culprit]) => outcome.dead.push((culprit.number, error.to_string())),
                (Err(_), _) => {
                    let (first, second) = part.split_at(part.len() / 2);
                    waiting.extend([second, first]);
                }
            }
        }
        Some(outcome)
    }

    /// Holds the items while `MySQL` does not work; an error is one of the items themselves. Refused
    /// data is told without a pause: it is not better later, and others wait behind it.
    async fn commit_held(
        &self,
        partition: u16,
        items: &[Numbered<'_>],
        stop: &CancellationToken,
    ) -> Option<Result<Outcome, DbErr>> {
        let mut hold = Hold::new(HELD);
        let mut tries_left = TRIES;
        loop {
            let error = match self.commit(partition, items).await {
                Ok(outcome) => return Some(Ok(outcome)),
                Err(error) => error,
            };
            if !mysql::is_bad_data(&error) {
                hold.pause(&error, stop).await?;
                continue;
            }
            tries_left -= 1;
            if items.len() > 1 || tries_left == 0 {
                return Some(Err(error));
            }
        }
    }
}
