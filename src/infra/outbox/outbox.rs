//! The outbox as those who owe something see it.

use std::{borrow::Cow, sync::Arc};

use sea_orm::{ConnectionTrait, DbErr};
use tokio::sync::Notify;

use super::{
    entry::{Entry, Kind},
    store,
};

/// Adds entries in a caller's transaction and wakes the relays once they are committed.
#[derive(Clone, Debug, Default)]
pub struct Outbox {
    waiting: Arc<Waiting>,
    /// The projection that every change of an activity owes, and a copy along with it; `None` when
    /// nothing is copied to an admin database.
    copied_with: Option<&'static str>,
}

/// What the loop of each kind waits for.
#[derive(Debug, Default)]
struct Waiting {
    publish: Notify,
    project: Notify,
    admin_copy: Notify,
}

impl Waiting {
    const fn of(&self, kind: Kind) -> &Notify {
        match kind {
            Kind::Publish => &self.publish,
            Kind::Project => &self.project,
            Kind::AdminCopy => &self.admin_copy,
        }
    }
}

impl Outbox {
    /// An outbox that owes a copy to the admin database along with each of these projections.
    pub fn copying(along_with: &'static str) -> Self {
        Self {
            waiting: Arc::default(),
            copied_with: Some(along_with),
        }
    }

    /// Adds what the caller's transaction owes. Call [`Outbox::wake`] after the commit.
    ///
    /// Copies are left out unless there is an admin database.
    pub async fn append(&self, tx: &impl ConnectionTrait, entries: &[Entry]) -> Result<(), DbErr> {
        store::insert(tx, &self.owed(entries)).await
    }

    /// Tells the relays of this process that there is something to do.
    pub fn wake(&self) {
        for kind in Kind::ALL {
            self.waiting.of(kind).notify_one();
        }
    }

    /// Resolves once there may be rows of a kind; the loop of each kind is the only one to ask.
    pub(super) async fn filled(&self, kind: Kind) {
        self.waiting.of(kind).notified().await;
    }

    fn owed<'a>(&self, entries: &'a [Entry]) -> Cow<'a, [Entry]> {
        let Some(along_with) = self.copied_with else {
            let is_copy = |entry: &Entry| entry.kind() == Kind::AdminCopy;
            if entries.iter().any(is_copy) {
                return entries.iter().filter(|e| !is_copy(e)).cloned().collect();
            }
            return Cow::Borrowed(entries);
        };
        let copies = entries
            .iter()
            .filter_map(|entry| copy_along(entry, along_with));
        entries.iter().cloned().chain(copies).collect()
    }
}

fn copy_along(entry: &Entry, along_with: &str) -> Option<Entry> {
    match entry {
        Entry::Project {
            what,
            activity_id,
            version,
        } if *what == along_with => Some(Entry::CopyActivity {
            activity_id: *activity_id,
            version: *version,
        }),
        Entry::Publish(_)
        | Entry::Draw(_)
        | Entry::Project { .. }
        | Entry::CopyActivity { .. }
        | Entry::CopyWin { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::{ActivityId, WinRecordId};

    const ID: ActivityId = ActivityId(7);

    fn project(what: &'static str) -> Entry {
        Entry::Project {
            what,
            activity_id: ID,
            version: 3,
        }
    }

    fn copy_win() -> Entry {
        Entry::CopyWin {
            activity_id: ID,
            win_record_id: WinRecordId(9),
            change: "claimed",
        }
    }

    #[test]
    fn without_an_admin_database_no_copy_is_owed() {
        let owed = Outbox::default();
        let owed = owed.owed(&[project("activity"), copy_win()]).into_owned();

        assert_eq!(owed, [project("activity")]);
    }

    #[test]
    fn with_one_every_change_of_an_activity_owes_a_copy_of_its_version() {
        let outbox = Outbox::copying("activity");
        let entries = [project("activity"), project("winners"), copy_win()];
        let owed = outbox.owed(&entries).into_owned();

        assert_eq!(owed[..3], entries);
        let copy = Entry::CopyActivity {
            activity_id: ID,
            version: 3,
        };
        assert_eq!(owed[3..], [copy]);
    }
}
