//! Opens streams, and watches what somebody listens to.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;
use tokio::{runtime::Handle, sync::watch};
use tokio_util::sync::CancellationToken;

use super::{
    super::{ActivityError, ActivityService, CountParticipants},
    moment::Moment,
    places::Places,
    watcher::Watcher,
};
use crate::{
    kernel::{ActivityId, Supervisor},
    settings::LiveSettings,
};

/// What [`LiveService`] stands on.
pub struct LiveDeps {
    pub activities: ActivityService,
    pub participants: Arc<dyn CountParticipants>,
    pub settings: LiveSettings,
    /// Where the watchers run.
    pub supervisor: Supervisor,
    pub runtime: Handle,
}

/// Tells listeners what happens in activities. Cheap to clone.
#[derive(Clone)]
pub struct LiveService {
    pub(super) shared: Arc<Shared>,
}

pub(super) struct Shared {
    pub(super) activities: ActivityService,
    pub(super) participants: Arc<dyn CountParticipants>,
    pub(super) settings: LiveSettings,
    pub(super) places: Places,
    pub(super) stop: CancellationToken,
    supervisor: Supervisor,
    runtime: Handle,
    /// What somebody listens to.
    watched: Mutex<HashMap<ActivityId, watch::Sender<Arc<Moment>>>>,
}

impl LiveService {
    pub fn new(deps: LiveDeps) -> Self {
        Self {
            shared: Arc::new(Shared {
                places: Places::new(&deps.settings),
                activities: deps.activities,
                participants: deps.participants,
                settings: deps.settings,
                stop: CancellationToken::new(),
                supervisor: deps.supervisor,
                runtime: deps.runtime,
                watched: Mutex::default(),
            }),
        }
    }

    /// Ends every stream, now and from now on: the process is going to stop.
    pub fn stop(&self) {
        self.shared.stop.cancel();
    }

    /// The moments of a public activity from now on. What is watched already needs no store.
    pub(super) async fn follow(
        &self,
        id: ActivityId,
    ) -> Result<watch::Receiver<Arc<Moment>>, ActivityError> {
        let held = self
            .shared
            .watched
            .lock()
            .get(&id)
            .map(watch::Sender::subscribe);
        let moments = match held {
            Some(moments) => moments,
            None => self.watch(id).await?,
        };
        let is_public = moments.borrow().detail.is_public();
        is_public
            .then_some(moments)
            .ok_or(ActivityError::NotFound(id))
    }

    async fn watch(&self, id: ActivityId) -> Result<watch::Receiver<Arc<Moment>>, ActivityError> {
        let detail = self.shared.activities.detail(id).await?;
        if !detail.is_public() {
            return Err(ActivityError::NotFound(id));
        }
        let mut held = self.shared.watched.lock();
        if let Some(sender) = held.get(&id) {
            return Ok(sender.subscribe());
        }
        let now = self.shared.activities.now_estimate();
        let linger = self.shared.settings.linger_secs.duration();
        let first = Moment::first(detail, now, linger);
        let (sender, moments) = watch::channel(Arc::new(first));
        held.insert(id, sender.clone());
        // A runtime that ends drops a watcher at once, which takes the lock too.
        drop(held);
        let watching = Watcher::new(Arc::clone(&self.shared), id, sender).run();
        // On the runtime of the process: that of the request's own thread may be busy, or end.
        let _runtime = self.shared.runtime.enter();
        drop(self.shared.supervisor.spawn_once(watching));
        Ok(moments)
    }
}

impl Shared {
    /// Stops watching when nobody listens any more.
    pub(super) fn forget_if_unheard(
        &self,
        id: ActivityId,
        sender: &watch::Sender<Arc<Moment>>,
    ) -> bool {
        // Under the lock nobody can begin to listen.
        let mut watched = self.watched.lock();
        let is_unheard = sender.receiver_count() == 0;
        if is_unheard {
            watched.remove(&id);
        }
        is_unheard
    }

    /// Makes sure that nobody begins to listen to a watcher that has ended.
    pub(super) fn forget(&self, id: ActivityId, sender: &watch::Sender<Arc<Moment>>) {
        let mut watched = self.watched.lock();
        if watched
            .get(&id)
            .is_some_and(|held| held.same_channel(sender))
        {
            watched.remove(&id);
        }
    }
}
