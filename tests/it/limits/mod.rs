//! What keeps callers from overwhelming the service, each other, or the draw.

mod clients;
mod rates;
mod turns;
