//! This member's own key `m/NAME`, with a lease: it is written again and again, and is gone soon after the member. Its
//! change, read back by the watch, proves that the store takes writes and that the watch delivers them.

use super::connection::{Connection, lock};
use super::fault::{Failure, Fault, failure};
use core::time::Duration;
use etcd_client::{Client, LeaseKeepAliveStream, LeaseKeeper, PutOptions};
use roam6_proto::contract::fleet::{HEARTBEAT_INTERVAL, StoreFault};
use serde::Deserialize;
use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::time::{Instant, sleep_until, timeout};

/// Time to live of the lease, seconds.
const LEASE: i64 = 3;
/// A node that takes no write for this time is left for the next.
const SILENCE: Duration = Duration::from_secs(1);

/// Maximum of remembered heartbeats that the watch has not returned.
const MAX_BEATS: usize = 16;

/// The heartbeats that the watch has not returned.
pub(super) struct Heartbeats {
    /// A random number of this process: another with the same name is not this member.
    boot: u64,
    next: u64,
    sent: VecDeque<(u64, Instant)>,
}

/// What of the value is read back.
#[derive(Deserialize)]
struct Beat {
    boot: u64,
    beat: u64,
}

impl Default for Heartbeats {
    fn default() -> Heartbeats {
        Heartbeats { boot: RandomState::new().hash_one("boot"), next: 0, sent: VecDeque::new() }
    }
}

impl Heartbeats {
    fn send(&mut self) -> (u64, u64) {
        self.next += 1;
        self.sent.push_back((self.next, Instant::now()));
        if self.sent.len() > MAX_BEATS {
            self.sent.pop_front();
        }
        (self.boot, self.next)
    }

    /// The time since a value was sent, if it is of this process and was not returned before.
    pub(super) fn acknowledge(&mut self, value: &[u8]) -> Option<Duration> {
        let returned: Beat = serde_json::from_slice(value).ok()?;
        let place = self.sent.iter().position(|(beat, _)| returned.boot == self.boot && *beat == returned.beat)?;
        let (_, at) = self.sent.drain(..=place).next_back()?;
        Some(at.elapsed())
    }
}

/// A lease that is kept alive.
struct Lease {
    id: i64,
    keeper: LeaseKeeper,
    stream: LeaseKeepAliveStream,
    renewed: Instant,
}

/// Writes the key for as long as the store takes writes; returns why it does not. A full store is waited for.
pub(super) async fn keep(connection: &Connection, mut client: Client) -> Fault {
    let mut lease: Option<Lease> = None;
    let mut next = Instant::now();
    loop {
        sleep_until(next).await;
        next = Instant::now() + HEARTBEAT_INTERVAL;
        match timeout(SILENCE, beat(connection, &mut client, &mut lease)).await {
            Ok(Ok(())) => {}
            Ok(Err(Failure::Refused(Fault::Store(StoreFault::Full)))) => connection.clients.report(StoreFault::Full),
            Ok(Err(failure)) => return failure.fault(),
            Err(_) => return Fault::Store(StoreFault::NoQuorum),
        }
    }
}

/// One write.
async fn beat(connection: &Connection, client: &mut Client, lease: &mut Option<Lease>) -> Result<(), Failure> {
    if let Some(held) = lease
        && held.renewed.elapsed() >= SILENCE
    {
        let renewed = renew(held).await?;
        if !renewed {
            *lease = None;
        }
    }
    let held = match lease {
        Some(held) => held,
        None => lease.insert(grant(connection, client).await?),
    };
    let key = connection.clients.full_key(&own_key(connection));
    let options = PutOptions::new().with_lease(held.id);
    let put = client.put(key, value(connection), Some(options)).await;
    put.map(drop).map_err(|error| failure(&error))
}

/// Whether the lease is alive still.
async fn renew(lease: &mut Lease) -> Result<bool, Failure> {
    lease.keeper.keep_alive().await.map_err(|error| failure(&error))?;
    let answer = lease.stream.message().await.map_err(|error| failure(&error))?;
    lease.renewed = Instant::now();
    Ok(answer.is_some_and(|answer| answer.ttl() > 0))
}

async fn grant(connection: &Connection, client: &mut Client) -> Result<Lease, Failure> {
    let granted = client.lease_grant(LEASE, None).await.map_err(|error| failure(&error))?;
    let id = granted.id();
    *lock(&connection.lease) = Some(id);
    let (keeper, stream) = client.lease_keep_alive(id).await.map_err(|error| failure(&error))?;
    Ok(Lease { id, keeper, stream, renewed: Instant::now() })
}

/// The value: the fields set by the event loop, and the time.
fn value(connection: &Connection) -> Vec<u8> {
    let mut fields = lock(&connection.fields).clone();
    let seen = lock(&connection.position).as_ref().map_or(0, |mark| mark.revision);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let (boot, beat) = lock(&connection.heartbeats).send();
    fields.extend([("boot".to_owned(), boot.into()), ("beat".to_owned(), beat.into())]);
    fields.insert("unix_micros".to_owned(), u64::try_from(now.as_micros()).unwrap_or(u64::MAX).into());
    fields.insert("applied".to_owned(), seen.into());
    serde_json::to_vec(&fields).unwrap_or_default()
}

/// Writes a key with a lease of its own; without a connection it is not written.
pub(super) async fn lease(connection: &Connection, key: String, value: Vec<u8>, seconds: u32) {
    let Some(mut client) = connection.clients.current() else { return };
    let written = async {
        let lease = client.lease_grant(i64::from(seconds), None).await?.id();
        client.put(connection.clients.full_key(&key), value, Some(PutOptions::new().with_lease(lease))).await
    };
    // This is a hint: a member that misses it finds out by itself.
    let _ = timeout(SILENCE, written).await;
}

/// This member's own key.
pub(super) fn own_key(connection: &Connection) -> String {
    format!("m/{}", connection.options.member)
}

/// Gives the key up, so that others need not wait for the end of its lease.
pub(super) async fn remove(connection: &Connection) {
    let lease = lock(&connection.lease).take();
    if let (Some(mut client), Some(lease)) = (connection.clients.current(), lease) {
        // Otherwise it ends by itself.
        let _ = timeout(HEARTBEAT_INTERVAL, client.lease_revoke(lease)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heartbeat_is_answered_once_and_by_its_own_value() {
        let mut beats = Heartbeats::default();
        let value = |(boot, beat)| format!(r#"{{"boot":{boot},"beat":{beat},"name":"ha1"}}"#).into_bytes();
        let (first, second) = (beats.send(), beats.send());
        assert!(beats.acknowledge(&value((first.0.wrapping_add(1), first.1))).is_none(), "of an earlier process");
        assert!(beats.acknowledge(&value(second)).is_some());
        assert!(beats.acknowledge(&value(first)).is_none(), "older than the last answer");
        assert!(beats.acknowledge(&value(second)).is_none());
        assert!(beats.acknowledge(b"garbage").is_none());
        for _ in 0..2 * MAX_BEATS {
            beats.send();
        }
        assert_eq!(beats.sent.len(), MAX_BEATS);
    }
}
