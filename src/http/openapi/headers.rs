//! Headers that many answers have.

use utoipa::openapi::{
    ObjectBuilder, Ref, Type,
    header::{Header, HeaderBuilder},
};

pub(super) const REQUEST_ID: &str = "RequestId";
pub(super) const RETRY_AFTER: &str = "RetryAfter";
pub(super) const LOCATION: &str = "Location";
pub(super) const REPLAYED: &str = "IdempotencyReplayed";
pub(super) const AUTHENTICATE: &str = "Authenticate";
pub(super) const ALLOW: &str = "Allow";

/// A reference to the header of this name among the components.
pub(super) fn reference(name: &str) -> Ref {
    Ref::new(format!("#/components/headers/{name}"))
}

/// All of them, as components.
pub(super) fn all() -> [(&'static str, Header); 6] {
    let text = |description: &str, example: &str| {
        let schema = ObjectBuilder::new()
            .schema_type(Type::String)
            .examples([example]);
        HeaderBuilder::new()
            .schema(Some(schema))
            .description(Some(description))
            .build()
    };
    let seconds = ObjectBuilder::new()
        .schema_type(Type::Integer)
        .minimum(Some(1));
    let retry_after = HeaderBuilder::new()
        .schema(Some(seconds))
        .description(Some("After how many seconds to try again."))
        .build();
    [
        (
            REQUEST_ID,
            text(
                "The caller's `x-request-id` if it was 1 to 64 characters of `A-Z a-z 0-9 _ -`, else \
                 one of the service. Log lines and messages name it.",
                "01981f0a-6d8f-7c53-9f0e-2f6f6a3d9c11",
            ),
        ),
        (RETRY_AFTER, retry_after),
        (
            LOCATION,
            text(
                "Where the new thing is.",
                "/v1/activities/7265187412320780288",
            ),
        ),
        (
            REPLAYED,
            text(
                "`true` when the same call was carried out before and this is its answer.",
                "true",
            ),
        ),
        (AUTHENTICATE, text("How to say who calls.", "Bearer")),
        (
            ALLOW,
            text("The methods that there are.", "HEAD, GET, PATCH"),
        ),
    ]
}
