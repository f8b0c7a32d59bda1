//! How many streams may be open.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::Arc,
};

use parking_lot::Mutex;

use crate::{kernel::UserId, settings::LiveSettings, telemetry::metrics};

/// Whose limit is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Full {
    Process,
    User,
}

/// Counts the open streams of this process. Cheap to clone.
#[derive(Clone)]
pub(super) struct Places(Arc<Inner>);

struct Inner {
    most: usize,
    most_of_user: u32,
    taken: Mutex<Taken>,
}

#[derive(Default)]
struct Taken {
    all: usize,
    by_user: HashMap<UserId, u32>,
}

/// The right to one open stream, given back when dropped.
pub(super) struct Place {
    places: Places,
    /// `None` for who has no limit of its own.
    user_id: Option<UserId>,
}

impl Places {
    pub(super) fn new(settings: &LiveSettings) -> Self {
        Self(Arc::new(Inner {
            most: settings.max_streams.get(),
            most_of_user: settings.streams_per_user.get(),
            taken: Mutex::default(),
        }))
    }

    /// A place, for a user or for somebody without a limit of its own.
    pub(super) fn take(&self, user_id: Option<UserId>) -> Result<Place, Full> {
        let mut taken = self.0.taken.lock();
        if taken.all >= self.0.most {
            metrics::live_refused("process");
            return Err(Full::Process);
        }
        if let Some(user_id) = user_id {
            let of_user = taken.by_user.entry(user_id).or_default();
            // Not zero even then, so no entry is left without a stream.
            if *of_user >= self.0.most_of_user {
                metrics::live_refused("user");
                return Err(Full::User);
            }
            *of_user += 1;
        }
        taken.all += 1;
        metrics::live_streams(taken.all);
        Ok(Place {
            places: self.clone(),
            user_id,
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.0.taken.lock();
        taken.all -= 1;
        metrics::live_streams(taken.all);
        let Some(user_id) = self.user_id else { return };
        if let Entry::Occupied(mut of_user) = taken.by_user.entry(user_id) {
            *of_user.get_mut() -= 1;
            if *of_user.get() == 0 {
                of_user.remove();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Settings;

    fn places(most: &str, most_of_user: &str) -> Places {
        let variables = [
            ("LUCKYBAG__LIVE__MAX_STREAMS", most),
            ("LUCKYBAG__LIVE__STREAMS_PER_USER", most_of_user),
        ];
        let variables = variables.map(|(key, value)| (key.to_owned(), value.to_owned()));
        let settings = Settings::load_from(None, variables.into_iter()).unwrap();
        Places::new(&settings.live)
    }

    #[test]
    fn a_user_and_the_process_have_a_limit_and_a_dropped_place_is_free_again() {
        let places = places("4", "2");
        let (ann, ben) = (Some(UserId(1)), Some(UserId(2)));

        let of_ann = [places.take(ann).unwrap(), places.take(ann).unwrap()];
        assert_eq!(places.take(ann).err(), Some(Full::User));
        let of_ben = places.take(ben).unwrap();
        let of_nobody = places.take(None).unwrap();
        assert_eq!(places.take(ben).err(), Some(Full::Process));

        drop(of_ann);
        let again = places.take(ann).unwrap();
        drop((of_ben, of_nobody, again));
        assert_eq!(places.0.taken.lock().all, 0);
        assert!(places.0.taken.lock().by_user.is_empty());
    }

    #[test]
    fn who_has_no_limit_of_its_own_takes_what_the_process_has() {
        let places = places("3", "1");

        let taken: Vec<Place> = (0..3).map(|_| places.take(None).unwrap()).collect();

        assert_eq!(places.take(None).err(), Some(Full::Process));
        drop(taken);
    }
}
