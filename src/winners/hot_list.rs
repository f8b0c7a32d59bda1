//! The lists of winners in Redis, of an activity and of each of its prizes: `lb:win:list`.

use std::{collections::HashMap, error::Error, time::Duration};

use fred::{
    error::Error as RedisError,
    interfaces::{HashesInterface, KeysInterface},
};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{WinRecord, WinStatus, WinnerError, WinnerList};
use crate::{
    activity::ActivityPrize,
    infra::redis::{
        LuaScript, Redis,
        aside::{self, Asked, Refill, is_wrong_type},
    },
    kernel::{ActivityId, jittered},
};

/// How long lists and single wins stay.
pub(super) const LIFE: Duration = Duration::from_hours(48);
/// A list with less than this left is built again when it is read, so that it does not lapse.
const RENEWED_BELOW: Duration = Duration::from_hours(1);
/// How long an unfinished list stays.
const BUILDING_SECS: i64 = 60;
/// Fields that are written at once.
const BATCH: usize = 500;
/// The field of a list that says what it holds.
const MARK: &str = "-";

/// What a list says of itself.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Mark {
    round: u32,
    /// Wins that hold, one field each.
    rows: usize,
    /// Wins that were taken back: no winners, but who had them is told so. Always in the list of the
    /// activity, never in that of a prize.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    revoked: Option<Vec<WinRecord>>,
}

/// Why what was read is no list of the activity's winners.
#[derive(Debug, thiserror::Error)]
enum Unusable {
    #[error("it has no mark")]
    NoMark,

    #[error("its mark says {said} rows, it has {rows}")]
    Incomplete { said: usize, rows: usize },

    #[error("its mark does not tell the wins that were taken back")]
    NoRevoked,

    #[error("win record {0} does not belong there")]
    Misplaced(String),

    #[error("a value does not parse")]
    Json(#[from] serde_json::Error),
}

/// Reads and writes the lists; copies, so every failure here is harmless.
pub(super) struct HotList {
    redis: Redis,
    replace: LuaScript,
}

impl HotList {
    pub(super) fn new(redis: Redis) -> Self {
        Self {
            redis,
            replace: LuaScript::new(include_str!("replace_list.lua")),
        }
    }

    /// The list of exactly this round, or what another process puts there in a moment.
    pub(super) async fn ask(&self, id: ActivityId, round: u32) -> Asked<WinnerList> {
        let key = self.redis.keys().win_list(id);
        aside::ask(&self.redis, &key, || self.read(id, round, &key)).await
    }

    /// Keeps what `MySQL` has for who asks next.
    pub(super) async fn fill(
        &self,
        id: ActivityId,
        prizes: &[ActivityPrize],
        list: &WinnerList,
        refill: Refill,
    ) {
        let key = self.redis.keys().win_list(id);
        let write = Box::pin(self.show(id, prizes, list));
        aside::fill(&self.redis, &key, refill, write).await;
    }

    /// Shows the winners of the activity and of each prize, unless a newer round is shown.
    pub(super) async fn show(
        &self,
        id: ActivityId,
        prizes: &[ActivityPrize],
        list: &WinnerList,
    ) -> Result<(), WinnerError> {
        let keys = self.redis.keys();
        let all: Vec<&WinRecord> = list.current().collect();
        let mark = Mark {
            round: list.round(),
            rows: all.len(),
            revoked: Some(list.revoked().cloned().collect()),
        };
        self.show_one(id, &keys.win_list(id), &mark, &all).await?;
        for prize in prizes {
            let of_prize = |win: &&WinRecord| win.prize_id == prize.prize_id;
            let of_prize: Vec<&WinRecord> = list.current().filter(of_prize).collect();
            let mark = Mark {
                round: list.round(),
                rows: of_prize.len(),
                revoked: None,
            };
            let key = keys.win_list_of_prize(id, prize.prize_id);
            self.show_one(id, &key, &mark, &of_prize).await?;
        }
        Ok(())
    }

