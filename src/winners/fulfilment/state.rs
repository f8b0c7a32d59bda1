//! The states of a fulfilment and which of them may follow which.

use serde::{Deserialize, Serialize};
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{ObjectBuilder, RefOr, Schema, Type},
};

/// Where a prize is on its way to its winner.
///
/// Pending ──▶ Claimed ──▶ Delivered
///    │  └─────────│────────────▲
///    └─────▶ Expired ◀─ from Pending or Claimed; Delivered and Expired are final
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum FulfilmentState {
    /// Nothing has been reported; not reported itself.
    #[serde(skip_deserializing)]
    Pending,
    /// The winner has asked for it, or an order is under way.
    Claimed,
    /// The winner has it.
    Delivered,
    /// The winner let its time pass.
    Expired,
}

// Derived, it would leave out what is only written.
impl PartialSchema for FulfilmentState {
    fn schema() -> RefOr<Schema> {
        let schema = ObjectBuilder::new()
            .schema_type(Type::String)
            .enum_values(Some(Self::ALL.map(Self::as_str)));
        Schema::Object(schema.build()).into()
    }
}

impl ToSchema for FulfilmentState {}

impl FulfilmentState {
    const ALL: [Self; 4] = [Self::Pending, Self::Claimed, Self::Delivered, Self::Expired];

    /// The stored word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Claimed => "claimed",
            Self::Delivered => "delivered",
            Self::Expired => "expired",
        }
    }

    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == word)
    }

    fn may_become(self, next: Self) -> bool {
        match self {
            Self::Pending => next != Self::Pending,
            Self::Claimed => matches!(next, Self::Delivered | Self::Expired),
            Self::Delivered | Self::Expired => false,
        }
    }
}

/// A state, and the reporting system's own word for it, such as an order number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Fulfilment {
    pub state: FulfilmentState,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub reference: Option<String>,
}

/// What a report makes of a fulfilment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Report {
    /// It said so already.
    Repeated,
    Moved(Fulfilment),
}

/// Why a report cannot be right.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IllegalFulfilment {
    #[error("a {} prize cannot become {}", .from.as_str(), .to.as_str())]
    Transition {
        from: FulfilmentState,
        to: FulfilmentState,
    },

    #[error("the prize is {} already, under another reference", .0.as_str())]
    OtherReference(FulfilmentState),
}

impl Fulfilment {
    /// Takes a report; without a reference the one that is known stays.
    pub(super) fn report(
        &self,
        state: FulfilmentState,
        reference: Option<&str>,
    ) -> Result<Report, IllegalFulfilment> {
        if state == self.state {
            let is_known = reference.is_none() || reference == self.reference.as_deref();
            return if is_known {
                Ok(Report::Repeated)
            } else {
                Err(IllegalFulfilment::OtherReference(state))
            };
        }
        if !self.state.may_become(state) {
            return Err(IllegalFulfilment::Transition {
                from: self.state,
                to: state,
            });
        }
        let reference = reference.or(self.reference.as_deref());
        Ok(Report::Moved(Self {
            state,
            reference: reference.map(ToOwned::to_owned),
        }))
    }
}

#[cfg(test)]
mod tests {
    use FulfilmentState::{Claimed, Delivered, Expired, Pending};

    use super::*;

    fn of(state: FulfilmentState, reference: Option<&str>) -> Fulfilment {
        Fulfilment {
            state,
            reference: reference.map(ToOwned::to_owned),
        }
    }

    #[test]
    fn a_prize_is_claimed_then_delivered_or_expires_before_that() {
        let allowed = [
            (Pending, Claimed),
            (Pending, Delivered),
            (Pending, Expired),
            (Claimed, Delivered),
            (Claimed, Expired),
        ];
        for from in FulfilmentState::ALL {
            for to in FulfilmentState::ALL.into_iter().filter(|to| *to != from) {
                let outcome = of(from, None).report(to, Some("7"));
                if allowed.contains(&(from, to)) {
                    assert_eq!(outcome, Ok(Report::Moved(of(to, Some("7")))));
                } else {
                    assert_eq!(outcome, Err(IllegalFulfilment::Transition { from, to }));
                }
            }
        }
    }

    #[test]
    fn a_repeat_is_known_by_its_reference() {
        let claimed = of(Claimed, Some("order 7"));

        assert_eq!(
            claimed.report(Claimed, Some("order 7")),
            Ok(Report::Repeated)
        );
        assert_eq!(claimed.report(Claimed, None), Ok(Report::Repeated));
        for (known, told) in [(claimed, "order 8"), (of(Claimed, None), "order 7")] {
            assert_eq!(
                known.report(Claimed, Some(told)),
                Err(IllegalFulfilment::OtherReference(Claimed))
            );
        }
    }

    #[test]
    fn a_reference_stays_until_another_is_told() {
        let claimed = of(Claimed, Some("order 7"));

        assert_eq!(
            claimed.report(Delivered, None),
            Ok(Report::Moved(of(Delivered, Some("order 7"))))
        );
        assert_eq!(
            claimed.report(Delivered, Some("parcel 9")),
            Ok(Report::Moved(of(Delivered, Some("parcel 9"))))
        );
    }

    #[test]
    fn nobody_reports_that_nothing_was_reported() {
        assert!(serde_json::from_str::<FulfilmentState>(r#""pending""#).is_err());
        for state in [Claimed, Delivered, Expired] {
            let word = format!(r#""{}""#, state.as_str());
            assert_eq!(
                serde_json::from_str::<FulfilmentState>(&word).ok(),
                Some(state)
            );
            assert_eq!(FulfilmentState::parse(state.as_str()), Some(state));
        }
    }
}
