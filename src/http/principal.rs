//! Who calls, and rights to act as values: a handler that takes an [`Operator`] has one.
//!
//! A handler takes the right first: of several faulty arguments the first one is answered.

use actix_web::{FromRequest, HttpRequest, dev::Payload};
use futures_util::{FutureExt, future::LocalBoxFuture};

use super::{auth::Auth, limits::RateLimits, problem::Problem};
use crate::kernel::{RoomId, Timestamp, UserId};

/// What a token may say about its bearer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// Joins and looks.
    Viewer,
    /// Runs the activities of its own rooms.
    Host,
    /// Runs everything.
    Operator,
    /// Another system, which reports events.
    Service,
}

impl Role {
    pub const ALL: [Self; 4] = [Self::Viewer, Self::Host, Self::Operator, Self::Service];

    /// The name in the claim `roles`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Host => "host",
            Self::Operator => "operator",
            Self::Service => "service",
        }
    }

    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.name() == name)
    }
}

/// The bearer of a token that was verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    user_id: UserId,
    roles: Vec<Role>,
    rooms: Vec<RoomId>,
    believed_until: Timestamp,
}

impl Principal {
    /// Only the verification of a token makes one.
    pub(super) fn verified(
        user_id: UserId,
        roles: Vec<Role>,
        rooms: Vec<RoomId>,
        believed_until: Timestamp,
    ) -> Self {
        Self {
            user_id,
            roles,
            rooms,
            believed_until,
        }
    }

    /// From when on the token is refused; what lasts longer than one answer ends then.
    pub fn believed_until(&self) -> Timestamp {
        self.believed_until
    }

    pub fn user_id(&self) -> UserId {
        self.user_id
    }

    pub fn roles(&self) -> &[Role] {
        &self.roles
    }

    pub fn rooms(&self) -> &[RoomId] {
        &self.rooms
    }

    pub fn has_role(&self, role: Role) -> bool {
        self.roles.contains(&role)
    }

    /// Whether the bearer runs what happens in `room`: its host, or an operator.
    pub fn runs(&self, room: RoomId) -> bool {
        self.has_role(Role::Operator) || (self.has_role(Role::Host) && self.rooms.contains(&room))
    }
}

/// The right to look and to join: anybody with a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Viewer(Principal);

/// The right to run activities: an operator everywhere, a host in its own rooms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostOrOperator(Principal);

/// The right to run everything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operator(Principal);

/// The right of another system to report what happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service(Principal);

impl HostOrOperator {
    /// Refuses a host whose token does not name `room`.
    pub fn may_act_in(&self, room: RoomId) -> Result<(), Problem> {
        if self.0.runs(room) {
            Ok(())
        } else {
            Err(Problem::forbidden("a host acts in its own rooms only"))
        }
    }

    pub fn is_operator(&self) -> bool {
        self.0.has_role(Role::Operator)
    }
}

macro_rules! right {
    ($right:ident, $may:expr, $needed:literal) => {
        impl $right {
            pub fn user_id(&self) -> UserId {
                self.0.user_id
            }

            pub fn principal(&self) -> &Principal {
                &self.0
            }
        }

        impl FromRequest for $right {
            type Error = Problem;
            type Future = LocalBoxFuture<'static, Result<Self, Problem>>;

            fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
                let may: fn(&Principal) -> bool = $may;
                let verified = Auth::of_request(request);
                let limits = RateLimits::of_request(request);
                async move {
                    let caller = RateLimits::admit(limits.as_deref(), verified.await?)?;
                    if may(&caller) {
                        Ok(Self(caller))
                    } else {
                        Err(Problem::forbidden(concat!("this needs the role ", $needed)))
                    }
                }
                .boxed_local()
            }
        }
    };
}

right!(Viewer, |_| true, "viewer");
right!(
    HostOrOperator,
    |principal| principal.has_role(Role::Host) || principal.has_role(Role::Operator),
    "host or operator"
);
right!(
    Operator,
    |principal| principal.has_role(Role::Operator),
    "operator"
);
right!(
    Service,
    |principal| principal.has_role(Role::Service),
    "service"
);
