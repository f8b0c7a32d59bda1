//! What the arguments of a handler say in the document.

use actix_web::{HttpRequest, http::StatusCode, web::Data};
use utoipa::{
    IntoParams, ToSchema,
    openapi::{
        ObjectBuilder, RefOr, Required, Schema, Type,
        path::{ParameterBuilder, ParameterIn},
        schema::SchemaType,
    },
};

use super::{
    super::{
        BatchBody, Body, ExportRequest, HostOrOperator, IdParam, Once, Operator, OptionalBody,
        PathId, Query, Service, Viewer,
    },
    Operation,
    problems::{INVALID_REQUEST, KnownProblem},
};

/// An argument of a handler that adds what it is to the description of the operation.
pub trait Described {
    fn describe(operation: &mut Operation);
}

impl<T: ?Sized> Described for Data<T> {
    fn describe(_: &mut Operation) {}
}

impl Described for ExportRequest {
    fn describe(operation: &mut Operation) {
        operation.add_problems(&[EXPORTS_BUSY, HTTP_1_1_NEEDED]);
    }
}

const EXPORTS_BUSY: KnownProblem = KnownProblem::unavailable(
    "exports_busy",
    "As many exports are running as this process makes at a time, or one of this user is",
);
const HTTP_1_1_NEEDED: KnownProblem = KnownProblem::new(
    StatusCode::HTTP_VERSION_NOT_SUPPORTED,
    "http_1_1_needed",
    "The call came by an older HTTP than 1.1, whose answers do not show where they end",
);

/// What a handler takes from it, the operation says itself.
impl Described for HttpRequest {
    fn describe(_: &mut Operation) {}
}

const UNAUTHORIZED: KnownProblem = KnownProblem::new(
    StatusCode::UNAUTHORIZED,
    "unauthorized",
    "There is no token, or one that is not believed",
);
const FORBIDDEN: KnownProblem = KnownProblem::new(
    StatusCode::FORBIDDEN,
    "forbidden",
    "The token does not give the right to do this",
);
const KEYS_AWAY: KnownProblem = KnownProblem::unavailable(
    "token_keys_unavailable",
    "The keys that tokens are verified with are not there yet",
);
/// By user, and by address.
pub(super) const RATE_LIMITED: KnownProblem = KnownProblem::new(
    StatusCode::TOO_MANY_REQUESTS,
    "rate_limited",
    "This user, or this address, calls too often",
)
.passing();

macro_rules! rights {
    ($($right:ident: $callers:literal, [$($problem:expr),*];)+) => {
        $(
            impl Described for $right {
                fn describe(operation: &mut Operation) {
                    operation.set_callers($callers);
                    operation.add_problems(&[UNAUTHORIZED, RATE_LIMITED, KEYS_AWAY, $($problem),*]);
                }
            }
        )+
    };
}

rights! {
    Viewer: "anybody with a token", [];
    HostOrOperator: "`host` of the room, and `operator`", [FORBIDDEN];
    Operator: "`operator`", [FORBIDDEN];
    Service: "`service`", [FORBIDDEN];
}

const MALFORMED: KnownProblem = KnownProblem::new(
    StatusCode::BAD_REQUEST,
    "malformed_json",
    "The body is not JSON in UTF-8",
);
const INCOMPLETE: KnownProblem = KnownProblem::new(
    StatusCode::BAD_REQUEST,
    "incomplete_body",
    "The body ended early",
);
const TIMEOUT: KnownProblem = KnownProblem::new(
    StatusCode::REQUEST_TIMEOUT,
    "body_timeout",
    "The body did not arrive in time",
);
const TOO_LARGE: KnownProblem = KnownProblem::new(
    StatusCode::PAYLOAD_TOO_LARGE,
    "body_too_large",
    "The body is larger than this operation takes",
);
const MEDIA_TYPE: KnownProblem = KnownProblem::new(
    StatusCode::UNSUPPORTED_MEDIA_TYPE,
    "unsupported_media_type",
    "The body is not `application/json`, or it is compressed",
);

