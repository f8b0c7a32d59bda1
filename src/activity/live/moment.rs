//! An activity at one moment, and what of it a listener has not been told yet. Pure.

use std::{fmt::Write as _, sync::Arc, time::Duration};

use serde::Serialize;

use super::{
    super::{ActivityDetail, Status},
    told::Told,
};
use crate::kernel::{Timestamp, to_millis};

/// All that streams tell of an activity, as it was at one moment. Its events are written once, for
/// all who listen.
#[derive(Clone, Debug)]
pub(super) struct Moment {
    pub(super) detail: Arc<ActivityDetail>,
    /// How many take part; `None` while that could not be learned.
    count: Option<u64>,
    /// Nothing more will be told.
    pub(super) is_over: bool,
    status: String,
    /// Without the end of the object, where each listener's own advice stands.
    drawn: Option<String>,
}

/// What a look has found; `None` where it found out nothing.
pub(super) struct Look {
    pub(super) detail: Option<Arc<ActivityDetail>>,
    pub(super) count: Option<u64>,
    /// The database's time.
    pub(super) now: Option<Timestamp>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct StatusData<'a> {
    status: Status,
    #[serde(skip_serializing_if = "Option::is_none")]
    status_reason: Option<&'a str>,
    #[serde(with = "to_millis::option")]
    start_at: Option<Timestamp>,
    #[serde(with = "to_millis::option")]
    draw_at: Option<Timestamp>,
    #[serde(with = "to_millis::option")]
    drawn_at: Option<Timestamp>,
    round: u32,
    #[serde(with = "to_millis::option", skip_serializing_if = "Option::is_none")]
    proof_published_at: Option<Timestamp>,
    version: u32,
    #[serde(with = "to_millis::option")]
    server_time: Option<Timestamp>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct DrawnData {
    round: u32,
    #[serde(with = "to_millis::option")]
    drawn_at: Option<Timestamp>,
    winner_count: u32,
}

impl Moment {
    /// What a first look has found.
    pub(super) fn first(
        detail: Arc<ActivityDetail>,
        now: Option<Timestamp>,
        linger: Duration,
    ) -> Self {
        let is_over = is_over(&detail, now, linger);
        let count = detail.joined_count;
        Self {
            is_over,
            ..Self::new(detail, count, now)
        }
    }

    /// The same moment for somebody who has just come: only the time is another.
    pub(super) fn at(&self, now: Option<Timestamp>) -> Self {
        Self {
            is_over: self.is_over,
            ..Self::new(Arc::clone(&self.detail), self.count, now)
        }
    }

    /// The moment after this one, if `look` has found anything new.
    pub(super) fn after(&self, look: &Look, linger: Duration) -> Option<Self> {
        // Memory, Redis and MySQL may answer in turn, and not all of them know the newest.
        let newer = look.detail.as_ref();
        let newer = newer.filter(|detail| detail.version > self.detail.version);
        let detail = newer.unwrap_or(&self.detail);
        let count = look.count.or(self.count);
        let is_over = self.is_over || is_over(detail, look.now, linger);
        let is_new = newer.is_some() || count != self.count || is_over != self.is_over;
        is_new.then(|| Self {
            is_over,
            ..Self::new(Arc::clone(detail), count, look.now)
        })
    }

    fn new(detail: Arc<ActivityDetail>, count: Option<u64>, now: Option<Timestamp>) -> Self {
        Self {
            status: json(&StatusData {
                status: detail.status,
                // Of what was never opened only who may see it is told why it is over.
                status_reason: detail
                    .status_reason
                    .as_deref()
                    .filter(|_| detail.is_public()),
                start_at: detail.start_at,
                draw_at: detail.draw_at,
                drawn_at: detail.drawn_at,
                round: detail.round,
                proof_published_at: detail.proof_published_at,
                version: detail.version,
                server_time: now,
            }),
            drawn: (detail.status == Status::Drawn).then(|| drawn(&detail)),
            detail,
            count,
            is_over: false,
        }
    }