    /// Builds a list beside the shown one and puts it in its place. Nobody else builds at the same key:
    /// what is put there is this list as a whole.
    async fn show_one(
        &self,
        id: ActivityId,
        key: &str,
        mark: &Mark,
        wins: &[&WinRecord],
    ) -> Result<(), WinnerError> {
        let redis_error = |action| move |source| WinnerError::Redis { action, id, source };
        let building = self.redis.keys().under_construction(key, Uuid::new_v4());

        let marked = vec![(MARK.to_owned(), serde_json::to_string(mark)?)];
        self.build(&building, marked)
            .await
            .map_err(redis_error("build a list"))?;
        for batch in wins.chunks(BATCH) {
            let fields: Result<Vec<_>, _> = batch
                .iter()
                .map(|win| Ok((win.id.to_string(), serde_json::to_string(win)?)))
                .collect::<Result<_, serde_json::Error>>();
            self.build(&building, fields?)
                .await
                .map_err(redis_error("build a list"))?;
        }
        let life_secs = jittered(LIFE).as_secs();
        let answer: String = self
            .replace
            .run(
                &self.redis,
                vec![key.to_owned(), building],
                vec![
                    mark.round.to_string(),
                    wins.len().to_string(),
                    life_secs.to_string(),
                ],
            )
            .await
            .map_err(redis_error("replace a list"))?;
        match answer.as_str() {
            "replaced" | "newer" => Ok(()),
            _ => Err(WinnerError::UnexpectedAnswer { id, answer }),
        }
    }

    /// Adds fields to a list that is being built, which goes by itself if it is never finished.
    async fn build(&self, building: &str, fields: Vec<(String, String)>) -> Result<(), RedisError> {
        let pipeline = self.redis.next().pipeline();
        let _: () = pipeline.hset(building, fields).await?;
        let _: () = pipeline.expire(building, BUILDING_SECS, None).await?;
        pipeline.all().await
    }

    /// The list, or `None` when it is missing, of another round or about to lapse; one that does not
    /// parse, or not as a whole, is dropped.
    async fn read(
        &self,
        id: ActivityId,
        round: u32,
        key: &str,
    ) -> Result<Option<WinnerList>, RedisError> {
        let (fields, ttl_ms) = tokio::join!(
            self.redis.hgetall::<HashMap<String, String>, _>(key),
            self.redis.pttl::<i64, _>(key)
        );
        let fields = match fields {
            Ok(fields) if fields.is_empty() => return Ok(None),
            Ok(fields) => fields,
            Err(error) if is_wrong_type(&error) => {
                log_unusable(id, &error);
                return self.drop_copy(key).await;
            }
            Err(error) => return Err(error),
        };
        match parse(id, round, fields) {
            Ok(list) => {
                let left_ms = u128::try_from(ttl_ms?).unwrap_or(0);
                Ok(list.filter(|_| left_ms >= RENEWED_BELOW.as_millis()))
            }
            Err(error) => {
                log_unusable(id, &error);
                self.drop_copy(key).await
            }
        }
    }

