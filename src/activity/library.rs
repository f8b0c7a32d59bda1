//! The `prize` table: the library that operators keep, and the private prizes of single activities.

use std::collections::HashMap;

use sea_orm::{ConnectionTrait, DbErr, FromQueryResult, Value};
use serde::Serialize;
use utoipa::ToSchema;

use super::{PrizeKind, check, form::LibraryPrizeForm};
use crate::{
    http::{Field, FieldErrors},
    infra::mysql::{placeholders, sql},
    kernel::{ActivityId, PrizeId},
};

/// A prize of the library with its stock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct LibraryPrize {
    pub id: PrizeId,
    pub name: String,
    pub kind: PrizeKind,
    #[schema(required)]
    pub image: Option<String>,
    #[schema(required)]
    pub value_cents: Option<u64>,
    /// `None` is unlimited.
    #[schema(required)]
    pub stock_total: Option<u64>,
    /// Promised by activities that are open.
    pub reserved: u64,
    /// Won.
    pub issued: u64,
}

/// What is kept about a prize besides its stock's movements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PrizeDraft {
    pub(super) name: String,
    pub(super) kind: PrizeKind,
    pub(super) image: Option<String>,
    pub(super) value_cents: Option<u64>,
    pub(super) stock_total: Option<u64>,
}

/// The prize that `form` asks for, based on an existing one when that is changed, or every fault.
pub(super) fn validate(
    form: &LibraryPrizeForm,
    base: Option<&LibraryPrize>,
) -> Result<PrizeDraft, FieldErrors> {
    let mut errors = FieldErrors::new();
    form.unknown.refuse(str::to_owned, &mut errors);
    let name = match base {
        Some(base) if !form.name.is_given() => Some(base.name.clone()),
        Some(_) | None => {
            let name = form.name.required("name", &mut errors);
            check::line(name, "name", check::TITLE_MAX_CHARS, &mut errors)
        }
    };
    let kind = match base {
        Some(base) if !form.kind.is_given() => Some(base.kind),
        Some(_) | None => {
            let word = form.kind.required("kind", &mut errors);
            check::prize_kind(word, "kind", &mut errors)
        }
    };
    let image = if form.image.is_given() {
        let image = form.image.read("image", &mut errors);
        check::line(image, "image", check::IMAGE_MAX_CHARS, &mut errors)
    } else {
        base.and_then(|base| base.image.clone())
    };
    let value_cents = if form.value_cents.is_given() {
        amount(&form.value_cents, "valueCents", &mut errors)
    } else {
        base.and_then(|base| base.value_cents)
    };
    let stock_total = stock_total(form, base, &mut errors);
    match (name, kind) {
        (Some(name), Some(kind)) if errors.is_empty() => Ok(PrizeDraft {
            name,
            kind,
            image,
            value_cents,
            stock_total,
        }),
        (Some(_) | None, Some(_) | None) => Err(errors),
    }
}

/// A number that still fits JavaScript's.
fn amount(field: &Field, name: &str, errors: &mut FieldErrors) -> Option<u64> {
    const LARGEST: u64 = (1 << 53) - 1;
    let number = field.read(name, errors);
    check::within(number, 0..=LARGEST, name, errors)
}

fn stock_total(
    form: &LibraryPrizeForm,
    base: Option<&LibraryPrize>,
    errors: &mut FieldErrors,
) -> Option<u64> {
    if !form.stock_total.is_given() {
        return base.and_then(|base| base.stock_total);
    }
    let total = amount(&form.stock_total, "stockTotal", errors)?;
    let used = base.map_or(0, |base| base.reserved + base.issued);
    if total < used {
        let message = format!("{used} of them are reserved or won already");
        errors.add("stockTotal", message);
    }
    Some(total)
}

#[derive(FromQueryResult)]
struct Row {
    id: PrizeId,
    name: String,
    kind: String,
    image: Option<String>,
    value_cents: Option<u64>,
    stock_total: Option<u64>,
    reserved: u64,
    issued: u64,
}

impl TryFrom<Row> for LibraryPrize {
    type Error = DbErr;

