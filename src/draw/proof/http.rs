//! `GET …/proof` and `GET …/proof/me`.

use actix_web::{
    HttpResponse,
    web::{Data, Json, ServiceConfig},
};

use super::{ProofService, document::EntryProof};
use crate::{
    http::{Endpoint, PathId, Problem, Viewer},
    kernel::ActivityId,
};

/// The routes of this module.
pub(in crate::draw) fn routes(config: &mut ServiceConfig) {
    config
        .service(Endpoint::new("/v1/activities/{activityId}/proof").get(proof))
        .service(Endpoint::new("/v1/activities/{activityId}/proof/me").get(entry));
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
