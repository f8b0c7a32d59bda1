//! `luckybag partitions`.

use std::time::Duration;

use luckybag::{
    app::{self, AppError, PartitionsChange},
    settings::Settings,
};

/// To how many partitions.
#[derive(Debug, clap::Args)]
pub(crate) struct PartitionsArgs {
    /// The new number, 1 to 64.
    #[arg(value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    to: u16,

    /// How long what still waits in the stream may take.
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    wait: u64,
}

impl PartitionsArgs {
    /// Does it, and answers what to print.
    pub(super) async fn run(self, settings: Settings) -> Result<String, AppError> {
        let patience = Duration::from_secs(self.wait);
        let PartitionsChange { from, to } =
            Box::pin(app::change_partitions(settings, self.to, patience)).await?;
        Ok(if from == to {
            format!("the stream has {to} partitions already; nothing was changed")
        } else {
            format!(
                "the stream had {from} partitions and has {to} now; set stream.partitions to {to} \
                 for every process before it starts"
            )
        })
    }
}
