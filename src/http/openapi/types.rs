//! Schemas of values that many bodies hold; they stand for fields whose Rust type says less.

use std::borrow::Cow;

use utoipa::{
    PartialSchema, ToSchema,
    openapi::{KnownFormat, ObjectBuilder, RefOr, Schema, SchemaFormat, Type, schema::SchemaType},
};

use crate::kernel::MAX_ID;

/// An id in a request: a string, or an integer.
#[derive(Clone, Copy, Debug)]
pub struct AnyId;

/// A point in time.
#[derive(Clone, Copy, Debug)]
pub struct Moment;

/// 32 bytes in hex.
#[derive(Clone, Copy, Debug)]
pub struct Hex32;

macro_rules! component {
    ($type:ident, $name:literal, $schema:expr) => {
        impl PartialSchema for $type {
            fn schema() -> RefOr<Schema> {
                RefOr::T(Schema::Object($schema.build()))
            }
        }

        impl ToSchema for $type {
            fn name() -> Cow<'static, str> {
                $name.into()
            }
        }
    };
}

component!(
    AnyId,
    "AnyId",
    ObjectBuilder::new()
        .schema_type(SchemaType::from_iter([Type::String, Type::Integer]))
        .pattern(Some("^[1-9][0-9]{0,18}$"))
        .minimum(Some(1))
        .maximum(Some(MAX_ID))
        .description(Some(
            "An id as a string or an integer. A string is safer: many languages round integers \
             above 2^53."
        ))
        .examples(["7265187412320780288"])
);

component!(
    Moment,
    "Timestamp",
    ObjectBuilder::new()
        .schema_type(Type::String)
        .format(Some(SchemaFormat::KnownFormat(KnownFormat::DateTime)))
        .description(Some(
            "RFC 3339; answers have it in UTC with milliseconds, requests may have any offset."
        ))
        .examples(["2026-01-31T20:00:00.000Z"])
);

component!(
    Hex32,
    "Hex32",
    ObjectBuilder::new()
        .schema_type(Type::String)
        .pattern(Some("^[0-9a-f]{64}$"))
        .description(Some("32 bytes as 64 lower-case hex digits."))
        .examples(["5f70bf18a086007016e948b04aed3b82103a36bea41755b6cddfaf10ace3c6ef"])
);
