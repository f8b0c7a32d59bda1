//! Proofs for whoever asks: made once for each round, then from this process's memory.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use actix_web::web::Bytes;
use moka::{future::Cache, policy::EvictionPolicy};
use sea_orm::{DatabaseConnection, DbErr};
use tokio::sync::{Mutex, MutexGuard, Semaphore};

use super::{
    ProofError,
    document::{
        ENTRY_FORMAT, Entry, EntryProof, Hex32, Id, PROOF_FORMAT, Proof, Redraw, Score, Winner,
    },
};
use crate::{
    activity::{ActivityDetail, SCORE_RULE_VERSION, Status, rules_hash},
    candidate::{
        Standing,
        entries::{Entries, EntryReader, OpenEntry, Tree},
    },
    kernel::{ActivityId, UserId},
    winners::{WinRecord, WinnerError, WinnerList, WinnerService},
};

/// What [`ProofService`] stands on.
pub struct ProofDeps {
    pub db: DatabaseConnection,
    pub winners: WinnerService,
    /// How many readers may be in `MySQL` at once, shared with other readers.
    pub mysql_reads: Arc<Semaphore>,
}

/// Shows proofs. Cheap to clone.
#[derive(Clone)]
pub struct ProofService {
    winners: WinnerService,
    entries: EntryReader,
    documents: Cache<ActivityId, Document>,
    flights: Cache<ActivityId, Arc<Mutex<()>>>,
}

/// A proof as it is sent, as of a round.
#[derive(Clone)]
struct Document {
    round: u32,
    json: Bytes,
}

/// Everything that a document is made of.
struct Published {
    detail: Arc<ActivityDetail>,
    list: Arc<WinnerList>,
    tree: Arc<Tree>,
}

impl ProofService {
    /// All documents together; one of 10,000 winners among a million has about 15 MB.
    const BYTES_KEPT: u64 = 64 << 20;
    /// How long what was removed may still be shown.
    const MEMORY: Duration = Duration::from_mins(10);
    const FLIGHTS_KEPT: u64 = 1_000;
    const FLIGHT_IDLE: Duration = Duration::from_mins(1);
    /// How long to wait for somebody else who is making the same document.
    const PATIENCE: Duration = Duration::from_secs(10);

    pub fn new(deps: ProofDeps) -> Self {
        let weight = |_: &ActivityId, document: &Document| {
            u32::try_from(document.json.len()).unwrap_or(u32::MAX)
        };
        Self {
            winners: deps.winners,
            entries: EntryReader::new(deps.db, deps.mysql_reads),
            documents: Cache::builder()
                .max_capacity(Self::BYTES_KEPT)
                .weigher(weight)
                // Whatever was asked for last is kept, so that one crowd reads it once.
                .eviction_policy(EvictionPolicy::lru())
                .time_to_live(Self::MEMORY)
                .build(),
            flights: Cache::builder()
                .max_capacity(Self::FLIGHTS_KEPT)
                .time_to_idle(Self::FLIGHT_IDLE)
                .build(),
        }
    }

    /// The proof of an activity's result, as JSON.
    pub async fn proof(&self, id: ActivityId) -> Result<Bytes, ProofError> {
        let (detail, list) = self.drawn(id).await?;
        if let Some(json) = self.known(id, list.round()).await {
            return Ok(json);
        }
        let flight = self.flight(id).await;
        let _turn = self.turn(id, &flight).await?;
        if let Some(json) = self.known(id, list.round()).await {
            return Ok(json);
        }
        let tree = self.tree(id).await?;
        let round = list.round();
        let published = Published { detail, list, tree };
        let json = self.write(&published).await?;
        let document = Document {
            round,
            json: json.clone(),
        };
        self.documents.insert(id, document).await;
        Ok(json)
    }

    /// The entry of a user, with its way to the root.
    pub(super) async fn entry(
        &self,
        id: ActivityId,
        user_id: UserId,
    ) -> Result<EntryProof, ProofError> {
        let (_, list) = self.drawn(id).await?;
        let tree = self.tree(id).await?;
        let found = self.entries.entry_of(&tree, user_id).await;
        let entry = found.map_err(db_error(id))?;
        let entry = entry.ok_or(ProofError::NoEntry(id))?;
        let rank = list.of_user(user_id).map(|win| win.seat);
        Ok(entry_proof(id, &tree, user_id, entry, rank))
    }

    /// A drawn activity whose proof is published, and its winners.
    async fn drawn(
        &self,
        id: ActivityId,
    ) -> Result<(Arc<ActivityDetail>, Arc<WinnerList>), ProofError> {
        let (detail, list) = match self.winners.list(id).await {
            Err(WinnerError::Expired(id)) => return Err(ProofError::Expired(id)),
            listed => listed?,
        };
        match detail.status {
            // Also for what is still in memory, or not removed yet.
            Status::Drawn if detail.participants_removed_at.is_some() => {
                Err(ProofError::Expired(id))
            }
            Status::Drawn if detail.proof_published_at.is_some() => Ok((detail, list)),
            Status::Cancelled => Err(ProofError::Cancelled(id)),
            Status::Draft
            | Status::InReview
            | Status::Rejected
            | Status::Ready
            | Status::Open
            | Status::Drawing
            | Status::Drawn => Err(ProofError::Pending(id)),
        }
    }

