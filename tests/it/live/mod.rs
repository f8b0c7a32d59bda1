//! Streams of what happens in an activity: `GET /v1/activities/{activityId}/events`.

mod client;
mod crowds;
mod ends;
mod life;
mod limits;
mod outages;

use client::{Event, Stream, ask, names};

use crate::harness::{Api, Bag};

impl Api {
    /// A stream of a viewer of its own.
    async fn listen(&self, bag: &Bag, user: u64) -> Stream {
        Stream::open(self, &self.viewer(user), &bag.path("/events")).await
    }
}
