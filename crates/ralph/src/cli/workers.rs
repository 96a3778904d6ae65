//! The command lines of worker hosts and of workers on other machines.
//!
//! Not here: what they do.

use std::path::PathBuf;

use clap::Args;
use ralph_model::attempt_label::AttemptLabel;
use ralph_model::units::Millis;

use crate::settings::types::quantity::DurationSetting;

/// Options of `__workers`.
#[derive(Debug, Args)]
pub(crate) struct WorkerHostArgs {
    /// The directory that the workers of the run share.
    #[arg(required_unless_present = "git")]
    pub(crate) shared: Option<PathBuf>,
    /// How many gates run at the same time.
    #[arg(long, default_value_t = 1)]
    pub(crate) gate_slots: u32,
    /// The settings file of the run.
    #[arg(long)]
    pub(crate) config: Option<PathBuf>,
    /// Pass jobs to other machines over the git remote.
    #[arg(long, requires = "start")]
    pub(crate) git: bool,
    #[command(flatten)]
    pub(crate) over_git: GitHostArgs,
}

/// Options of `__workers --git`.
#[derive(Debug, Args)]
pub(crate) struct GitHostArgs {
    /// The command that starts a worker somewhere; {} is the ref of its job.
    #[arg(long, value_name = "COMMAND")]
    pub(crate) start: Option<String>,
    /// The command that tells the service behind it that a job is not needed any more.
    #[arg(long, value_name = "COMMAND")]
    pub(crate) cancel: Option<String>,
    /// The start command runs as long as the job does.
    #[arg(long)]
    pub(crate) attached: bool,
    /// How often the remote is asked for results.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = parse_duration)]
    pub(crate) poll: Millis,
    /// A job without a result and without a sign of life for so long is started again.
    #[arg(long, value_name = "DURATION", default_value = "6h", value_parser = parse_duration)]
    pub(crate) lost_after: Millis,
    /// How long a push is tried again while the remote does not work.
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = parse_duration)]
    pub(crate) patience: Millis,
    /// The remote: a name or an address.
    #[arg(long, value_name = "REMOTE")]
    pub(crate) remote: Option<String>,
    /// Where ralph's refs are on the remote.
    #[arg(long, value_name = "PREFIX", default_value = ralph_io::git::REF_PREFIX)]
    pub(crate) ref_prefix: String,
}

/// Options of `worker`.
#[derive(Debug, Args)]
pub(crate) struct RemoteWorkerArgs {
    /// The ref of the job on the remote, such as refs/ralph/jobs/...
    #[arg(long, value_name = "REF")]
    pub(crate) job: String,
    /// The label of this attempt, if a service behind the run makes its own [default: that of the job].
    #[arg(long, value_name = "LABEL")]
    pub(crate) attempt: Option<AttemptLabel>,
    /// The git remote, a name or an address; needed in an empty directory [default: origin].
    #[arg(long, value_name = "REMOTE")]
    pub(crate) remote: Option<String>,
    /// How people call this machine [default: its host name].
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Print reports as JSON lines, as worker hosts do.
    #[arg(long)]
    pub(crate) json: bool,
    /// Stop when stdin ends.
    #[arg(long)]
    pub(crate) lifeline: bool,
    /// How long a push of the result is tried again while the remote does not work.
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = parse_duration)]
    pub(crate) patience: Millis,
}

fn parse_duration(text: &str) -> Result<Millis, String> {
    let DurationSetting(span) = DurationSetting::parse(text)?;
    if span == Millis::ZERO { Err("it must not be zero".to_owned()) } else { Ok(span) }
}
