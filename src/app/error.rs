//! Why a command of the process failed.

use std::{io, net::SocketAddr};

use sea_orm::DbErr;

use crate::{
    candidate::CandidateError,
    http::AuthError,
    infra::{broker::BrokerError, mysql::MigrateError},
    kernel::{ActivityId, UserId},
};

/// Why a command of the process failed.
#[derive(Debug, thiserror::Error)]
pub enum AppError {
    #[error("cannot listen for signals")]
    Signals(#[source] io::Error),

    #[error("cannot set up metrics")]
    Metrics(#[from] metrics_exporter_prometheus::BuildError),

    #[error("cannot write the OpenAPI document")]
    Document(#[source] serde_json::Error),

    #[error("cannot send traces to telemetry.otlp_endpoint: {0}")]
    Traces(String),

    #[error("cannot listen on {address}")]
    Bind {
        address: SocketAddr,
        #[source]
        source: io::Error,
    },

    #[error("the HTTP server failed")]
    Http(#[source] io::Error),

    #[error("mysql.url cannot be used")]
    MySqlUrl(#[source] DbErr),

    #[error("admin_database.url cannot be used")]
    AdminDatabaseUrl(#[source] DbErr),

    #[error("there is no admin database to copy to: set admin_database.url")]
    NoAdminDatabase,

    #[error("the admin database cannot be brought up to date")]
    MigrateAdmin(#[source] MigrateError),

    #[error("cannot queue the activities to be copied; run it again")]
    QueueCopies(#[source] DbErr),

    #[error("redis.url cannot be used")]
    RedisUrl(#[source] fred::error::Error),

    #[error("cannot check tokens")]
    Auth(#[from] AuthError),

    #[error("the schema cannot be brought up to date")]
    Migrate(#[from] MigrateError),

    #[error(
        "stream.partitions is {configured}, but this installation has {settled}: set that, or, to \
         change it, stop every process and run `luckybag partitions {configured}`"
    )]
    Partitions { configured: u16, settled: String },

    #[error("cannot read or change the number of partitions in MySQL")]
    ReadPartitions(#[source] DbErr),

    #[error(
        "this installation has no number of partitions yet: set stream.partitions and start it"
    )]
    NeverStarted,

    #[error("the number of partitions was changed to something else meanwhile")]
    PartitionsTaken,

    #[error(
        "queue {queue} is being consumed: stop every process first, and wait for the broker to notice"
    )]
    StillRunning { queue: String },

    #[error(
        "what waits in the stream could not be handled in {patience_secs} s, see the log; the number \
         of partitions was not changed"
    )]
    NotDrained { patience_secs: u64 },

    #[error("queue {queue} is being filled")]
    StillSending { queue: String },

    #[error(
        "the stream has {to} partitions now, but the old queues are not cleared up: stop every process, \
         then run `luckybag partitions {from}` and `luckybag partitions {to}`"
    )]
    PartitionsLeft {
        from: u16,
        to: u16,
        #[source]
        cause: Box<AppError>,
    },

    #[error("a background task ended by itself; see the log above")]
    TaskEnded,

    #[error("the time to stop ran out before all work in hand was finished")]
    StoppedInTheMiddle,

    #[error("{server} does not answer, not even within {patience_secs} s")]
    Away {
        server: &'static str,
        patience_secs: u64,
    },

    #[error("another process is rebuilding the pool of activity {0} now")]
    RebuildUnderWay(ActivityId),

    #[error(transparent)]
    Candidate(#[from] CandidateError),

    #[error("cannot look at the dead letters")]
    DeadLetters(#[from] BrokerError),

    #[error("cannot look at the stream")]
    Stream(#[source] BrokerError),

    #[error("cannot read or erase a user's data in MySQL")]
    UserData(#[source] DbErr),

    #[error("cannot erase a user's data in Redis; run it again")]
    UserInRedis(#[source] fred::error::Error),

    #[error(
        "user {user_id} takes part in activities that run or whose proof is not published yet: {}; \
         erase the user once that is over",
        listed(.activities)
    )]
    UserNeeded {
        user_id: UserId,
        activities: Vec<ActivityId>,
    },

    #[error("the demo failed: {0}")]
    Demo(String),
}

fn listed(ids: &[ActivityId]) -> String {
    let ids: Vec<String> = ids.iter().map(ToString::to_string).collect();
    ids.join(", ")
}
