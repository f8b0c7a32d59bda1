//! Named steps at which a test can make the process die or pause.

use std::{
    process::Command,
    sync::atomic::{AtomicBool, Ordering},
};

/// Marks a step. In a debug build the process aborts here when `LUCKYBAG_DIE_AT` names the step, and
/// stops here until it is told to go on, once, when `LUCKYBAG_PAUSE_AT` does; in a release build this
/// is nothing.
#[inline]
pub fn step(name: &'static str) {
    if cfg!(debug_assertions) {
        die_or_pause(name);
    }
}

fn die_or_pause(name: &'static str) {
    static HAS_PAUSED: AtomicBool = AtomicBool::new(false);

    let is_named = |variable| std::env::var(variable).is_ok_and(|step| step == name);
    if is_named("LUCKYBAG_DIE_AT") {
        tracing::error!(step = name, "dying here, as asked");
        std::process::abort();
    }
    if is_named("LUCKYBAG_PAUSE_AT") && !HAS_PAUSED.swap(true, Ordering::Relaxed) {
        tracing::warn!(step = name, "pausing here, as asked");
        let own_id = std::process::id().to_string();
        if let Err(error) = Command::new("kill").args(["-s", "STOP", &own_id]).status() {
            let error = &error as &dyn std::error::Error;
            tracing::error!(error, "cannot pause");
        }
    }
}