    async fn tree(&self, id: ActivityId) -> Result<Arc<Tree>, ProofError> {
        match self.entries.entries(id).await.map_err(db_error(id))? {
            Entries::Published(tree) => Ok(tree),
            Entries::Pending => Err(ProofError::Pending(id)),
            Entries::Expired => Err(ProofError::Expired(id)),
        }
    }

    /// The document of this round or of a later one.
    async fn known(&self, id: ActivityId, round: u32) -> Option<Bytes> {
        let document = self.documents.get(&id).await?;
        (document.round >= round).then_some(document.json)
    }

    async fn flight(&self, id: ActivityId) -> Arc<Mutex<()>> {
        self.flights.get_with(id, async { Arc::default() }).await
    }

    async fn turn<'a>(
        &self,
        id: ActivityId,
        flight: &'a Mutex<()>,
    ) -> Result<MutexGuard<'a, ()>, ProofError> {
        tokio::time::timeout(Self::PATIENCE, flight.lock())
            .await
            .map_err(|_| ProofError::Crowded(id))
    }

    async fn write(&self, published: &Published) -> Result<Bytes, ProofError> {
        let id = published.detail.id;
        let wins = published.list.all();
        let users = wins.iter().map(|win| win.user_id).collect();
        let opened = self.entries.entries_of_winners(&published.tree, &users);
        let mut openings = opened.await.map_err(db_error(id))?;
        let open = |win: &WinRecord| {
            let user_id = win.user_id;
            let entry = openings.remove(&user_id);
            let entry = entry.ok_or(ProofError::WinnerWithoutEntry { id, user_id })?;
            Ok(winner(win, entry))
        };
        let winners = wins.iter().map(open).collect::<Result<_, ProofError>>()?;
        let proof = published.document(winners)?;
        let json = serde_json::to_vec(&proof);
        json.map(Bytes::from)
            .map_err(|source| ProofError::Json { id, source })
    }
}

impl Published {
    fn document(&self, winners: Vec<Winner>) -> Result<Proof, ProofError> {
        let (id, tree) = (self.detail.id, &self.tree);
        let seed = tree.seed();
        let unopened = || ProofError::Unopened(id);
        let rules = self.detail.rules.clone().ok_or_else(unopened)?;
        let mut commitment = [0; 32];
        let text = self.detail.commitment.as_deref().ok_or_else(unopened)?;
        hex::decode_to_slice(text, &mut commitment).map_err(|_| unopened())?;
        let round = self.list.round();
        let first_round = winners.iter().filter(|winner| winner.round == 1);
        let last = first_round.max_by_key(|winner| winner.seat);
        Ok(Proof {
            format: PROOF_FORMAT.to_owned(),
            activity_id: Id(id.0),
            commitment: Hex32(commitment),
            seed: Hex32(seed.bytes()),
            rules_hash: Hex32(rules_hash(&rules)),
            rules,
            score_rule_version: SCORE_RULE_VERSION,
            entries_count: tree.published.entries_count,
            entries_tree: Hex32(tree.hash),
            entries_root: Hex32(tree.published.entries_root),
            round,
            cutoff_score: last.map(|winner| winner.score),
            redraws: redraws(round, &winners),
            winners,
        })
    }
}

fn winner(win: &WinRecord, entry: OpenEntry) -> Winner {
    Winner {
        seat: win.seat,
        round: win.round,
        user_id: Id(win.user_id.0),
        score: Score(win.score),
        prize_rank: win.prize_rank,
        prize_id: Id(win.prize_id.0),
        revoked_in_round: win.revoked_round,
        entry: entry.into(),
    }
}

/// Rounds 2 to `last`.
fn redraws(last: u32, winners: &[Winner]) -> Vec<Redraw> {
    let mut revoked: BTreeMap<u32, Vec<u32>> =
        (2..=last).map(|round| (round, Vec::new())).collect();
    for winner in winners {
        let round = winner.revoked_in_round;
        if let Some(seats) = round.and_then(|round| revoked.get_mut(&round)) {
            seats.push(winner.seat);
        }
    }
    let redraw = |(round, mut seats): (u32, Vec<u32>)| {
        seats.sort_unstable();
        Redraw { round, seats }
    };
    revoked.into_iter().map(redraw).collect()
}

fn entry_proof(
    id: ActivityId,
    tree: &Tree,
    user_id: UserId,
    entry: OpenEntry,
    rank: Option<u32>,
) -> EntryProof {
    let (status, reason, eligibility) = entry.state.as_words();
    EntryProof {
        format: ENTRY_FORMAT.to_owned(),
        activity_id: Id(id.0),
        entries_root: Hex32(tree.published.entries_root),
        entries_count: tree.published.entries_count,
        entry: Entry {
            user_id: Id(user_id.0),
            index: entry.index,
            salt: Hex32(entry.salt.0),
            status: status.to_owned(),
            reason: reason.map(str::to_owned),
            eligibility: eligibility.map(str::to_owned),
            path: entry.path.into_iter().map(Hex32).collect(),
        },
        score: Score(Standing::of(&tree.seed(), user_id).score.value()),
        rank,
    }
}

fn db_error(id: ActivityId) -> impl Fn(DbErr) -> ProofError {
    move |source| ProofError::Database { id, source }
}
