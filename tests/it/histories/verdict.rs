//! What the service made of a wave, held against what the model says of it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
};

use luckybag::{
    candidate::partition_of,
    infra::mysql::sql,
    kernel::{Timestamp, UserId},
};
use sea_orm::FromQueryResult;
use serde_json::Value;

use super::{
    model::{self, Deed, Fate, Game, Join, Millis, Step},
    plan::{BagPlan, Denial, PARTITIONS, TASKS, UserPlan, When},
    stream::Streams,
    wave::{Stage, Wave, ids_of},
};
use crate::harness::{Bag, eventually};

/// Whether a participant can win, told by SQL from the rows alone.
const TRUTH: &str = "\
    SELECT p.activity_id, p.user_id, p.status, p.reason, p.is_trimmed, p.accepted_at, \
      CASE WHEN p.status <> 'joined' THEN NULL \
        WHEN t.is_absent AND a.presence_rule = 'forfeit' THEN 'forfeited' \
        WHEN t.is_absent AND t.is_unfinished THEN 'absentAndTasksUnfinished' \
        WHEN t.is_absent THEN 'absent' \
        WHEN t.is_unfinished THEN 'tasksUnfinished' \
        ELSE 'eligible' END AS eligibility \
    FROM participation p \
    JOIN activity a ON a.id = p.activity_id \
    JOIN (SELECT q.activity_id, q.user_id, \
        CASE b.presence_rule \
          WHEN 'ignore' THEN FALSE \
          WHEN 'forfeit' THEN COALESCE(r.last_leave_at >= q.accepted_at, FALSE) \
          ELSE COALESCE(r.last_leave_at >= \
            GREATEST(q.accepted_at, COALESCE(r.last_enter_at, q.accepted_at)), FALSE) \
        END AS is_absent, \
        (SELECT COUNT(*) FROM task_completion c WHERE c.activity_id = q.activity_id \
          AND c.user_id = q.user_id) < JSON_LENGTH(b.tasks) AS is_unfinished \
      FROM participation q \
      JOIN activity b ON b.id = q.activity_id \
      LEFT JOIN presence r ON r.activity_id = q.activity_id AND r.user_id = q.user_id \
    ) t ON t.activity_id = p.activity_id AND t.user_id = p.user_id \
    WHERE p.activity_id IN (IDS)";

#[derive(Clone, Debug, FromQueryResult)]
struct TruthRow {
    activity_id: u64,
    user_id: u64,
    status: String,
    reason: Option<String>,
    is_trimmed: bool,
    accepted_at: Timestamp,
    eligibility: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, FromQueryResult)]
struct Figures {
    id: u64,
    joined_count: u64,
    rejected_count: u64,
    eligible_count: u64,
}

#[derive(FromQueryResult)]
struct EarlierWin {
    user_id: u64,
    drawn_at: Timestamp,
}

/// What a user's end is called on both sides.
type End = (String, Option<String>, Option<String>);

/// One activity as one of the two sees it.
#[derive(Debug, PartialEq)]
struct View {
    ends: BTreeMap<u64, End>,
    winners: Vec<u64>,
    joined: u64,
    rejected: u64,
    eligible: u64,
}

/// What was seen in a wave, for a test to show that it saw everything.
pub(super) type Seen = BTreeMap<String, u64>;

