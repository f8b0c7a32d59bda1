//! The exact path: selection from the rows in `MySQL` alone. The reference for the fast one.

use std::collections::HashSet;

use sea_orm::{ConnectionTrait, DbErr};

use super::{
    BestOf, CandidateError, CandidateService, Eligibility, Rules, Selection, SelectionPath,
    Standing, UserRows,
    store::{self, Lock, PageOf},
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
        self.select_exact_without(activity, count, &HashSet::new())
            .await
    }

    /// The same among those who are not `left_out`: what a redraw chooses from.
    pub async fn select_exact_without(
        &self,
        activity: &Activity,
        count: u32,
        left_out: &HashSet<UserId>,
    ) -> Result<Selection, CandidateError> {
        let rules = rules_of(activity)?;
        let mut best = BestOf::new(usize::try_from(count).unwrap_or(usize::MAX));
        let mut joined_count = 0;
        scan(self.db(), activity.id, PageOf::Joined, |user_id, rows| {
            joined_count += 1;
            let is_eligible = rules.eligibility(rows) == Some(Eligibility::Eligible);
            if is_eligible && !left_out.contains(&user_id) {
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

/// Which of these users are eligible in a frozen activity. Their participations stay locked, so that
/// none of them is removed before the caller's transaction ends.
pub async fn lock_eligible(
    tx: &impl ConnectionTrait,
    activity: &Activity,
    users: &[UserId],
) -> Result<HashSet<UserId>, DbErr> {
    if users.is_empty() {
        return Ok(HashSet::new());
    }
    let rules = rules_of(activity).map_err(|error| DbErr::Custom(error.to_string()))?;
    let rows = store::read_rows(tx, activity.id, users, Lock::ForUpdate).await?;
    let eligible = rows
        .into_iter()
        .filter(|(_, rows)| rules.eligibility(rows) == Some(Eligibility::Eligible));
    Ok(eligible.map(|(user_id, _)| user_id).collect())
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
