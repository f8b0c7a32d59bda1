//! What every integration test stands on: a world of its own on the shared servers, real processes
//! in it, and callers of their HTTP API.

mod amqp;
mod api;
mod bag;
mod eventually;
mod joining;
mod pool;
mod process;
mod queues;
mod truth;
mod world;

pub(crate) use amqp::{Amqp, Events};
pub(crate) use api::{Answer, Api};
pub(crate) use bag::{Bag, BagSpec};
pub(crate) use eventually::eventually;
pub(crate) use process::{Process, nothing_happens_for};
pub(crate) use truth::Win;
pub(crate) use world::World;