impl Stage<'_> {
    /// The wins that count now, relative to a drawAt.
    pub(super) async fn earlier_wins(&self, draw_at: Timestamp) -> Vec<(u64, Millis)> {
        let text = "SELECT user_id, drawn_at FROM win_record WHERE status = 'won'";
        let wins = EarlierWin::find_by_statement(sql(text, []))
            .all(&self.world.db)
            .await
            .expect("the wins are read");
        let relative = |win: EarlierWin| (win.user_id, since(draw_at, win.drawn_at));
        wins.into_iter().map(relative).collect()
    }

    /// Compares each activity with the model; panics with the histories of those that differ.
    pub(super) async fn compare(&self, wave: &Wave) -> Seen {
        let mut rows: BTreeMap<u64, Vec<TruthRow>> = BTreeMap::new();
        for row in self.truth(&wave.bags).await {
            rows.entry(row.activity_id).or_default().push(row);
        }
        let figures = self.figures(&wave.bags).await;
        let mut seen = Seen::new();
        let mut differences = Vec::new();
        for (place, bag) in wave.bags.iter().enumerate() {
            let rows = rows.remove(&bag.id.0).unwrap_or_default();
            let service = self.service_view(bag, &rows, figures[&bag.id.0]).await;
            let case = Case::new(self, wave, place, &rows);
            let secret = self.world.seed(bag.id).await.bytes();
            let views = case.orders().map(|steps| case.view(secret, &steps));
            if !case.is_contested() {
                assert_eq!(views[0], views[1], "partitions have no order");
            }
            if views.contains(&service) {
                case.note(&service, &rows, &mut seen);
            } else {
                differences.push(case.describe(&service, &views[0]));
            }
        }
        let count = differences.len();
        differences.truncate(2);
        assert!(
            differences.is_empty(),
            "{count} activities differ, such as\n{}",
            differences.join("\n")
        );
        seen
    }

    async fn truth(&self, bags: &[Bag]) -> Vec<TruthRow> {
        TruthRow::find_by_statement(sql(TRUTH.replace("IDS", &ids_of(bags)), []))
            .all(&self.world.db)
            .await
            .expect("the rows are read")
    }

    async fn figures(&self, bags: &[Bag]) -> BTreeMap<u64, Figures> {
        let text = format!(
            "SELECT id, joined_count, rejected_count, eligible_count FROM activity \
             WHERE id IN ({})",
            ids_of(bags)
        );
        let figures = Figures::find_by_statement(sql(text, []))
            .all(&self.world.db)
            .await
            .expect("the figures are read");
        figures.into_iter().map(|row| (row.id, row)).collect()
    }

    async fn service_view(&self, bag: &Bag, rows: &[TruthRow], figures: Figures) -> View {
        let wins = self.world.wins(bag.id).await;
        for (seat, win) in (1..).zip(&wins) {
            assert_eq!((win.seat, win.round), (seat, 1), "{win:?}");
        }
        let end = |row: &TruthRow| {
            (
                row.status.clone(),
                row.reason.clone(),
                row.eligibility.clone(),
            )
        };
        View {
            ends: rows.iter().map(|row| (row.user_id, end(row))).collect(),
            winners: wins.iter().map(|win| win.user_id).collect(),
            joined: figures.joined_count,
            rejected: figures.rejected_count,
            eligible: figures.eligible_count,
        }
    }

    /// What some users are told is what the rows say, and the pool agrees with them.
    pub(super) async fn ask_around(&self, wave: &Wave) {
        for (bag, plan) in wave.bags.iter().zip(&wave.plans).step_by(15) {
            eventually("the pool", async || self.world.check_pool(bag).await).await;
            let rows = self.truth(std::slice::from_ref(bag)).await;
            for user in plan.users.iter().map(|user| user.user) {
                let row = rows.iter().find(|row| row.user_id == user);
                eventually("what a user is told", async || {
                    is_told(&self.api.me(bag, user).await, row)
                })
                .await;
            }
        }
    }
}

fn is_told(me: &Value, row: Option<&TruthRow>) -> Result<(), String> {
    let told = ["participation", "reason", "eligibility"].map(|field| me[field].as_str());
    let expected = row.map_or([Some("none"), None, None], |row| {
        [
            Some(row.status.as_str()),
            row.reason.as_deref(),
            row.eligibility.as_deref(),
        ]
    });
    if told == expected {
        Ok(())
    } else {
        Err(format!("{me} instead of {expected:?}"))
    }
}

fn since(draw_at: Timestamp, at: Timestamp) -> Millis {
    (at - draw_at).num_milliseconds()
}

/// One activity of a wave, as the model takes it.
struct Case<'a> {
    wave: &'a Wave,
    place: usize,
    plan: &'a BagPlan,
    game: Game,
    /// Times of the joins through the API, which only the service knows.
    accepted_at: BTreeMap<u64, Millis>,
}

