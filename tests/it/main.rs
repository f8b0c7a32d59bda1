//! The service against real servers: run by scripts/test, or after
//! `eval "$(scripts/services env)"` by `cargo test --test it`.

#[cfg(test)]
mod admission;
#[cfg(test)]
mod broker;
#[cfg(test)]
mod draw;
#[cfg(test)]
mod harness;
#[cfg(test)]
mod joins;
#[cfg(test)]
mod outages;
#[cfg(test)]
mod proxy;
#[cfg(test)]
mod stream;
#[cfg(test)]
mod whole;
