//! The service against real servers.

#[cfg(test)]
mod broker;
#[cfg(test)]
mod draw;
#[cfg(test)]
mod proxy;