impl<'a> Case<'a> {
    fn new(stage: &Stage<'_>, wave: &'a Wave, place: usize, rows: &[TruthRow]) -> Self {
        let plan = &wave.plans[place];
        let http = plan.users.iter().filter(|user| user.http.is_some());
        let accepted_at = http.map(|user| {
            let row = rows.iter().find(|row| row.user_id == user.user);
            let row = row.unwrap_or_else(|| panic!("the accepted join of {} is lost", user.user));
            let is_in_time = (wave.began_at..wave.draw_at).contains(&row.accepted_at);
            assert!(is_in_time, "{row:?}");
            (user.user, since(wave.draw_at, row.accepted_at))
        });
        Self {
            wave,
            place,
            plan,
            game: Game {
                draw_at: 0,
                leaving: plan.leaving,
                tasks: TASKS[..plan.task_count]
                    .iter()
                    .map(|task| (*task).to_owned())
                    .collect(),
                one_entry_per_device: plan.one_entry_per_device,
                cooldown: plan.cooldown_secs * 1_000,
                trusts_the_app: stage.trusts_the_app,
            },
            accepted_at: accepted_at.collect(),
        }
    }

    /// What happened, in both orders of the partitions.
    fn orders(&self) -> [Vec<Step>; 2] {
        let forth: Vec<u16> = (0..PARTITIONS).collect();
        let back = forth.iter().rev().copied().collect();
        [forth, back].map(|partitions| self.steps(&partitions))
    }

