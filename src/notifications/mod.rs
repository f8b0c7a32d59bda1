//! Tells winners that they won, then the other participants that they did not.

mod sender;

pub use sender::{NotificationDeps, NotificationSender, NotifyError};
