//! The one transaction that decides who won.

use rand::RngExt;
use sea_orm::{ConnectionTrait, DatabaseConnection, DbErr, TransactionTrait};
use serde_json::json;

use super::{
    events,
    lease::DrawLease,
    seats::{self, Seat},
};
use crate::{
    activity::{
        self, Activity, Actor, Status, audit,
        drawing::{self, FinalFigures},
    },
    candidate::{self, PoolCount, Selection},
    infra::{
        mysql::{TransactionRetry, within_limit},
        outbox::{Entry, Outbox},
    },
    kernel::{self, Timestamp, WinRecordId},
    telemetry::metrics,
    winners::{self, WinRecord, WinStatus, WinnerProjection},
};

/// Everything that a draw's transaction writes, ready to be written again after a conflict.
pub(super) struct Settlement<'a> {
    lease: &'a DrawLease,
    activity: &'a Activity,
    seats: Vec<Seat>,
    figures: FinalFigures,
}

impl<'a> Settlement<'a> {
    pub(super) fn of(
        lease: &'a DrawLease,
        activity: &'a Activity,
        selection: &Selection,
        counts: &PoolCount,
    ) -> Self {
        let seats = seats::assign(&activity.prizes, &selection.ranked);
        let figures = FinalFigures {
            joined_count: selection.joined_count,
            rejected_count: rejected(counts),
            eligible_count: selection.eligible_count,
            cutoff_score: seats.last().map(|seat| seat.score),
        };
        Self {
            lease,
            activity,
            seats,
            figures,
        }
    }

    pub(super) fn winner_count(&self) -> usize {
        self.seats.len()
    }

    /// Writes it, whole or not at all; returns when, or `None` when the claim is not the latest one
    /// any more, and then nothing was written.
    pub(super) async fn commit(
        &self,
        db: &DatabaseConnection,
        outbox: &Outbox,
    ) -> Result<Option<Timestamp>, DbErr> {
        let mut retry = TransactionRetry::new();
        loop {
            match within_limit(self.try_commit(db, outbox)).await {
                Err(error) if retry.again(&error).await => metrics::db_retries(),
                outcome => return outcome,
            }
        }
    }

    async fn try_commit(
        &self,
        db: &DatabaseConnection,
        outbox: &Outbox,
    ) -> Result<Option<Timestamp>, DbErr> {
        let tx = db.begin().await?;
        let Some(drawn_at) = self.write(&tx, outbox).await? else {
            return Ok(None);
        };
        kernel::step("draw.in_transaction");
        match tx.commit().await {
            Ok(()) => Ok(Some(drawn_at)),
            Err(error) => self.find_out(db, error).await,
        }
    }

    async fn write(
        &self,
        tx: &impl ConnectionTrait,
        outbox: &Outbox,
    ) -> Result<Option<Timestamp>, DbErr> {
        let (id, token) = (self.activity.id, self.lease.token());
        let now = drawing::find_state(tx, id).await?.map(|state| state.now);
        let Some(drawn_at) = now else {
            return Ok(None);
        };
        let marked = drawing::mark_drawn(tx, id, token, drawn_at, &self.figures).await?;
        let Some(version) = marked else {
            return Ok(None);
        };
        let stock = seats::stock_changes(&self.activity.prizes, &self.seats);
        activity::settle_stock(tx, &stock).await?;
        winners::record(tx, &self.win_records(drawn_at)).await?;
        candidate::forget_barriers(tx, id).await?;
        let participants = candidate::participation_range(tx, id).await?;
        winners::progress::insert(tx, id, participants).await?;
        let detail = json!({
            "winnerCount": self.seats.len(),
            "joinedCount": self.figures.joined_count,
            "rejectedCount": self.figures.rejected_count,
            "eligibleCount": self.figures.eligible_count,
            "drawToken": token,
        });
        let entry = Actor::service("draw").did("activity.draw", id, Some(detail));
        audit::record(tx, &entry).await?;
        outbox.append(tx, &self.owed(version, drawn_at)).await?;
        Ok(Some(drawn_at))
    }

    fn win_records(&self, drawn_at: Timestamp) -> Vec<WinRecord> {
        // A random start keeps draws of the same millisecond apart.
        let first: u32 = rand::rng().random();
        let low_bits = (0..).map(|offset: u32| first.wrapping_add(offset));
        let record = |(seat, low_bits): (&Seat, u32)| WinRecord {
            id: WinRecordId(kernel::time_ordered_id(drawn_at, low_bits)),
            activity_id: self.activity.id,
            user_id: seat.user_id,
            seat: seat.number,
            round: 1,
            prize_id: seat.prize_id,
            prize_rank: seat.prize_rank,
            score: seat.score,
            status: WinStatus::Won,
            drawn_at,
            revoked_round: None,
        };
        self.seats.iter().zip(low_bits).map(record).collect()
    }

    /// What the transaction owes. The winners are told by `notify_progress`.
    fn owed(&self, version: u32, drawn_at: Timestamp) -> [Entry; 3] {
        let activity_id = self.activity.id;
        let project = |what| Entry::Project {
            what,
            activity_id,
            version,
        };
        let drawn = events::drawn(
            self.activity,
            version,
            drawn_at,
            self.seats.len(),
            &self.figures,
        );
        [
            Entry::Publish(drawn),
            project("activity"),
            project(WinnerProjection::NAME),
        ]
    }

    /// The answer to COMMIT was lost: looks whether it was done. Never compensates.
    async fn find_out(
        &self,
        db: &DatabaseConnection,
        error: DbErr,
    ) -> Result<Option<Timestamp>, DbErr> {
        let state = drawing::find_state(db, self.activity.id).await?;
        let ours = state.filter(|state| {
            state.status == Status::Drawn && state.draw_token == self.lease.token()
        });
        match ours.and_then(|state| state.drawn_at) {
            Some(drawn_at) => Ok(Some(drawn_at)),
            None => Err(error),
        }
    }
}

fn rejected(counts: &PoolCount) -> u64 {
    counts.blocked + counts.cooldown + counts.duplicate_device + counts.invalid
}
