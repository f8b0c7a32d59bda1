//! When a draft is to open, and when it is to be drawn.

use std::time::Duration;

use serde::Deserialize;

use super::{super::check, Checker, LONGEST_COUNTDOWN_SECS, SHORTEST_COUNTDOWN_SECS, SHORTEST_RUN};
use crate::kernel::{Timestamp, to_millis};

const LONGEST_START_AHEAD: Duration = Duration::from_hours(365 * 24);

#[derive(Clone, Copy, Deserialize)]
#[serde(transparent)]
struct Moment(#[serde(with = "to_millis")] Timestamp);

/// When it opens and when it is drawn.
pub(super) struct Timing {
    pub(super) countdown: Option<Duration>,
    pub(super) start_at: Option<Timestamp>,
    pub(super) draw_at: Option<Timestamp>,
}

impl Checker<'_> {
    pub(super) fn timing(&mut self) -> Timing {
        let (countdown, draw_at) = self.draw_time();
        let start_at = self.start_at();
        if let (Some(start_at), Some(draw_at)) = (start_at, draw_at)
            && start_at + SHORTEST_RUN > draw_at
        {
            let message = "this is at least 5 s before drawAt";
            self.errors.add("startAt", message);
        }
        Timing {
            countdown,
            start_at,
            draw_at,
        }
    }

    /// The countdown, or the drawAt that stands in its place.
    fn draw_time(&mut self) -> (Option<Duration>, Option<Timestamp>) {
        let form = self.form;
        match (
            form.countdown_seconds.has_value(),
            form.draw_at.has_value(),
            self.base,
        ) {
            (true, true, _) => {
                let message = "drawAt stands in place of countdownSeconds, not beside it";
                self.errors.add("drawAt", message);
                (None, None)
            }
            (true, false, _) => (self.countdown(), None),
            (false, true, _) => (None, self.draw_at()),
            (false, false, Some(base)) => (base.countdown, base.draw_at),
            (false, false, None) => {
                let message = "countdownSeconds or drawAt is required";
                self.errors.add("countdownSeconds", message);
                (None, None)
            }
        }
    }

    fn countdown(&mut self) -> Option<Duration> {
        let errors = &mut self.errors;
        let name = "countdownSeconds";
        let bounds = SHORTEST_COUNTDOWN_SECS..=LONGEST_COUNTDOWN_SECS;
        let seconds = self.form.countdown_seconds.read(name, errors);
        check::within(seconds, bounds, name, errors).map(Duration::from_secs)
    }

    fn draw_at(&mut self) -> Option<Timestamp> {
        let Moment(draw_at) = self.form.draw_at.read("drawAt", &mut self.errors)?;
        let now = self.circumstances.now;
        let longest = Duration::from_secs(LONGEST_COUNTDOWN_SECS);
        if draw_at < now + SHORTEST_RUN {
            let message = "this is in the past or less than 5 s ahead";
            self.errors.add("drawAt", message);
        } else if draw_at > now + longest {
            self.errors.add("drawAt", "this is more than 30 days ahead");
        }
        Some(draw_at)
    }

    fn start_at(&mut self) -> Option<Timestamp> {
        if !self.form.start_at.is_given() {
            return self.base.and_then(|base| base.start_at);
        }
        let Moment(start_at) = self.form.start_at.read("startAt", &mut self.errors)?;
        let now = self.circumstances.now;
        if start_at <= now {
            self.errors.add("startAt", "this is in the past");
        } else if start_at > now + LONGEST_START_AHEAD {
            self.errors.add("startAt", "this is more than a year ahead");
        }
        Some(start_at)
    }
}
