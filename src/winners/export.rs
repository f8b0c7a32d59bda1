//! `GET …/winners.csv`: everybody who won, revoked wins too.

use std::sync::Arc;

use actix_web::{
    HttpResponse,
    web::{Bytes, Data},
};
use sea_orm::DbErr;

use super::{
    WinnerError, WinnerService,
    changes::{self, WinHistory},
};
use crate::{
    activity::{self, Activity, ActivityError, ActivityService, Status, actor, audit},
    http::{
        Cell, CsvFile, CsvPages, ExportError, ExportRequest, Exports, HostOrOperator, Pages,
        PathId, Problem,
    },
    infra::mysql::{read_in_turn, read_patiently},
    kernel::ActivityId,
};

const COLUMNS: &[&str] = &[
    "seat",
    "round",
    "status",
    "userId",
    "winRecordId",
    "prizeRank",
    "prizeId",
    "prizeName",
    "prizeKind",
    "score",
    "drawnAt",
    "revokedRound",
    "revokedAt",
    "fulfilment",
    "fulfilmentReference",
];

/// Rows of one page, each of which is a turn of its own at `MySQL`.
const PAGE: u32 = 500;

/// Exports who won, for who runs the room.
pub(super) async fn winners_csv(
    caller: HostOrOperator,
    PathId(id): PathId<ActivityId>,
    request: ExportRequest,
    activities: Data<ActivityService>,
    winners: Data<WinnerService>,
    exports: Data<Exports>,
) -> Result<HttpResponse, Problem> {
    activity::in_own_room(&activities, &caller, id).await?;
    let activity = winners.drawn(id).await?;
    let file = CsvFile::new("winners", id);
    if request == ExportRequest::HeadOnly {
        return Ok(file.head_only());
    }
    let place = exports.begin(caller.user_id())?;
    let done = actor(caller.user_id()).did("export.winners", id, None);
    winners.record_export(id, &done).await?;
    let pages = WinnerPages {
        service: WinnerService::clone(&winners),
        activity: Arc::new(activity),
        after: (0, 0),
        csv: CsvPages::new(COLUMNS),
    };
    Ok(place.answer(file, pages).await?)
}

impl WinnerService {
    /// The activity as it is now, if there is a result of it to show.
    async fn drawn(&self, id: ActivityId) -> Result<Activity, Problem> {
        let deps = &self.shared.deps;
        let found = read_in_turn(&deps.mysql_reads, activity::find(&deps.db, id)).await;
        let activity = found
            .map_err(database_error("read the round", id))?
            .ok_or(ActivityError::NotFound(id))?;
        if activity.status != Status::Drawn {
            let detail = format!("activity {id} has not been drawn: it has no winners");
            return Err(Problem::conflict("not_drawn", detail));
        }
        if activity.wins_removed_at.is_some() {
            return Err(WinnerError::Expired(id).into());
        }
        Ok(activity)
    }

    /// Whoever takes people's data out is named in the audit before the first row leaves.
    async fn record_export(
        &self,
        id: ActivityId,
        done: &activity::AuditEntry,
    ) -> Result<(), WinnerError> {
        let deps = &self.shared.deps;
        read_in_turn(&deps.mysql_reads, audit::record(&deps.db, done))
            .await
            .map_err(database_error("record who exports the winners", id))
    }
}

fn database_error(action: &'static str, id: ActivityId) -> impl FnOnce(DbErr) -> WinnerError {
    move |source| WinnerError::Database { action, id, source }
}

/// The wins of one activity by seat and round.
struct WinnerPages {
    service: WinnerService,
    activity: Arc<Activity>,
    /// Seat and round of the last row.
    after: (u32, u32),
    csv: CsvPages,
}

impl Pages for WinnerPages {
    async fn next(&mut self) -> Result<Option<Bytes>, ExportError> {
        let deps = &self.service.shared.deps;
        let (id, after) = (self.activity.id, self.after);
        let read = || changes::list_histories(&deps.db, id, after, PAGE);
        let wins = read_patiently(&deps.mysql_reads, read).await?;
        match wins.last() {
            Some(last) => self.after = (last.seat, last.round),
            None => self.check_unchanged().await?,
        }
        let rows = wins.iter().map(|win| cells(&self.activity, win));
        Ok(self.csv.page(rows)?)
    }
}

impl WinnerPages {
    /// A file holds one round, and all of it.
    async fn check_unchanged(&self) -> Result<(), ExportError> {
        let deps = &self.service.shared.deps;
        let read = || activity::find(&deps.db, self.activity.id);
        let now = read_patiently(&deps.mysql_reads, read).await?;
        match now {
            Some(now) if now.wins_removed_at.is_some() => {
                Err(ExportError::Changed("the win records were removed"))
            }
            Some(now) if now.round == self.activity.round => Ok(()),
            Some(_) | None => Err(ExportError::Changed("the activity was redrawn")),
        }
    }
}

fn cells(activity: &Activity, win: &WinHistory) -> Vec<Cell> {
    let prizes = &activity.prizes;
    let prize = prizes.iter().find(|prize| prize.rank == win.prize_rank);
    vec![
        Cell::plain(win.seat),
        Cell::plain(win.round),
        Cell::plain(&win.status),
        Cell::id(win.user_id),
        Cell::id(win.id),
        Cell::plain(win.prize_rank),
        Cell::id(win.prize_id),
        prize.map_or(Cell::EMPTY, |prize| Cell::text(&prize.name)),
        Cell::plain_or_empty(prize.map(|prize| prize.kind.as_str())),
        Cell::plain(win.score),
        Cell::time(win.drawn_at),
        Cell::plain_or_empty(win.revoked_round),
        win.revoked_at.map_or(Cell::EMPTY, Cell::time),
        Cell::plain(&win.fulfilment),
        Cell::text(win.fulfilment_ref.as_deref().unwrap_or_default()),
    ]
}
