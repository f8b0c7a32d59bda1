//! The `device_claim` table.

use std::collections::BTreeMap;

use sea_orm::{ConnectionTrait, DbErr, FromQueryResult};

use super::{IN_VALUES, INSERT_ROWS, in_list};
use crate::{
    infra::mysql::{placeholders, sql},
    kernel::{ActivityId, UserId},
};

/// The one entry of a device and who holds it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, FromQueryResult)]
pub(in crate::candidate) struct DeviceClaim {
    pub(in crate::candidate) device_id: String,
    pub(in crate::candidate) user_id: UserId,
}

/// Who holds the entries of the devices, locked.
pub(in crate::candidate) async fn list_device_holders_for_update(
    conn: &impl ConnectionTrait,
    activity_id: ActivityId,
    devices: &[String],
) -> Result<BTreeMap<String, UserId>, DbErr> {
    let mut holders = BTreeMap::new();
    for chunk in devices.chunks(IN_VALUES) {
        let mut values = vec![activity_id.into()];
        let list = in_list(chunk, &mut values);
        let text = format!(
            "SELECT device_id, user_id FROM device_claim \
             WHERE activity_id = ? AND device_id IN {list} ORDER BY device_id FOR UPDATE"
        );
        let found = DeviceClaim::find_by_statement(sql(text, values))
            .all(conn)
            .await?;
        holders.extend(
            found
                .into_iter()
                .map(|claim| (claim.device_id, claim.user_id)),
        );
    }
    Ok(holders)
}

/// Adds claims that were not there when they were read, sorted by device.
pub(in crate::candidate) async fn insert_device_claims(
    conn: &impl ConnectionTrait,
    activity_id: ActivityId,
    new: &[DeviceClaim],
) -> Result<(), DbErr> {
    for chunk in new.chunks(INSERT_ROWS) {
        let text = format!(
            "INSERT INTO device_claim (activity_id, device_id, user_id) VALUES {}",
            placeholders(chunk.len(), 3)
        );
        let values = chunk.iter().flat_map(|claim| {
            [
                activity_id.into(),
                claim.device_id.clone().into(),
                claim.user_id.into(),
            ]
        });
        conn.execute_raw(sql(text, values)).await?;
    }
    Ok(())
}