    fn try_from(row: Row) -> Result<Self, DbErr> {
        let kind = PrizeKind::parse(&row.kind).ok_or_else(|| {
            DbErr::Type(format!("column kind of prize {} makes no sense", row.id))
        })?;
        Ok(Self {
            id: row.id,
            name: row.name,
            kind,
            image: row.image,
            value_cents: row.value_cents,
            stock_total: row.stock_total,
            reserved: row.reserved,
            issued: row.issued,
        })
    }
}

async fn select(
    conn: &impl ConnectionTrait,
    condition: &str,
    values: Vec<Value>,
) -> Result<Vec<LibraryPrize>, DbErr> {
    let text = format!(
        "SELECT id, name, kind, image, value_cents, stock_total, reserved, issued FROM prize \
         WHERE is_private = FALSE AND {condition}"
    );
    let rows = Row::find_by_statement(sql(text, values)).all(conn).await?;
    rows.into_iter().map(LibraryPrize::try_from).collect()
}

/// Those of the given prizes that are in the library.
pub(super) async fn find_all(
    conn: &impl ConnectionTrait,
    ids: &[PrizeId],
) -> Result<HashMap<PrizeId, LibraryPrize>, DbErr> {
    if ids.is_empty() {
        return Ok(HashMap::new());
    }
    let condition = format!("id IN {}", placeholders(1, ids.len()));
    let values = ids.iter().map(|id| (*id).into()).collect();
    let prizes = select(conn, &condition, values).await?;
    Ok(prizes.into_iter().map(|prize| (prize.id, prize)).collect())
}

/// One prize of the library, locked.
pub(super) async fn find_for_update(
    conn: &impl ConnectionTrait,
    id: PrizeId,
) -> Result<Option<LibraryPrize>, DbErr> {
    let found = select(conn, "id = ? FOR UPDATE", vec![id.into()]).await?;
    Ok(found.into_iter().next())
}

/// The library, newest first, older than `before`.
pub(super) async fn list(
    conn: &impl ConnectionTrait,
    before: Option<PrizeId>,
    limit: u64,
) -> Result<Vec<LibraryPrize>, DbErr> {
    let before = before.map_or(u64::MAX, |id| id.0);
    let condition = "id < ? ORDER BY id DESC LIMIT ?";
    select(conn, condition, vec![before.into(), limit.into()]).await
}

/// Whom a new prize is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ownership {
    Library,
    OneActivity,
}

pub(super) async fn insert(
    tx: &impl ConnectionTrait,
    id: PrizeId,
    prize: &PrizeDraft,
    ownership: Ownership,
) -> Result<(), DbErr> {
    let is_private = match ownership {
        Ownership::Library => false,
        Ownership::OneActivity => true,
    };
    tx.execute_raw(sql(
        "INSERT INTO prize (id, name, kind, image, value_cents, is_private, stock_total, \
         created_at, updated_at) VALUES (?, ?, ?, ?, ?, ?, ?, NOW(3), NOW(3))",
        [
            id.into(),
            prize.name.as_str().into(),
            prize.kind.as_str().into(),
            prize.image.clone().into(),
            prize.value_cents.into(),
            is_private.into(),
            prize.stock_total.into(),
        ],
    ))
    .await
    .map(|_| ())
}

/// Rewrites a prize whose row the caller has locked.
pub(super) async fn update(
    tx: &impl ConnectionTrait,
    id: PrizeId,
    prize: &PrizeDraft,
) -> Result<(), DbErr> {
    tx.execute_raw(sql(
        "UPDATE prize SET name = ?, kind = ?, image = ?, value_cents = ?, stock_total = ?, \
         updated_at = NOW(3) WHERE id = ?",
        [
            prize.name.as_str().into(),
            prize.kind.as_str().into(),
            prize.image.clone().into(),
            prize.value_cents.into(),
            prize.stock_total.into(),
            id.into(),
        ],
    ))
    .await
    .map(|_| ())
}

/// Removes the private prizes of a draft, to be replaced.
pub(super) async fn delete_private(
    tx: &impl ConnectionTrait,
    activity_id: ActivityId,
) -> Result<(), DbErr> {
    tx.execute_raw(sql(
        "DELETE FROM prize WHERE is_private = TRUE \
         AND id IN (SELECT prize_id FROM activity_prize WHERE activity_id = ?)",
        [activity_id.into()],
    ))
    .await
    .map(|_| ())
}
