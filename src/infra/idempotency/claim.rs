//! The way of a key from the call that carries it down to the transaction that uses it up.

use std::{any::Any, error::Error, sync::Arc};

use parking_lot::Mutex;
use sea_orm::{ConnectionTrait, DbErr};

use super::store::{self, Answer, CallKey};
use crate::infra::mysql::is_key_contended;

tokio::task_local! {
    static CURRENT: Arc<Claim>;
}

type Render = Box<dyn Fn(&dyn Any) -> Result<Answer, Box<dyn Error + Send + Sync>> + Send + Sync>;

/// A call that wants to be carried out once under its key.
pub struct Claim {
    key: CallKey,
    render: Render,
    state: Mutex<State>,
}

enum State {
    Open,
    /// In the transaction, which may still fail to commit.
    Settled(Answer),
    /// Another call with the key was first.
    Contended,
}

impl Claim {
    /// `render` makes the answer of what [`settle`] is given, which is a `T`.
    pub fn new<T, E>(
        key: CallKey,
        render: impl Fn(&T) -> Result<Answer, E> + Send + Sync + 'static,
    ) -> Arc<Self>
    where
        T: Any,
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        let render = move |outcome: &dyn Any| match outcome.downcast_ref() {
            Some(outcome) => render(outcome).map_err(Into::into),
            None => Err("the change settles something else than its route answers".into()),
        };
        Arc::new(Self {
            key,
            render: Box::new(render),
            state: Mutex::new(State::Open),
        })
    }

    /// Runs `change` so that [`settle`] in its transaction uses this claim. Not handed on to other
    /// tasks.
    pub fn scope<F: Future>(self: &Arc<Self>, change: F) -> impl Future<Output = F::Output> {
        CURRENT.scope(Arc::clone(self), change)
    }

    /// The answer that was written in the transaction.
    pub fn answer(&self) -> Option<Answer> {
        match &*self.state.lock() {
            State::Settled(answer) => Some(answer.clone()),
            State::Open | State::Contended => None,
        }
    }

    /// Whether another call with the same key has got in between.
    pub fn is_contended(&self) -> bool {
        matches!(*self.state.lock(), State::Contended)
    }
}

/// The last statement of a change's transaction: keeps the answer to `outcome` when the change was
/// called for under a key, and does nothing otherwise.
///
/// # Errors
///
/// The change must then be rolled back: above all when another call with the key has committed.
pub async fn settle<T: Any + Sync>(tx: &impl ConnectionTrait, outcome: &T) -> Result<(), DbErr> {
    let Ok(claim) = CURRENT.try_with(Arc::clone) else {
        return Ok(());
    };
    let answer = (claim.render)(outcome)
        .map_err(|error| DbErr::Custom(format!("the answer cannot be kept: {error}")))?;
    match store::insert(tx, &claim.key, &answer).await {
        Ok(()) => {
            *claim.state.lock() = State::Settled(answer);
            Ok(())
        }
        // Not as a duplicate key, with which the transaction would be tried again.
        Err(error) if is_key_contended(&error) => {
            *claim.state.lock() = State::Contended;
            let reason = "another call with this Idempotency-Key came first";
            Err(DbErr::Custom(reason.to_owned()))
        }
        Err(error) => Err(error),
    }
}
