//! The stock of prizes: reserved at the opening, settled at the draw or the cancellation.

use sea_orm::{ConnectionTrait, DbErr};

use super::ActivityPrize;
use crate::{infra::mysql::sql, kernel::PrizeId};

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
        tx.execute_raw(sql(
            "UPDATE prize SET reserved = reserved - ?, issued = issued + ?, updated_at = NOW(3) \
             WHERE id = ?",
            [reserved_back.into(), issued.into(), prize_id.into()],
        ))
        .await?;
    }
    Ok(())
}
