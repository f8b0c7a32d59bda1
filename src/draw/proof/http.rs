//! `GET …/proof` and `GET …/proof/me`.

use actix_web::{
    HttpResponse,
    http::StatusCode,
    web::{Data, Json},
};
use serde_json::Value;

use super::{
    super::http::ACTIVITY_CANCELLED,
    ProofService,
    document::{EntryProof, Proof},
};
use crate::{
    activity::ACTIVITY_NOT_FOUND,
    http::{Endpoint, KnownProblem, Operation, PathId, Problem, Routes, Tag, Viewer},
    kernel::ActivityId,
};

/// The routes of this module.
pub(in crate::draw) fn routes(routes: &mut Routes) {
    routes
        .service(Endpoint::new("/v1/activities/{activityId}/proof").get(proof, proof_operation()))
        .service(
            Endpoint::new("/v1/activities/{activityId}/proof/me").get(entry, entry_operation()),
        );
}

const OF_PROOFS: [KnownProblem; 4] = [
    ACTIVITY_NOT_FOUND,
    ACTIVITY_CANCELLED,
    KnownProblem::conflict(
        "proof_pending",
        "The proof is published shortly after the draw",
    )
    .passing(),
    KnownProblem::UNAVAILABLE,
];

const EXPIRED: KnownProblem = KnownProblem::gone(
    "proof_expired",
    "The entries were removed at the end of their life",
);

fn proof_operation() -> Operation {
    Operation::new(
        Tag::Results,
        "getProof",
        "Shows everything that is needed to check the result",
    )
    .description("`luckybag verify` checks it; how is described in docs/proof.md.")
    .answer::<Proof>(
        StatusCode::OK,
        "The proof.",
        example(include_str!("../../../docs/examples/proof.json")),
    )
    .problems(&OF_PROOFS)
    .problems(&[EXPIRED])
}

fn entry_operation() -> Operation {
    Operation::new(
        Tag::Results,
        "getMyEntry",
        "Shows the caller's own entry in the proof",
    )
    .answer::<EntryProof>(
        StatusCode::OK,
        "What the entry says, and how it leads to the root.",
        example(include_str!("../../../docs/examples/entry.json")),
    )
    .problems(&OF_PROOFS)
    .problems(&[
        EXPIRED,
        KnownProblem::not_found("no_entry", "The caller has no entry in the activity"),
    ])
}

fn example(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_default()
}

/// Everything that anybody needs to check the result.
async fn proof(
    _viewer: Viewer,
    PathId(id): PathId<ActivityId>,
    proofs: Data<ProofService>,
) -> Result<HttpResponse, Problem> {
    let json = proofs.proof(id).await?;
    Ok(HttpResponse::Ok()
        .content_type("application/json")
        .body(json))
}

/// The caller's own entry.
async fn entry(
    viewer: Viewer,
    PathId(id): PathId<ActivityId>,
    proofs: Data<ProofService>,
) -> Result<Json<EntryProof>, Problem> {
    Ok(Json(proofs.entry(id, viewer.user_id()).await?))
}
