//! The body of an answer `202`.

use serde::Serialize;
use utoipa::ToSchema;

/// It was taken and will be carried out.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
pub struct Accepted {
    #[schema(value_type = String, pattern = "^accepted$")]
    status: &'static str,
}

impl Accepted {
    pub const NEW: Self = Self { status: "accepted" };
}
