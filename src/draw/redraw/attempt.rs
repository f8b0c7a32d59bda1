//! One attempt at a redraw: a single transaction under the activity's row lock.

use std::{
    collections::HashSet,
    sync::atomic::{AtomicBool, Ordering},
};

use rand::RngExt;
use sea_orm::{ConnectionTrait, DatabaseConnection, DatabaseTransaction, DbErr, TransactionTrait};
use serde_json::{Value, json};

use super::{
    RedrawError,
    order::{RedrawOrder, Verdict, judge},
    outcome::{Redraw, Redrawn, Reserve},
};
use crate::{
    activity::{self, Activity, Actor, Status, audit, drawing},
    candidate::{self, Standing},
    infra::{
        idempotency,
        outbox::{Entry, Outbox},
    },
    kernel::{self, ActivityId, UserId},
    winners::{self, FulfilmentState, Revocation, WinRecord, WinnerProjection, events},
};

/// What an attempt is about.
pub(super) struct Attempt<'a> {
    pub(super) db: &'a DatabaseConnection,
    pub(super) outbox: &'a Outbox,
    pub(super) id: ActivityId,
    pub(super) order: &'a RedrawOrder,
    pub(super) actor: &'a Actor,
    pub(super) reserve: &'a Reserve,
    /// Set once the redraw may have been committed.
    pub(super) may_be_made: &'a AtomicBool,
}

/// How an attempt ended; without `Committed` no win was changed.
pub(super) enum Outcome {
    Committed(Redrawn),
    /// The same order was carried out before.
    Repeated(Redrawn),
    /// The reserve is too short: the best of those who have never won are needed.
    NeedsReserve(Box<Need>),
    /// Something changed in between, or nobody knows whether it was committed.
    LookAgain,
}

/// Whom a reserve has to hold.
pub(super) struct Need {
    pub(super) activity: Activity,
    pub(super) seats: usize,
    pub(super) ever_won: HashSet<UserId>,
}