/// What any body may have against it.
const OF_BODIES: [KnownProblem; 6] = [
    MALFORMED,
    INCOMPLETE,
    TIMEOUT,
    TOO_LARGE,
    MEDIA_TYPE,
    INVALID_REQUEST,
];

macro_rules! bodies {
    ($($body:ident: $required:expr, $limit:literal;)+) => {
        $(
            impl<T: ToSchema> Described for $body<T> {
                fn describe(operation: &mut Operation) {
                    operation.set_body::<T>($required, $limit);
                    operation.add_problems(&OF_BODIES);
                }
            }
        )+
    };
}

bodies! {
    Body: Required::True, "64 KiB";
    BatchBody: Required::True, "1 MiB";
    OptionalBody: Required::False, "4 KiB";
}

impl<T: IdParam + ToSchema> Described for PathId<T> {
    fn describe(operation: &mut Operation) {
        let schema = operation.component::<T>();
        let parameter = ParameterBuilder::new()
            .name(T::NAME)
            .parameter_in(ParameterIn::Path)
            .required(Required::True)
            .schema(Some(schema));
        operation.add_parameter(parameter.build());
        operation.add_problems(&[INVALID_REQUEST]);
    }
}

impl<T: IntoParams> Described for Query<T> {
    fn describe(operation: &mut Operation) {
        for mut parameter in T::into_params(|| Some(ParameterIn::Query)) {
            parameter.schema = parameter.schema.map(without_null);
            operation.add_parameter(parameter);
        }
        operation.add_problems(&[INVALID_REQUEST]);
    }
}

/// What may be left out is an `Option`, but a parameter that is there is never null.
fn without_null(schema: RefOr<Schema>) -> RefOr<Schema> {
    let is_null = |item: &RefOr<Schema>| match item {
        RefOr::T(Schema::Object(object)) => object.schema_type == SchemaType::from(Type::Null),
        RefOr::T(_) | RefOr::Ref(_) => false,
    };
    match schema {
        RefOr::T(Schema::OneOf(mut one_of)) if one_of.items.len() == 2 => {
            one_of.items.retain(|item| !is_null(item));
            one_of.items.swap_remove(0)
        }
        RefOr::T(_) | RefOr::Ref(_) => schema,
    }
}

const KEY_REUSED: KnownProblem = KnownProblem::new(
    StatusCode::UNPROCESSABLE_ENTITY,
    "idempotency_key_reused",
    "This `Idempotency-Key` was used for another call, or with another body",
);
const IN_PROGRESS: KnownProblem = KnownProblem::conflict(
    "idempotency_in_progress",
    "A call with this `Idempotency-Key` is being carried out",
)
.passing();

impl Described for Once {
    fn describe(operation: &mut Operation) {
        let schema = ObjectBuilder::new()
            .schema_type(Type::String)
            .pattern(Some("^[!-~]{1,255}$"));
        let parameter = ParameterBuilder::new()
            .name("Idempotency-Key")
            .parameter_in(ParameterIn::Header)
            .required(Required::False)
            .description(Some(
                "The same call sent again under the same key is carried out once and answered the \
                 same. 1 to 255 visible ASCII characters of the caller's choice.",
            ))
            .schema(Some(schema));
        operation.add_parameter(parameter.build());
        operation.set_repeatable();
        let unavailable = KnownProblem::UNAVAILABLE;
        operation.add_problems(&[INVALID_REQUEST, KEY_REUSED, IN_PROGRESS, unavailable]);
    }
}

macro_rules! tuples {
    ($(($($argument:ident),*))+) => {
        $(
            impl<$($argument: Described),*> Described for ($($argument,)*) {
                fn describe(_operation: &mut Operation) {
                    $($argument::describe(_operation);)*
                }
            }
        )+
    };
}

tuples! {
    ()
    (A)
    (A, B)
    (A, B, C)
    (A, B, C, D)
    (A, B, C, D, E)
    (A, B, C, D, E, F)
    (A, B, C, D, E, F, G)
}