    /// The events that a listener has not been told, each with an id; `told` knows of them then.
    /// `next_poll_ms` is when this listener should ask for its result.
    pub(super) fn tell(&self, told: &mut Told, next_poll_ms: u64) -> String {
        let mut text = String::new();
        if self.detail.version > told.version {
            told.version = self.detail.version;
            add_event(&mut text, "status", told, format_args!("{}", self.status));
        }
        if let Some(drawn) = &self.drawn
            && self.detail.round > told.round
        {
            told.round = self.detail.round;
            let data = format_args!("{drawn},\"nextPollMs\":{next_poll_ms}}}");
            add_event(&mut text, "drawn", told, data);
        }
        // It never falls before it is final: a lower one is of a process that lags behind.
        let is_final = self.count == self.detail.joined_count;
        if let Some(count) = self.count
            && (told.count < Some(count) || (is_final && told.count != Some(count)))
        {
            told.count = Some(count);
            let data = format_args!("{{\"count\":{count}}}");
            add_event(&mut text, "participants", told, data);
        }
        text
    }
}

fn drawn(detail: &ActivityDetail) -> String {
    let mut object = json(&DrawnData {
        round: detail.round,
        drawn_at: detail.drawn_at,
        winner_count: detail.winner_count,
    });
    object.pop();
    object
}

fn json(data: &impl Serialize) -> String {
    // Only maps and types of the program's own can fail, and neither comes here.
    serde_json::to_string(data).unwrap_or_default()
}

/// Adds an event; `data` is one line, as JSON without spaces always is.
fn add_event(text: &mut String, name: &str, id: &Told, data: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    write!(text, "event: {name}\nid: {id}\ndata: {data}\n\n").unwrap_or_default();
}

/// Whether nothing more is told: a drawn activity may be drawn again, but hardly ever later than
/// `linger`.
fn is_over(detail: &ActivityDetail, now: Option<Timestamp>, linger: Duration) -> bool {
    match detail.status {
        Status::Cancelled | Status::Rejected => true,
        Status::Drawn => {
            let since = detail
                .drawn_at
                .zip(now)
                .map(|(drawn_at, now)| now - drawn_at);
            since.is_some_and(|since| since.to_std().is_ok_and(|since| since >= linger))
        }
        Status::Draft | Status::InReview | Status::Ready | Status::Open | Status::Drawing => false,
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::{super::super::tests::an_activity, *};
    use crate::kernel::ActivityId;

    const LINGER: Duration = Duration::from_mins(1);

    fn at(secs: i64) -> Timestamp {
        Timestamp::from_timestamp_millis(secs * 1_000).unwrap()
    }

    /// An activity in this state at this version; drawn at second 100.
    fn detail(status: Status, version: u32, round: u32) -> Arc<ActivityDetail> {
        let mut detail = ActivityDetail::from(an_activity());
        detail.id = ActivityId(77);
        detail.status = status;
        detail.version = version;
        detail.round = round;
        detail.drawn_at = (round > 0).then(|| at(100));
        Arc::new(detail)
    }

    /// An open activity of version 5 with so many participants.
    pub(in super::super) fn with_count(count: u64) -> Moment {
        let opened = Moment::first(detail(Status::Open, 5, 0), Some(at(0)), LINGER);
        opened.after(&look(None, Some(count), 0), LINGER).unwrap()
    }

    fn look(detail: Option<Arc<ActivityDetail>>, count: Option<u64>, secs: i64) -> Look {
        Look {
            detail,
            count,
            now: Some(at(secs)),
        }
    }

    fn names(text: &str) -> Vec<&str> {
        text.lines()
            .filter_map(|line| line.strip_prefix("event: "))
            .collect()
    }

    #[test]
    fn a_listener_is_told_only_what_it_does_not_know() {
        let mut told = Told::nothing(ActivityId(77));
        let open = with_count(3);
        assert_eq!(names(&open.tell(&mut told, 9)), ["status", "participants"]);
        assert_eq!(open.tell(&mut told, 9), "");

        let drawn = detail(Status::Drawn, 7, 1);
        let drawn = open
            .after(&look(Some(drawn), Some(4), 101), LINGER)
            .unwrap();
        let text = drawn.tell(&mut told, 1_234);

        assert_eq!(names(&text), ["status", "drawn", "participants"]);
        assert!(text.contains("id: 77.7.0.3\n"), "{text}");
        assert!(text.contains("id: 77.7.1.3\n"), "{text}");
        assert!(
            text.ends_with("id: 77.7.1.4\ndata: {\"count\":4}\n\n"),
            "{text}"
        );
        let data = text
            .lines()
            .find(|line| line.contains("nextPollMs"))
            .unwrap();
        let data: serde_json::Value = serde_json::from_str(&data["data: ".len()..]).unwrap();
        assert_eq!(data["nextPollMs"], 1_234);
        assert_eq!(data["round"], 1);
        assert_eq!(drawn.tell(&mut told, 9), "");
    }

    #[test]
    fn nothing_goes_back_to_what_was_before_and_nothing_is_unlearned() {
        let moment = with_count(3);

        let older = detail(Status::Ready, 4, 0);
        assert!(moment.after(&look(Some(older), None, 1), LINGER).is_none());
        assert!(moment.after(&look(None, None, 1), LINGER).is_none());
        assert!(moment.after(&look(None, Some(3), 1), LINGER).is_none());

        let mut told = Told::nothing(ActivityId(77));
        moment.tell(&mut told, 9);
        assert_eq!(with_count(2).tell(&mut told, 9), "");
        assert_eq!(names(&with_count(4).tell(&mut told, 9)), ["participants"]);
    }

    #[test]
    fn why_it_was_cancelled_is_told_only_of_what_viewers_still_see() {
        for was_opened in [true, false] {
            let mut detail = ActivityDetail::clone(&detail(Status::Cancelled, 6, 0));
            detail.status_reason = Some("the host is ill".to_owned());
            detail.commitment = was_opened.then(|| "00".repeat(32));
            let moment = Moment::first(Arc::new(detail), None, LINGER);

            let text = moment.tell(&mut Told::nothing(ActivityId(77)), 9);

            assert!(text.contains("\"status\":\"cancelled\""), "{text}");
            assert_eq!(text.contains("the host is ill"), was_opened, "{text}");
        }
    }

    #[test]
    fn it_is_over_when_cancelled_and_a_while_after_the_draw() {
        let cancelled = Moment::first(detail(Status::Cancelled, 6, 0), None, LINGER);
        assert!(cancelled.is_over);
        let drawn = |secs| Moment::first(detail(Status::Drawn, 7, 1), secs, LINGER);
        // While the database's time is not known, nothing ends.
        for secs in [None, Some(at(99)), Some(at(159))] {
            assert!(!drawn(secs).is_over, "{secs:?}");
        }
        assert!(drawn(Some(at(160))).is_over);

        let lingering = drawn(Some(at(101)));
        assert!(lingering.after(&look(None, None, 159), LINGER).is_none());
        let over = lingering.after(&look(None, None, 160), LINGER).unwrap();
        assert!(over.is_over);
        assert!(over.after(&look(None, None, 200), LINGER).is_none());
    }
}
