//! What can go wrong between us and the broker.

use lapin::ErrorKind;

/// The reply code for a declaration that contradicts what exists.
const PRECONDITION_FAILED: u16 = 406;

/// Why a message was not, or may not have been, taken over by the broker.
#[derive(Debug, thiserror::Error)]
pub enum PublishError {
    /// There is no connection, or the broker takes nothing for now. The message was not sent.
    #[error("the broker is not reachable")]
    NotConnected,
    /// No confirm came in time. The message may be in the broker, or get there yet.
    #[error("the broker did not confirm in time")]
    TimedOut,
    /// No queue was there to take the message.
    #[error("the broker returned the message: no queue takes it")]
    Returned,
    /// The broker refused the message.
    #[error("the broker refused the message")]
    Nacked,
    /// The connection broke before the confirm. The message may be in the broker.
    #[error("the connection to the broker broke")]
    Connection(#[source] lapin::Error),
}

impl PublishError {
    /// Whether the message may have reached its queue all the same.
    pub fn is_outcome_unknown(&self) -> bool {
        match self {
            Self::TimedOut | Self::Connection(_) => true,
            Self::NotConnected | Self::Returned | Self::Nacked => false,
        }
    }
}

/// Why something other than a publish failed.
#[derive(Debug, thiserror::Error)]
pub enum BrokerError {
    /// The configured address is not an AMQP URI.
    #[error("the broker's address is not a valid AMQP URI: {0}")]
    InvalidUrl(String),
    /// There is no connection.
    #[error("the broker is not reachable")]
    NotConnected,
    /// The broker did not answer in time.
    #[error("the broker took too long to {0}")]
    TimedOut(&'static str),
    /// The broker or the connection answered with an error.
    #[error("the broker failed to {action}")]
    Failed {
        /// What was asked of it.
        action: &'static str,
        /// What it answered.
        source: lapin::Error,
    },
    /// An exchange or a queue cannot be declared; most often it exists with other arguments.
    #[error("cannot declare {name}")]
    Declare {
        /// The exchange or queue.
        name: String,
        /// What the broker answered.
        source: lapin::Error,
    },
    /// The consumer lost its queue or its channel.
    #[error("the broker ended the consumer")]
    ConsumerEnded,
    /// A message could not be sent on.
    #[error("cannot send a message on")]
    Publish(#[from] PublishError),
}

impl BrokerError {
    /// Whether an exchange or queue exists with arguments that are not ours, which only an
    /// operator can change.
    pub(super) fn is_conflict(&self) -> bool {
        match self {
            Self::Declare { source, .. } => matches!(
                source.kind(),
                ErrorKind::ProtocolError(error) if error.get_id() == PRECONDITION_FAILED
            ),
            Self::InvalidUrl(_)
            | Self::NotConnected
            | Self::TimedOut(_)
            | Self::Failed { .. }
            | Self::ConsumerEnded
            | Self::Publish(_) => false,
        }
    }
}
