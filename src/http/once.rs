//! `Idempotency-Key`: a change that is asked for twice happens once and is answered the same.
//!
//! A route has it when its handler takes a [`Once`] and answers with [`Once::answer`], and when the
//! service it calls ends its transaction with [`settle`](crate::infra::idempotency::settle).

use std::{
    any::Any,
    borrow::Borrow,
    future::{Ready, ready},
    sync::Arc,
    time::Duration,
};

use actix_web::{
    FromRequest, HttpMessage, HttpRequest, HttpResponse,
    dev::Payload,
    http::{
        StatusCode,
        header::{self, ContentType, HeaderMap, HeaderName, HeaderValue},
    },
    web::Data,
};
use futures_util::{FutureExt, future::LocalBoxFuture};
use sea_orm::DbErr;
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::problem::Problem;
use crate::{
    infra::{
        idempotency::{Answer, Answers, CallKey, Claim, Earlier},
        mysql::{NoOutcome, is_unavailable},
    },
    kernel::{UserId, step},
};

const HEADER: &str = "Idempotency-Key";
const REPLAYED: &str = "idempotency-replayed";
const LONGEST_KEY: usize = 255;

const RETRY_AFTER: Duration = Duration::from_secs(1);

/// A call that changes something, once for each key that its caller chooses.
#[derive(Debug)]
pub struct Once {
    request: HttpRequest,
    key: Option<String>,
}

/// An answer in JSON.
pub fn json_answer(status: StatusCode, body: &impl Serialize) -> Result<Answer, Problem> {
    Ok(Answer {
        status: status.as_u16(),
        location: None,
        body: serde_json::to_string(body).map_err(Problem::internal)?,
    })
}

impl FromRequest for Once {
    type Error = Problem;
    type Future = Ready<Result<Self, Problem>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        ready(key(request.headers()).map(|key| Self {
            request: request.clone(),
            key,
        }))
    }
}

/// The key that the caller sends, if it sends one.
fn key(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let mut given = headers.get_all(HEADER);
    let Some(key) = given.next() else {
        return Ok(None);
    };
    let is_visible = |key: &[u8]| key.iter().all(u8::is_ascii_graphic);
    match key.to_str() {
        Ok(key)
            if (1..=LONGEST_KEY).contains(&key.len())
                && is_visible(key.as_bytes())
                && given.next().is_none() =>
        {
            Ok(Some(key.to_owned()))
        }
        Ok(_) | Err(_) => Err(Problem::invalid_field(
            HEADER,
            "a key is 1 to 255 visible ASCII characters, and there is one",
        )),
    }
}

/// What the body of a request was, for [`Once`] to tell it from another one.
struct BodyHash([u8; 32]);

/// Keeps the hash of the body when the request carries a key.
pub(super) fn note_body(request: &HttpRequest, body: &[u8]) {
    if request.headers().contains_key(HEADER) {
        let hash = BodyHash(Sha256::digest(body).into());
        request.extensions_mut().insert(hash);
    }
}

