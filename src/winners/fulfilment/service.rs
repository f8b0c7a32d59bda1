//! Takes reports of the system that hands prizes over.

use std::collections::HashMap;

use sea_orm::TransactionTrait;
use serde::Serialize;
use serde_json::json;
use utoipa::ToSchema;

use super::{
    super::{WinStatus, WinnerService, changes},
    Fulfilment, FulfilmentError, FulfilmentState,
    state::Report,
};
use crate::{
    activity::{Actor, audit},
    infra::{
        idempotency,
        mysql::{TransactionRetry, read_in_turn},
        outbox::Entry,
    },
    kernel::{ActivityId, UserId, WinRecordId},
    telemetry::metrics,
};

/// One report about a prize.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NewReport {
    pub(super) state: FulfilmentState,
    pub(super) reference: Option<String>,
}

/// Where a prize is after a report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Fulfilled {
    pub(super) win_record_id: WinRecordId,
    pub(super) activity_id: ActivityId,
    pub(super) user_id: UserId,
    #[serde(flatten)]
    pub(super) fulfilment: Fulfilment,
}

impl WinnerService {
    /// Takes a report; the same again changes nothing and gets the same answer.
    pub(super) async fn fulfil(
        &self,
        id: WinRecordId,
        report: &NewReport,
        actor: &Actor,
    ) -> Result<Fulfilled, FulfilmentError> {
        let mut retry = TransactionRetry::new();
        loop {
            match self.try_fulfil(id, report, actor).await {
                Err(FulfilmentError::Database { action, source }) => {
                    if !retry.again(&source).await {
                        return Err(FulfilmentError::Database { action, source });
                    }
                    metrics::db_retries();
                }
                outcome => return outcome,
            }
        }
    }

    async fn try_fulfil(
        &self,
        id: WinRecordId,
        report: &NewReport,
        actor: &Actor,
    ) -> Result<Fulfilled, FulfilmentError> {
        let tx = self.shared.deps.db.begin().await?;
        let held = changes::find_handed_out_for_update(&tx, id)
            .await?
            .ok_or(FulfilmentError::NotFound(id))?;
        if held.status == WinStatus::Revoked {
            return Err(FulfilmentError::Revoked(id));
        }
        let known = held.fulfilment;
        let outcome = known
            .report(report.state, report.reference.as_deref())
            .map_err(|refusal| FulfilmentError::Illegal { id, refusal })?;
        let fulfilment = match outcome {
            Report::Repeated => known,
            Report::Moved(next) => {
                changes::move_fulfilment(&tx, id, known.state, &next).await?;
                let detail = json!({
                    "winRecordId": id,
                    "userId": held.user_id,
                    "from": known.state,
                    "to": next.state,
                    "reference": next.reference,
                });
                let entry = actor.did("win.fulfilment", held.activity_id, Some(detail));
                audit::record(&tx, &entry).await?;
                let copy = Entry::CopyWin {
                    activity_id: held.activity_id,
                    win_record_id: id,
                    change: next.state.as_str(),
                };
                self.shared.deps.outbox.append(&tx, &[copy]).await?;
                next
            }
        };
        let fulfilled = Fulfilled {
            win_record_id: id,
            activity_id: held.activity_id,
            user_id: held.user_id,
            fulfilment,
        };
        idempotency::settle(&tx, &fulfilled).await?;
        tx.commit().await?;
        self.shared.deps.outbox.wake();
        Ok(fulfilled)
    }

    /// How far the prizes of these wins are, from `MySQL`.
    pub(in crate::winners) async fn fulfilments(
        &self,
        ids: &[WinRecordId],
    ) -> Result<HashMap<WinRecordId, Fulfilment>, FulfilmentError> {
        let deps = &self.shared.deps;
        let read = changes::list_fulfilments(&deps.db, ids);
        Ok(read_in_turn(&deps.mysql_reads, read).await?)
    }
}