    async fn drop_copy(&self, key: &str) -> Result<Option<WinnerList>, RedisError> {
        self.redis.del::<(), _>(key).await?;
        Ok(None)
    }
}

fn log_unusable(id: ActivityId, error: &(dyn Error + 'static)) {
    tracing::warn!(activity.id = %id, error, "a cached list of winners is unusable, it is dropped");
}

/// The list that the fields make; `None` for another round's.
fn parse(
    id: ActivityId,
    round: u32,
    mut fields: HashMap<String, String>,
) -> Result<Option<WinnerList>, Unusable> {
    let mark = fields.remove(MARK).ok_or(Unusable::NoMark)?;
    let mark: Mark = serde_json::from_str(&mark)?;
    if mark.round != round {
        return Ok(None);
    }
    let (said, rows) = (mark.rows, fields.len());
    if said != rows {
        return Err(Unusable::Incomplete { said, rows });
    }
    // Without them, whose win was taken back would be told that it never won.
    let mut wins = mark.revoked.ok_or(Unusable::NoRevoked)?;
    for (field, json) in fields {
        let win: WinRecord = serde_json::from_str(&json)?;
        if win.id.to_string() != field || win.status != WinStatus::Won {
            return Err(Unusable::Misplaced(field));
        }
        wins.push(win);
    }
    if let Some(stray) = wins.iter().find(|win| win.activity_id != id) {
        return Err(Unusable::Misplaced(stray.id.to_string()));
    }
    wins.sort_unstable_by_key(|win| (win.seat, win.round));
    Ok(Some(WinnerList::new(round, wins)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::{PrizeId, Timestamp, UserId, WinRecordId};

    const ID: ActivityId = ActivityId(7);

    fn win(seat: u32, score: f64) -> WinRecord {
        WinRecord {
            id: WinRecordId(u64::from(seat) + 100),
            activity_id: ID,
            user_id: UserId(u64::from(seat)),
            seat,
            round: 1,
            prize_id: PrizeId(3),
            prize_rank: 1,
            score,
            status: WinStatus::Won,
            drawn_at: Timestamp::UNIX_EPOCH,
            revoked_round: None,
        }
    }

    /// As Redis holds them: the mark and one field for each that holds.
    fn fields(round: u32, wins: &[WinRecord]) -> HashMap<String, String> {
        let (held, revoked): (Vec<_>, Vec<_>) = wins
            .iter()
            .cloned()
            .partition(|win| win.status == WinStatus::Won);
        let mark = Mark {
            round,
            rows: held.len(),
            revoked: Some(revoked),
        };
        let mut fields = HashMap::from([(MARK.to_owned(), serde_json::to_string(&mark).unwrap())]);
        for win in held {
            fields.insert(win.id.to_string(), serde_json::to_string(&win).unwrap());
        }
        fields
    }

    #[test]
    fn a_list_is_read_as_it_was_written_to_the_last_bit_and_with_revoked_wins() {
        let revoked = WinRecord {
            status: WinStatus::Revoked,
            revoked_round: Some(2),
            ..win(2, 0.537_330_646_070_535_2)
        };
        let wins = vec![
            win(1, 0.999_999_999_999_999_9),
            revoked,
            win(3, 0.1 + 0.2),
            win(4, 1.0 / 3.0),
        ];

        let read = parse(ID, 2, fields(2, &wins)).unwrap().unwrap();

        assert_eq!(read, WinnerList::new(2, wins));
        assert!(
            parse(ID, 2, fields(2, &[])).unwrap().is_some(),
            "nobody won"
        );
    }

    #[test]
    fn a_list_of_another_round_is_not_taken() {
        for shown in [1, 3] {
            assert!(
                parse(ID, 2, fields(shown, &[win(1, 0.5)]))
                    .unwrap()
                    .is_none()
            );
        }
    }

    #[test]
    fn a_list_that_is_not_whole_or_not_the_activitys_is_refused() {
        let whole = fields(1, &[win(1, 0.5), win(2, 0.25)]);
        let changed = |change: fn(&mut HashMap<String, String>)| {
            let mut fields = whole.clone();
            change(&mut fields);
            parse(ID, 1, fields)
        };

        assert!(changed(|_| ()).unwrap().is_some());
        let broken: [fn(&mut HashMap<String, String>); 7] = [
            |fields| drop(fields.remove("-")),
            // As an earlier version wrote it.
            |fields| drop(fields.insert("-".to_owned(), r#"{"round":1,"rows":2}"#.to_owned())),
            |fields| drop(fields.remove("101")),
            |fields| drop(fields.insert("101".to_owned(), "{".to_owned())),
            |fields| drop(fields.insert("-".to_owned(), "[]".to_owned())),
            |fields| {
                let other = fields["102"].clone();
                fields.insert("101".to_owned(), other);
            },
            |fields| {
                let revoked = fields["101"].replace("won", "revoked");
                fields.insert("101".to_owned(), revoked);
            },
        ];
        for change in broken {
            assert!(changed(change).is_err());
        }
        assert!(parse(ActivityId(8), 1, whole).is_err());
    }
}
