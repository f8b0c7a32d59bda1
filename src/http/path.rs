//! Ids in the path.

use std::{
    future::{Ready, ready},
    str::FromStr,
};

use actix_web::{FromRequest, HttpRequest, dev::Payload};

use super::{ids::IdParam, problem::Problem};
use crate::kernel::InvalidId;

/// The id that the route names `{activityId}`, `{userId}` and so on; else 422 naming it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathId<T>(pub T);

impl<T: IdParam + FromStr<Err = InvalidId>> FromRequest for PathId<T> {
    type Error = Problem;
    type Future = Ready<Result<Self, Problem>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        let text = request.match_info().get(T::NAME).unwrap_or_default();
        let id = text.parse().map(Self);
        ready(id.map_err(|error: InvalidId| Problem::invalid_field(T::NAME, error.to_string())))
    }
}
