//! The service against real servers: run by scripts/test, or after
//! `eval "$(scripts/services env)"` by `cargo test --test it`.

#[cfg(test)]
mod admin_copy;
#[cfg(test)]
mod admission;
#[cfg(test)]
mod api_input;
#[cfg(test)]
mod api_rights;
#[cfg(test)]
mod broker;
#[cfg(test)]
mod command_line;
#[cfg(test)]
mod deny;
#[cfg(test)]
mod draw;
#[cfg(test)]
mod draw_crashes;
#[cfg(test)]
mod draws;
#[cfg(test)]
mod event_samples;
#[cfg(test)]
mod exports;
#[cfg(test)]
mod filters;
#[cfg(test)]
mod fulfilment;
#[cfg(test)]
mod fuzzed_api;
#[cfg(test)]
mod harness;
#[cfg(test)]
mod histories;
#[cfg(test)]
mod idempotency;
#[cfg(test)]
mod ingress;
#[cfg(test)]
mod interleavings;
#[cfg(test)]
mod joins;
#[cfg(test)]
mod life_cycle;
#[cfg(test)]
mod limits;
#[cfg(test)]
mod live;
#[cfg(test)]
mod odd_input;
#[cfg(test)]
mod odds;
#[cfg(test)]
mod openapi;
#[cfg(test)]
mod outages;
#[cfg(test)]
mod outbox;
#[cfg(test)]
mod own_redis;
#[cfg(test)]
mod partitions;
#[cfg(test)]
mod processes;
#[cfg(test)]
mod proof;
#[cfg(test)]
mod proxy;
#[cfg(test)]
mod redraws;
#[cfg(test)]
mod repairs;
#[cfg(test)]
mod restore;
#[cfg(test)]
mod results;
#[cfg(test)]
mod retention;
#[cfg(test)]
mod selection;
#[cfg(test)]
mod stats;
#[cfg(test)]
mod storms;
#[cfg(test)]
mod stream;
#[cfg(test)]
mod telemetry;
#[cfg(test)]
mod tokens;
#[cfg(test)]
mod tour;
#[cfg(test)]
mod upgrades;
#[cfg(test)]
mod user_data;
#[cfg(test)]
mod whole;
