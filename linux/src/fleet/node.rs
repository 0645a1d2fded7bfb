//! The connection of an operator's command to the store: to the first node that answers.

use super::connection::connect_options;
use super::fault::failure;
use super::{StoreOptions, format, prefix_of};
use crate::error::{Context, Error};
use core::time::Duration;
use etcd_client::{Client, Error as EtcdError};
use tokio::runtime::Runtime;
use tokio::time::timeout;

/// A command does not wait longer for the store.
const PATIENCE: Duration = Duration::from_secs(5);

/// A node, and what it is spoken to with.
pub(super) struct Node {
    runtime: Runtime,
    client: Client,
    /// Of all keys of the fleet.
    pub(super) prefix: String,
}

impl Node {
    /// Connects to the first node that answers and whose key of the format is accepted by `judge`.
    ///
    /// # Errors
    /// There is none: the error of the last one.
    pub(super) fn open(
        options: &StoreOptions,
        judge: impl Fn(Option<&[u8]>) -> Result<(), Error>,
    ) -> Result<Node, Error> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("store")?;
        let prefix = prefix_of(&options.fleet);
        let mut last = Error::new("store", "no node is configured");
        for endpoint in &options.endpoints {
            let opened = runtime.block_on(async { timeout(PATIENCE, open(options, endpoint, &prefix, &judge)).await });
            match opened {
                Ok(Ok(client)) => return Ok(Node { runtime, client, prefix }),
                Ok(Err(error)) => last = error,
                Err(_) => last = Error::new(endpoint, "does not answer"),
            }
        }
        Err(last)
    }

    /// The client, for one request.
    pub(super) fn client(&self) -> Client {
        self.client.clone()
    }

    /// Waits for the store, for as long as a command may.
    ///
    /// # Errors
    /// Those of `work`, or the store does not answer.
    pub(super) fn run<T>(&self, work: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        let late = |_| Err(Error::new("store", "it does not answer"));
        self.runtime.block_on(async { timeout(PATIENCE, work).await }).unwrap_or_else(late)
    }
}

async fn open(
    options: &StoreOptions,
    endpoint: &str,
    prefix: &str,
    judge: &impl Fn(Option<&[u8]>) -> Result<(), Error>,
) -> Result<Client, Error> {
    let client = Client::connect([endpoint], Some(connect_options(options))).await;
    let mut client = client.map_err(|error| Error::new(endpoint, failure(&error).fault()))?;
    let response = client.get(format!("{prefix}{}", format::KEY), None).await.map_err(|error| refused(&error))?;
    judge(response.kvs().first().map(|found| found.value()))?;
    Ok(client)
}

/// The error of a request that the store has refused, or has not answered.
pub(super) fn refused(error: &EtcdError) -> Error {
    Error::new("store", failure(error).fault())
}