    fn steps(&self, partitions: &[u16]) -> Vec<Step> {
        let wave = self.wave;
        let won = |(user, at): &(u64, Millis)| Step::Won(*user, *at);
        let mut steps: Vec<Step> = wave.earlier_wins.iter().map(won).collect();
        steps.extend(self.through_http(When::BeforeAll));
        for (place, plan) in wave.plans.iter().enumerate() {
            for user in &plan.users {
                let is_here = place == self.place;
                steps.extend(user.denial.and_then(|denial| match denial {
                    Denial::Here if is_here => Some(Step::Denied(user.user)),
                    Denial::Everywhere => Some(Step::Denied(user.user)),
                    Denial::Here | Denial::Elsewhere => None,
                }));
                let wins = user.win.filter(|win| !win.is_revoked);
                steps.extend(wins.map(|win| Step::Won(user.user, win.at)));
            }
        }
        steps.extend(self.through_http(When::Meanwhile));
        let told = |streams: &'a Streams| {
            let messages = partitions.iter().flat_map(|partition| &streams[partition]);
            let items = messages.flatten().filter(|item| item.bag == self.place);
            items.map(|item| Step::Did(item.user, item.deed.clone()))
        };
        steps.extend(told(&wave.streams));
        steps.push(Step::Frozen);
        steps.extend(told(&wave.afterwards));
        steps
    }

    fn through_http(&self, when: When) -> Vec<Step> {
        let mut steps = Vec::new();
        for user in &self.plan.users {
            let Some(http) = user.http.as_ref().filter(|http| http.when == when) else {
                continue;
            };
            for (device, finished) in &http.bodies {
                let join = Join {
                    accepted_at: self.accepted_at[&user.user],
                    device: device.clone(),
                    finished: finished.clone(),
                    flaw: None,
                };
                steps.push(Step::Did(user.user, Deed::Join(join)));
            }
        }
        steps
    }

    fn view(&self, seed: [u8; 32], steps: &[Step]) -> View {
        let fates = model::fates(&self.game, steps);
        let count = |is_one: fn(&Fate) -> bool| {
            u64::try_from(fates.values().filter(|fate| is_one(fate)).count()).expect("a count")
        };
        let is_eligible = |fate: &Fate| fate.eligibility == Some("eligible");
        let eligible = fates.iter().filter(|(_, fate)| is_eligible(fate));
        let seats = usize::try_from(self.plan.winners).expect("few");
        let winners = model::winners(seed, seats, eligible.map(|(user, _)| *user));
        let end = |fate: &Fate| {
            let text = |word: Option<&str>| word.map(str::to_owned);
            (
                fate.status.to_owned(),
                text(fate.reason),
                text(fate.eligibility),
            )
        };
        View {
            winners,
            joined: count(|fate| fate.status == "joined"),
            rejected: count(|fate| fate.status == "rejected"),
            eligible: count(is_eligible),
            ends: fates
                .iter()
                .map(|(user, fate)| (*user, end(fate)))
                .collect(),
        }
    }

    fn is_contested(&self) -> bool {
        self.plan.users.iter().any(UserPlan::contests_a_device)
    }

    /// Counts what this activity held.
    fn note(&self, service: &View, rows: &[TruthRow], seen: &mut Seen) {
        let mut saw = |what: String| *seen.entry(what).or_default() += 1;
        let rule = self.plan.leaving.word();
        for (status, reason, eligibility) in service.ends.values() {
            let word = eligibility.as_ref().or(reason.as_ref());
            saw(format!(
                "{rule}: {status} {}",
                word.map_or("", String::as_str)
            ));
        }
        for user in &self.plan.users {
            saw(super::HISTORY.to_owned());
            if user.http.is_some() {
                saw("joins through the API".to_owned());
            }
            for kind in super::features::kinds_of(&self.of_user(user.user)) {
                saw(kind.to_owned());
            }
            let is_joined = |row: &TruthRow| row.user_id == user.user && row.status == "joined";
            let is_early = user
                .http
                .as_ref()
                .is_some_and(|http| http.when == When::BeforeAll);
            let is_denied = matches!(user.denial, Some(Denial::Everywhere | Denial::Here));
            if is_early && is_denied && rows.iter().any(is_joined) {
                saw("denied after the join".to_owned());
            }
        }
        for row in rows.iter().filter(|row| row.is_trimmed) {
            let is_winner = service.winners.contains(&row.user_id);
            saw(if is_winner {
                "a trimmed winner"
            } else {
                "trimmed"
            }
            .to_owned());
        }
        if self.is_contested() {
            saw("a device that two partitions contest".to_owned());
        }
    }

    /// A user's deeds before the draw, in the order of its partition.
    fn of_user(&self, user: u64) -> Vec<&'a Deed> {
        let messages = &self.wave.streams[&partition_of(UserId(user), PARTITIONS)];
        let is_own = |item: &&super::stream::Item| item.bag == self.place && item.user == user;
        let own = messages.iter().flatten().filter(is_own);
        own.map(|item| &item.deed).collect()
    }

    /// Everything about an activity whose end is not what the model says.
    fn describe(&self, service: &View, model: &View) -> String {
        let mut text = String::new();
        let bag = &self.wave.bags[self.place];
        let mut line = |args: std::fmt::Arguments<'_>| {
            writeln!(text, "{args}").expect("a text grows");
        };
        line(format_args!(
            "activity {} in room {}: {:?}",
            bag.id, bag.room, self.game
        ));
        line(format_args!(
            "  times are relative to drawAt {}",
            self.wave.draw_at
        ));
        let users: BTreeSet<u64> = service
            .ends
            .keys()
            .chain(model.ends.keys())
            .copied()
            .collect();
        let all_steps = &self.orders()[0];
        for user in users {
            let (ours, theirs) = (service.ends.get(&user), model.ends.get(&user));
            let mark = if ours == theirs { " " } else { "!" };
            line(format_args!(
                "{mark} user {user}: service {ours:?}, model {theirs:?}"
            ));
            for step in all_steps {
                match step {
                    Step::Did(who, deed) if *who == user => line(format_args!("      {deed:?}")),
                    Step::Denied(who) | Step::Won(who, _) if *who == user => {
                        line(format_args!("      {step:?}"));
                    }
                    Step::Frozen => line(format_args!("      drawn")),
                    Step::Did(..) | Step::Denied(_) | Step::Won(..) => (),
                }
            }
        }
        line(format_args!("  service: {}", summary(service)));
        line(format_args!("  model:   {}", summary(model)));
        text
    }
}

fn summary(view: &View) -> String {
    let View {
        winners,
        joined,
        rejected,
        eligible,
        ..
    } = view;
    format!("{joined} joined, {rejected} rejected, {eligible} eligible; winners {winners:?}")
}