impl Once {
    /// Makes `change` happen and answers what `render` makes of it; or, when `caller` has asked for
    /// just that under this key before, answers what it was answered then.
    ///
    /// Takes one of the turns that callers have at `MySQL`, with and without a key. What has not
    /// been committed leaves no trace, so a call that failed can be repeated.
    pub fn answer<'a, T, R, E>(
        self,
        caller: UserId,
        render: impl Fn(&T) -> Result<Answer, Problem> + Send + Sync + 'static,
        change: impl Future<Output = Result<R, E>> + 'a,
    ) -> LocalBoxFuture<'a, Result<HttpResponse, Problem>>
    where
        T: Any,
        R: Borrow<T> + 'a,
        E: 'a,
        Problem: From<E>,
    {
        // A change is a large future, and moved about less in a box.
        let change = Box::pin(change);
        async move {
            let answers = self.answers()?;
            let change = answers.in_turn(change);
            self.carry_out(&answers, caller, render, change).await
        }
        .boxed_local()
    }

    /// The same for a change that may take longer than a turn, and takes one for each of its own
    /// transactions.
    pub fn answer_in_own_turns<'a, T, R, E>(
        self,
        caller: UserId,
        render: impl Fn(&T) -> Result<Answer, Problem> + Send + Sync + 'static,
        change: impl Future<Output = Result<R, E>> + 'a,
    ) -> LocalBoxFuture<'a, Result<HttpResponse, Problem>>
    where
        T: Any,
        R: Borrow<T> + 'a,
        E: 'a,
        Problem: From<E>,
    {
        let change = Box::pin(change).map(Ok);
        async move {
            let answers = self.answers()?;
            self.carry_out(&answers, caller, render, change).await
        }
        .boxed_local()
    }

    async fn carry_out<T, R, E>(
        &self,
        answers: &Answers,
        caller: UserId,
        render: impl Fn(&T) -> Result<Answer, Problem> + Send + Sync + 'static,
        change: impl Future<Output = Result<Result<R, E>, NoOutcome>>,
    ) -> Result<HttpResponse, Problem>
    where
        T: Any,
        R: Borrow<T>,
        Problem: From<E>,
    {
        if let Some(call) = self.call(caller) {
            return answer_once(answers, call, render, change).await;
        }
        let done = change.await??;
        render(done.borrow()).map(response)
    }

    fn answers(&self) -> Result<Data<Answers>, Problem> {
        let answers = self.request.app_data::<Data<Answers>>();
        answers
            .cloned()
            .ok_or_else(|| Problem::internal("the application has no `Data<Answers>`"))
    }

    fn call(&self, caller: UserId) -> Option<CallKey> {
        let key = self.key.clone()?;
        let mut hash = Sha256::new();
        for part in [self.request.method().as_str(), self.request.path()] {
            hash.update(part);
            hash.update("\n");
        }
        if let Some(body) = self.request.extensions().get::<BodyHash>() {
            hash.update(body.0);
        }
        Some(CallKey {
            principal: caller,
            key,
            request_hash: hash.finalize().into(),
        })
    }
}

async fn answer_once<T, R, E>(
    answers: &Answers,
    call: CallKey,
    render: impl Fn(&T) -> Result<Answer, Problem> + Send + Sync + 'static,
    change: impl Future<Output = Result<Result<R, E>, NoOutcome>>,
) -> Result<HttpResponse, Problem>
where
    T: Any,
    R: Borrow<T>,
    Problem: From<E>,
{
    if let Some(earlier) = answers.find(&call).await.map_err(not_looked_up)? {
        return replay(earlier);
    }
    let render = Arc::new(render);
    let claim = Claim::new(call.clone(), {
        let render = Arc::clone(&render);
        move |outcome: &T| render(outcome)
    });
    match claim.scope(change).await? {
        Ok(done) => {
            step("call.settled");
            // A change that found nothing to do has kept no answer, and needs none.
            let kept = claim.answer();
            let answer = kept.map_or_else(|| render(done.borrow()), Ok);
            answer.map(response)
        }
        // It may have failed because the same call, at the same time, did not.
        Err(error) => match answers.find(&call).await {
            Ok(Some(earlier)) => replay(earlier),
            Ok(None) if claim.is_contended() => Err(in_progress()),
            // Not the same call perhaps, but a table that nobody gets at.
            Err(unread) if claim.is_contended() => Err(not_looked_up(unread)),
            Ok(None) | Err(_) => Err(error.into()),
        },
    }
}

fn replay(earlier: Earlier) -> Result<HttpResponse, Problem> {
    match earlier {
        Earlier::Same(answer) => {
            let mut response = response(answer);
            let name = HeaderName::from_static(REPLAYED);
            response
                .headers_mut()
                .insert(name, HeaderValue::from_static("true"));
            Ok(response)
        }
        Earlier::Other => Err(Problem::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            "idempotency_key_reused",
            "this Idempotency-Key was used for another call, or with another body",
        )),
    }
}

fn response(answer: Answer) -> HttpResponse {
    // What was stored came from a status.
    let status = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::OK);
    let mut response = HttpResponse::build(status);
    if let Some(location) = answer.location {
        response.insert_header((header::LOCATION, location));
    }
    response.content_type(ContentType::json()).body(answer.body)
}

fn in_progress() -> Problem {
    Problem::conflict(
        "idempotency_in_progress",
        "a call with this Idempotency-Key is being carried out",
    )
    .with_retry_after(RETRY_AFTER)
}

fn not_looked_up(error: DbErr) -> Problem {
    if is_unavailable(&error) {
        let detail = "whether this call was carried out before cannot be read now";
        Problem::unavailable("unavailable", detail, RETRY_AFTER).with_cause(error)
    } else {
        Problem::internal(error)
    }
}

impl From<NoOutcome> for Problem {
    fn from(error: NoOutcome) -> Self {
        Self::unavailable("unavailable", error.to_string(), RETRY_AFTER)
    }
}
