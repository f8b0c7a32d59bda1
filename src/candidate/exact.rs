//! The exact path: selection from the rows in `MySQL` alone. The reference for the fast one.

use sea_orm::{ConnectionTrait, DbErr};

use super::{
    BestOf, CandidateError, CandidateService, Eligibility, Rules, Selection, SelectionPath,
    Standing, UserRows,
    store::{self, PageOf},
};
use crate::{
    activity::Activity,
    kernel::{ActivityId, UserId},
};

/// Rows of one read.
const PAGE: u64 = 5_000;

impl CandidateService {
    /// The best `count` eligible participants, from the rows in `MySQL` alone.
    pub async fn select_exact(
        &self,
        activity: &Activity,
        count: u32,
    ) -> Result<Selection, CandidateError> {
        let rules = rules_of(activity)?;
        let mut best = BestOf::new(usize::try_from(count).unwrap_or(usize::MAX));
        let mut joined_count = 0;
        scan(self.db(), activity.id, PageOf::Joined, |user_id, rows| {
            joined_count += 1;
            if rules.eligibility(rows) == Some(Eligibility::Eligible) {
                best.push(Standing::of(&rules.seed, user_id));
            }
        })
        .await
        .map_err(CandidateError::database(
            "scan the participations",
            activity.id,
        ))?;
        Ok(Selection {
            joined_count,
            eligible_count: best.seen_count(),
            ranked: best.into_ranked(),
            path: SelectionPath::Exact,
        })
    }

    /// How many trimmed participants are eligible, which the pool cannot tell.
    pub(super) async fn count_eligible_trimmed(
        &self,
        activity: &Activity,
        rules: &Rules,
    ) -> Result<u64, CandidateError> {
        let mut eligible_count = 0;
        scan(self.db(), activity.id, PageOf::Trimmed, |_, rows| {
            if rules.eligibility(rows) == Some(Eligibility::Eligible) {
                eligible_count += 1;
            }
        })
        .await
        .map_err(CandidateError::database("count the trimmed", activity.id))?;
        Ok(eligible_count)
    }
}

/// The rules of an activity that has been opened.
pub(super) fn rules_of(activity: &Activity) -> Result<Rules, CandidateError> {
    Rules::of(activity).ok_or(CandidateError::NotOpened(activity.id))
}

/// Shows every participation to `see`, in the order of the user ids.
pub(super) async fn scan(
    conn: &impl ConnectionTrait,
    activity_id: ActivityId,
    page_of: PageOf,
    mut see: impl FnMut(UserId, &UserRows),
) -> Result<(), DbErr> {
    let mut after = UserId(0);
    loop {
        let page = store::list_page(conn, activity_id, page_of, after, PAGE).await?;
        let Some((last, _)) = page.last() else {
            return Ok(());
        };
        after = *last;
        for (user_id, rows) in &page {
            see(*user_id, rows);
        }
    }
}
