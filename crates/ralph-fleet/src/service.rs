//! The Temporal service: how it is reached, and the few values that are sent to it.

use std::env;
use std::time::Duration;

use ralph_model::worker::WorkerEvent;
use ralph_model::worker_protocol::HostReport;
use serde::{Deserialize, Serialize};
use temporalio_client::envconfig::LoadClientConfigProfileOptions;
use temporalio_client::{Client, ClientOptions, Connection, ConnectionOptions};

use crate::error::FleetError;
use crate::home;

/// What the settings of Temporal say when nothing is set.
const UNSET_TARGET: &str = "http://localhost:7233/";

/// Where `ralph-fleet up` listens.
pub(crate) const DEFAULT_ADDRESS: &str = "127.0.0.1:7233";

/// How long a connection may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// A job, as the service knows it: everything else is in the git remote.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct JobRef {
    /// The ref of the job.
    pub(crate) job: String,
    /// The run's own attempt, such as `a1`.
    pub(crate) attempt: String,
}

/// A job that has a result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ResultRef {
    /// The label of the attempt whose result counts.
    pub(crate) label: String,
    pub(crate) node: String,
    /// Whether the node refused the job: the result, if it could be pushed, has the reason.
    pub(crate) is_refused: bool,
}

/// What a node reports with each renewal of its lease. No text of a prompt or an answer.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct JobProgress {
    pub(crate) node: String,
    pub(crate) place: String,
    pub(crate) doing: String,
    pub(crate) iterations: u32,
}

impl JobProgress {
    /// Applies a line of `ralph worker --json`. Lines that are no reports are ignored.
    pub(crate) fn apply_line(&mut self, line: &str) {
        match serde_json::from_str(line) {
            Ok(HostReport::Event(WorkerEvent::Started { place, .. })) => self.place = place,
            Ok(HostReport::Event(WorkerEvent::Progressed { doing, iterations, .. })) => {
                (self.doing, self.iterations) = (doing, iterations);
            }
            _ => {}
        }
    }
}

/// How the service is reached.
pub(crate) struct ServiceTarget {
    connection: ConnectionOptions,
    client: ClientOptions,
    /// Whether the user configured a cluster.
    pub(crate) is_configured: bool,
}

impl ServiceTarget {
    /// Returns the stated address, else the user's own cluster (`TEMPORAL_*`, `temporal.toml`), else
    /// the server of `ralph-fleet up` on this machine.
    pub(crate) fn find(stated: Option<&str>) -> Result<Self, FleetError> {
        let load = ClientOptions::load_from_config(LoadClientConfigProfileOptions::default());
        let settings = |reason: String| FleetError::Settings { reason };
        let (mut connection, client) = load.map_err(|error| settings(error.to_string()))?;
        let is_configured =
            env::var_os("TEMPORAL_ADDRESS").is_some() || connection.target.as_str() != UNSET_TARGET;
        let address = stated.map(str::to_owned);
        let ours = || home::read_server_address().unwrap_or_else(|| DEFAULT_ADDRESS.to_owned());
        if let Some(address) = address.or_else(|| (!is_configured).then(ours)) {
            let bad = |_| FleetError::BadAddress { text: address.clone() };
            connection.target = format!("http://{address}").parse().map_err(bad)?;
        }
        connection.connect_timeout = Some(CONNECT_TIMEOUT);
        Ok(Self { connection, client, is_configured })
    }

    /// Returns the address for messages.
    pub(crate) fn describe(&self) -> String {
        let target = &self.connection.target;
        let port = target.port().map(|port| format!(":{port}")).unwrap_or_default();
        format!("{}{port}", target.host_str().unwrap_or_default())
    }

    /// Connects. Tries again for a while if the service does not answer.
    pub(crate) async fn connect(&self, patience: Duration) -> Result<Client, FleetError> {
        let begun = tokio::time::Instant::now();
        loop {
            let refused = match Connection::connect(self.connection.clone()).await {
                Ok(connection) => {
                    return Client::new(connection, self.client.clone())
                        .map_err(|error| FleetError::Settings { reason: error.to_string() });
                }
                Err(error) => error.to_string(),
            };
            if begun.elapsed() >= patience {
                let reason = refused.lines().next().unwrap_or_default().to_owned();
                return Err(FleetError::NoServer { target: self.describe(), reason });
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_places_phases_and_counts_of_a_worker_reach_the_service() {
        let mut progress = JobProgress::default();
        for line in [
            r#"{"event":{"started":{"worker":"w","place":"b/s1"}}}"#,
            r#"{"event":{"warning":{"text":"the text of a file"}}}"#,
            "no report",
        ] {
            progress.apply_line(line);
        }
        let expected = JobProgress { place: "b/s1".to_owned(), ..JobProgress::default() };
        assert_eq!(progress, expected);
    }
}
