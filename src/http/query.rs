//! Strict query parameters.

use std::future::{Ready, ready};

use actix_web::{FromRequest, HttpRequest, dev::Payload, web};
use serde::{Deserialize, Deserializer, de::DeserializeOwned};

use super::{fields::FieldErrors, problem::Problem};

/// The query parameters. `T` refuses unknown ones with `#[serde(deny_unknown_fields)]`.
#[derive(Debug)]
pub struct Query<T>(pub T);

impl<T: DeserializeOwned> FromRequest for Query<T> {
    type Error = Problem;
    type Future = Ready<Result<Self, Problem>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        ready(parse(request.query_string()).map(Self))
    }
}

fn parse<T: DeserializeOwned>(query: &str) -> Result<T, Problem> {
    web::Query::<Tracked<T>>::from_query(query)
        .map_err(|_| FieldErrors::new())
        .and_then(|tracked| tracked.into_inner().0)
        .map_err(Problem::invalid)
}

/// A value read with an account of where its fault is.
struct Tracked<T>(Result<T, FieldErrors>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Tracked<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self(
            serde_path_to_error::deserialize(deserializer).map_err(|error| {
                let mut errors = FieldErrors::new();
                errors.add_serde(error.path(), &error.inner().to_string());
                errors
            }),
        ))
    }
}
