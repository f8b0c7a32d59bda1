//! The stock of prizes: reserved at the opening, settled at the draw or the cancellation.

use std::collections::BTreeMap;

use sea_orm::{ConnectionTrait, DbErr, FromQueryResult};

use super::{ActivityError, ActivityPrize, ActivityService, error::db_error};
use crate::{
    infra::mysql::{sql, within_limit},
    kernel::PrizeId,
};

/// Reserves what an activity needs, prize by prize in the order of their ids; answers the prizes of
/// which there is not enough. The caller rolls back when there is any.
pub(super) async fn reserve<'a>(
    tx: &impl ConnectionTrait,
    prizes: &'a [ActivityPrize],
) -> Result<Vec<&'a ActivityPrize>, DbErr> {
    let mut by_id: Vec<&ActivityPrize> = prizes.iter().collect();
    by_id.sort_by_key(|prize| prize.prize_id);
    let mut short = Vec::new();
    for prize in by_id {
        let result = tx
            .execute_raw(sql(
                "UPDATE prize SET reserved = reserved + ?, updated_at = NOW(3) WHERE id = ? \
                 AND (stock_total IS NULL OR reserved + issued + ? <= stock_total)",
                [
                    prize.quantity.into(),
                    prize.prize_id.into(),
                    prize.quantity.into(),
                ],
            ))
            .await?;
        if result.rows_affected() == 0 {
            short.push(prize);
        }
    }
    Ok(short)
}

/// Gives reserved stock back and counts what was handed out, prize by prize in the order of their
/// ids: (prize, taken off what is reserved, added to what is issued).
pub async fn settle_stock(
    tx: &impl ConnectionTrait,
    changes: &[(PrizeId, u32, u32)],
) -> Result<(), DbErr> {
    let mut by_id = changes.to_vec();
    by_id.sort_by_key(|change| change.0);
    for (prize_id, reserved_back, issued) in by_id {
        let settled = sql(
            "UPDATE prize SET reserved = reserved - ?, issued = issued + ?, updated_at = NOW(3) \
             WHERE id = ?",
            [reserved_back.into(), issued.into(), prize_id.into()],
        );
        if tx.execute_raw(settled).await?.rows_affected() == 0 {
            return Err(DbErr::RecordNotFound(format!("prize {prize_id}")));
        }
    }
    Ok(())
}

/// Takes pieces that were handed out back into the stock, prize by prize in the order of their ids.
pub async fn take_back_stock(
    tx: &impl ConnectionTrait,
    pieces: &BTreeMap<PrizeId, u32>,
) -> Result<(), DbErr> {
    for (prize_id, count) in pieces {
        // Never below zero, even if the counts were tampered with: that must not keep a win from
        // being revoked.
        let taken_back = sql(
            "UPDATE prize SET issued = GREATEST(issued, ?) - ?, updated_at = NOW(3) WHERE id = ?",
            [(*count).into(), (*count).into(), (*prize_id).into()],
        );
        if tx.execute_raw(taken_back).await?.rows_affected() == 0 {
            return Err(DbErr::RecordNotFound(format!("prize {prize_id}")));
        }
    }
    Ok(())
}

#[derive(FromQueryResult)]
struct PrizeRow {
    id: PrizeId,
}

impl ActivityService {
    /// Prizes of which not what the running activities need is reserved, or more is given away than
    /// there is: for the alarm.
    pub async fn list_wrong_stock(&self) -> Result<Vec<PrizeId>, ActivityError> {
        const SHOWN: u32 = 20;
        // One statement sees all rows as of one moment.
        let look = PrizeRow::find_by_statement(sql(
            "SELECT prize.id FROM prize LEFT JOIN ( \
                 SELECT prize_id, SUM(quantity) AS needed FROM activity_prize \
                 JOIN activity ON activity.id = activity_prize.activity_id \
                 WHERE activity.status IN ('open', 'drawing') GROUP BY prize_id \
             ) AS running ON running.prize_id = prize.id \
             WHERE prize.reserved <> COALESCE(running.needed, 0) \
             OR prize.reserved + prize.issued > prize.stock_total \
             ORDER BY prize.id LIMIT ?",
            [SHOWN.into()],
        ))
        .all(&self.inner.db);
        let rows = within_limit(look)
            .await
            .map_err(db_error("check the stock"))?;
        Ok(rows.into_iter().map(|row| row.id).collect())
    }
}