impl Attempt<'_> {
    pub(super) async fn run(&self) -> Result<Outcome, RedrawError> {
        let tx = self.db.begin().await?;
        let found = activity::find_for_update(&tx, self.id).await?;
        let activity = found.ok_or(RedrawError::NotFound(self.id))?;
        if activity.status != Status::Drawn {
            return Err(RedrawError::NotDrawn(self.id));
        }
        // Whom the removal has come to does not count as a winner any more.
        if activity.wins_removed_at.is_some() {
            return Err(RedrawError::WinsExpired(self.id));
        }
        let wins = winners::list_all(&tx, self.id).await?;
        let delivered = self.delivered(&tx).await?;
        let to_revoke = match judge(&self.order.ids, &wins, &delivered)? {
            Verdict::Revoke(wins) => wins,
            Verdict::Done { round } => {
                let redrawn = Redrawn {
                    redraw: Redraw::of_round(self.id, round, &wins),
                    prizes: activity.prizes,
                };
                return self.repeat(tx, redrawn).await;
            }
        };
        // Nobody knows any more who comes next.
        if activity.participants_removed_at.is_some() {
            return Err(RedrawError::ParticipantsExpired(self.id));
        }
        let ever_won = wins.iter().map(|win| win.user_id).collect();
        let Some(picked) = self
            .pick(&tx, &activity, to_revoke.len(), &ever_won)
            .await?
        else {
            // Before the scan, during which nobody is to wait.
            tx.rollback().await?;
            return Ok(Outcome::NeedsReserve(Box::new(Need {
                seats: to_revoke.len(),
                activity,
                ever_won,
            })));
        };
        let Some(redraw) = self.write(&tx, &activity, to_revoke, &picked).await? else {
            return Ok(Outcome::LookAgain);
        };
        let redrawn = Redrawn {
            redraw,
            prizes: activity.prizes,
        };
        self.commit(tx, redrawn).await
    }

    /// Keeps the answer to a call that was carried out before.
    async fn repeat(
        &self,
        tx: DatabaseTransaction,
        redrawn: Redrawn,
    ) -> Result<Outcome, RedrawError> {
        match idempotency::settle(&tx, &redrawn).await {
            Ok(()) => tx.commit().await?,
            // Kept by an attempt of this call whose commit went unanswered.
            Err(DbErr::Custom(_)) if self.may_be_made.load(Ordering::Relaxed) => (),
            Err(error) => return Err(error.into()),
        }
        Ok(Outcome::Repeated(redrawn))
    }

    /// Keeps the answer, and commits.
    async fn commit(
        &self,
        tx: DatabaseTransaction,
        redrawn: Redrawn,
    ) -> Result<Outcome, RedrawError> {
        idempotency::settle(&tx, &redrawn).await?;
        kernel::step("redraw.in_transaction");
        self.may_be_made.store(true, Ordering::Relaxed);
        match tx.commit().await {
            Ok(()) => Ok(Outcome::Committed(redrawn)),
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, activity.id = %self.id, "looking whether the redraw holds");
                Ok(Outcome::LookAgain)
            }
        }
    }

    async fn delivered(
        &self,
        tx: &impl ConnectionTrait,
    ) -> Result<HashSet<kernel::WinRecordId>, RedrawError> {
        let fulfilments = winners::list_fulfilments(tx, &self.order.ids).await?;
        let delivered = fulfilments
            .into_iter()
            .filter(|(_, fulfilment)| fulfilment.state == FulfilmentState::Delivered);
        Ok(delivered.map(|(id, _)| id).collect())
    }

    /// The next of the order of standings, if the reserve can tell who they are.
    async fn pick(
        &self,
        tx: &impl ConnectionTrait,
        activity: &Activity,
        seats: usize,
        ever_won: &HashSet<UserId>,
    ) -> Result<Option<Vec<Standing>>, RedrawError> {
        let Some(best) = self.reserve.best(seats, ever_won) else {
            return Ok(None);
        };
        // A user may have been erased since the scan.
        let users: Vec<UserId> = best.iter().map(|standing| standing.user_id).collect();
        let eligible = candidate::lock_eligible(tx, activity, &users).await?;
        Ok((eligible.len() == best.len()).then_some(best))
    }

    /// Writes the round; `None` when a win was revoked or delivered a moment ago.
    async fn write(
        &self,
        tx: &impl ConnectionTrait,
        activity: &Activity,
        to_revoke: Vec<WinRecord>,
        picked: &[Standing],
    ) -> Result<Option<Redraw>, RedrawError> {
        let state = drawing::find_state(tx, self.id).await?;
        let now = state.ok_or(RedrawError::NotFound(self.id))?.now;
        // A random start keeps redraws of the same millisecond apart.
        let first_low_bits = rand::rng().random();
        let round = activity.round + 1;
        let redraw = Redraw::new((self.id, round), to_revoke, picked, (now, first_low_bits));
        if !drawing::mark_redrawn(tx, self.id, activity.version).await? {
            return Ok(None);
        }
        activity::take_back_stock(tx, &redraw.freed_pieces()).await?;
        let revocation = Revocation {
            round,
            at: now,
            reason: &self.order.reason,
        };
        let revoked = winners::revoke(tx, self.id, &self.order.ids, &revocation).await?;
        if usize::try_from(revoked) != Ok(redraw.revoked.len()) {
            return Ok(None);
        }
        winners::record(tx, &redraw.replaced).await?;
        self.write_audit(tx, &redraw).await?;
        let owed = owed(activity, &redraw, now);
        self.outbox.append(tx, &owed).await?;
        Ok(Some(redraw))
    }

    /// One row for up to 200 seats, so that each fits its column.
    async fn write_audit(
        &self,
        tx: &impl ConnectionTrait,
        redraw: &Redraw,
    ) -> Result<(), RedrawError> {
        const SEATS_A_ROW: usize = 200;

        for revoked in redraw.revoked.chunks(SEATS_A_ROW) {
            let seats: HashSet<u32> = revoked.iter().map(|win| win.seat).collect();
            let replaced = redraw.replaced.iter();
            let replaced = replaced.filter(|win| seats.contains(&win.seat));
            let empty = redraw.empty_seats.iter();
            let empty: Vec<&u32> = empty.filter(|seat| seats.contains(seat)).collect();
            let detail = json!({
                "round": redraw.round,
                "reason": self.order.reason,
                "revoked": revoked.iter().map(named).collect::<Vec<_>>(),
                "replaced": replaced.map(named).collect::<Vec<_>>(),
                "emptySeats": empty,
            });
            let entry = self.actor.did("activity.redraw", self.id, Some(detail));
            audit::record(tx, &entry).await?;
        }
        Ok(())
    }
}

fn named(win: &WinRecord) -> Value {
    json!({ "winRecordId": win.id, "userId": win.user_id, "seat": win.seat })
}

/// What the transaction owes: who lost and who won, then what Redis shows.
fn owed(activity: &Activity, redraw: &Redraw, now: kernel::Timestamp) -> Vec<Entry> {
    let version = activity.version + 1;
    let project = |what| Entry::Project {
        what,
        activity_id: activity.id,
        version,
    };
    let revoked = redraw.revoked.iter();
    let revoked = revoked.map(|win| events::revoked(activity, win, redraw.round, now));
    let won = redraw.replaced.iter().map(|win| events::won(activity, win));
    let projections = [activity::PROJECTION, WinnerProjection::NAME].map(project);
    let events = revoked.chain(won).map(Entry::Publish);
    projections.into_iter().chain(events).collect()
}
