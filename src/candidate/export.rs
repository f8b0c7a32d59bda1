//! `GET …/participants.csv`: everybody who joined, or tried to.

use actix_web::{
    HttpResponse,
    http::StatusCode,
    web::{Bytes, Data},
};

use super::{
    CandidateService, Rules, Standing, UserRows, Verdict,
    store::{self, PageOf},
};
use crate::{
    activity::{
        self, ACTIVITY_NOT_FOUND, Activity, ActivityError, ActivityService, AuditEntry, Seed,
        actor, audit,
    },
    http::{
        CSV_MEDIA_TYPE, Cell, CsvFile, CsvPages, Endpoint, ExportError, ExportRequest, Exports,
        HostOrOperator, KnownProblem, Operation, Pages, PathId, Problem, Routes, Tag,
    },
    infra::mysql::{read_in_turn, read_patiently},
    kernel::{ActivityId, UserId},
};

const COLUMNS: &[&str] = &[
    "userId",
    "status",
    "reason",
    "acceptedAt",
    "eligibility",
    "tasksDone",
    "trimmed",
    "score",
];

/// Rows of one page, each of which is a turn of its own at `MySQL`.
const PAGE: u64 = 500;

/// The routes of exports of participants; they need `Data<CandidateService>`, `Data<ActivityService>`
/// and `Data<Exports>`.
pub fn routes(routes: &mut Routes) {
    routes.service(
        Endpoint::new("/v1/activities/{activityId}/participants.csv")
            .get(participants_csv, operation()),
    );
}

fn operation() -> Operation {
    Operation::new(
        Tag::Activities,
        "exportParticipants",
        "Exports who takes part, who was rejected and who came late, as CSV",
    )
    .description(
        "Streamed: an answer that ends without its last chunk is not the whole file. Scores, and who was \
         trimmed by them, are in it once the proof is published. `docs/integration.md` tells of the \
         format. Audited.",
    )
    .answer_text(
        StatusCode::OK,
        CSV_MEDIA_TYPE,
        "A row for each participation, by user id.",
        "\u{feff}\"userId\",\"status\",\"reason\",\"acceptedAt\",\"eligibility\",\"tasksDone\",\"trimmed\",\
         \"score\"\r\n\
         \"'1001\",\"joined\",\"\",\"2026-01-31T19:56:12.345Z\",\"eligible\",\"follow\",\"false\",\
         \"0.981273645\"\r\n",
    )
    .problems(&[
        ACTIVITY_NOT_FOUND,
        KnownProblem::gone(
            "participants_expired",
            "The participants were removed at the end of their life",
        ),
        KnownProblem::UNAVAILABLE,
    ])
}

/// Exports who takes part, for who runs the room.
async fn participants_csv(
    caller: HostOrOperator,
    PathId(id): PathId<ActivityId>,
    request: ExportRequest,
    activities: Data<ActivityService>,
    candidates: Data<CandidateService>,
    exports: Data<Exports>,
) -> Result<HttpResponse, Problem> {
    activity::in_own_room(&activities, &caller, id).await?;
    let activity = candidates.with_participants(id).await?;
    let file = CsvFile::new("participants", id);
    if request == ExportRequest::HeadOnly {
        return Ok(file.head_only());
    }
    let place = exports.begin(caller.user_id())?;
    let done = actor(caller.user_id()).did("export.participants", id, None);
    candidates.record_export(&done).await?;
    let pages = ParticipantPages {
        service: CandidateService::clone(&candidates),
        id,
        shown: Shown::of(&activity),
        after: UserId(0),
        csv: CsvPages::new(COLUMNS),
    };
    Ok(place.answer(file, pages).await?)
}

impl CandidateService {
    /// The activity as it is now, if its participants may still be shown.
    async fn with_participants(&self, id: ActivityId) -> Result<Activity, Problem> {
        let found =
            read_in_turn(&self.shared.deps.mysql_reads, activity::find(self.db(), id)).await;
        let activity = found
            .map_err(ExportError::from)?
            .ok_or(ActivityError::NotFound(id))?;
        if activity.participants_removed_at.is_some() {
            let detail = "the participations of this activity have been removed";
            return Err(Problem::gone("participants_expired", detail));
        }
        Ok(activity)
    }

    /// Whoever takes people's data out is named in the audit before the first row leaves.
    async fn record_export(&self, done: &AuditEntry) -> Result<(), ExportError> {
        let record = audit::record(self.db(), done);
        Ok(read_in_turn(&self.shared.deps.mysql_reads, record).await?)
    }
}

/// What a file says of each participant beside the rows.
struct Shown {
    /// `None` before the opening.
    rules: Option<Rules>,
    /// Only once it is public: before the draw it tells who is going to win.
    seed: Option<Seed>,
    /// With the seed: of those who come late only low scores are trimmed, so it tells of scores.
    shows_trimmed: bool,
}

impl Shown {
    fn of(activity: &Activity) -> Self {
        let is_proved = activity.proof_published_at.is_some();
        Self {
            rules: Rules::of(activity),
            seed: activity.seed.filter(|_| is_proved),
            shows_trimmed: is_proved,
        }
    }

    fn cells(&self, user_id: UserId, rows: &UserRows) -> Option<Vec<Cell>> {
        let participation = rows.participation.as_ref()?;
        let (status, reason) = participation.verdict.as_words();
        let has_joined = participation.verdict == Verdict::Joined;
        let eligibility = self
            .rules
            .as_ref()
            .and_then(|rules| rules.eligibility(rows));
        let score = self.seed.filter(|_| has_joined);
        let score = score.map(|seed| Standing::of(&seed, user_id).score.value());
        let tasks_done: Vec<&str> = rows.completed_tasks.iter().map(String::as_str).collect();
        Some(vec![
            Cell::id(user_id),
            Cell::plain(status),
            Cell::plain_or_empty(reason),
            Cell::time(participation.accepted_at),
            Cell::plain_or_empty(eligibility),
            Cell::text(&tasks_done.join(" ")),
            Cell::plain_or_empty(self.shows_trimmed.then_some(participation.is_trimmed)),
            Cell::plain_or_empty(score),
        ])
    }
}

/// The participations of one activity by user id.
struct ParticipantPages {
    service: CandidateService,
    id: ActivityId,
    shown: Shown,
    after: UserId,
    csv: CsvPages,
}

impl Pages for ParticipantPages {
    async fn next(&mut self) -> Result<Option<Bytes>, ExportError> {
        let (service, id, after) = (&self.service, self.id, self.after);
        let turns = &service.shared.deps.mysql_reads;
        let read = || store::list_page(service.db(), id, PageOf::All, after, PAGE);
        let page = read_patiently(turns, read).await?;
        match page.last() {
            Some((last, _)) => self.after = *last,
            None => self.check_unchanged().await?,
        }
        let shown = &self.shown;
        let rows = page.iter();
        let rows = rows.filter_map(|(user_id, rows)| shown.cells(*user_id, rows));
        Ok(self.csv.page(rows)?)
    }
}

impl ParticipantPages {
    /// A removal says so before its first row goes: what was read before that is whole.
    async fn check_unchanged(&self) -> Result<(), ExportError> {
        let service = &self.service;
        let read = || activity::find(service.db(), self.id);
        let now = read_patiently(&service.shared.deps.mysql_reads, read).await?;
        match now {
            Some(now) if now.participants_removed_at.is_none() => Ok(()),
            Some(_) | None => Err(ExportError::Changed("the participations were removed")),
        }
    }
}
