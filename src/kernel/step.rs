//! Named steps of a draw and of admission at which a test can make the process die.

/// Marks a step. In a debug build the process aborts here when `LUCKYBAG_DIE_AT` names the step;
/// in a release build this is nothing.
#[inline]
pub fn step(name: &'static str) {
    if cfg!(debug_assertions) && std::env::var("LUCKYBAG_DIE_AT").is_ok_and(|step| step == name) {
        tracing::error!(step = name, "dying here, as asked");
        std::process::abort();
    }
}
