//! The key `v`: which fleet the keys belong to, and in which format they are.

use super::connection::{Connection, lock, rolled_back};
use super::fault::{Fault, failure};
use super::writer::unsigned;
use etcd_client::{Client, Compare, CompareOp, Error as EtcdError, Txn, TxnOp};
use roam6_proto::contract::fleet::StoreFault;
use serde::{Deserialize, Serialize};
use std::hash::{BuildHasher, RandomState};

/// The format that this version reads and writes.
pub(super) const FORMAT: u32 = 1;
/// The key.
pub(super) const KEY: &str = "v";

/// Its value; fields that this version does not know are ignored.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Format {
    format: u32,
    /// See [`super::Mark::store`].
    store: u64,
    /// See [`super::StoreOptions::identity`].
    identity: String,
}

/// Compares the key with this fleet; the first member writes it. Returns the number of the store, and its last revision.
///
/// # Errors
/// The keys are those of another fleet or format, or the store does not answer. Nothing was written then.
pub(super) async fn check(client: &Client, connection: &Connection) -> Result<(u64, u64), Fault> {
    let fault = |error: EtcdError| failure(&error).fault();
    let mut client = client.clone();
    let key = connection.clients.full_key(KEY);
    let identity = &connection.options.identity;
    loop {
        let response = client.get(key.clone(), None).await.map_err(fault)?;
        let head = response.header().map_or(0, |header| unsigned(header.revision()));
        if let Some(found) = response.kvs().first() {
            return compare(found.value(), identity).map(|store| (store, head)).map_err(Fault::Store);
        }
        if let Some(seen) = &*lock(&connection.position) {
            return Err(rolled_back(head, seen));
        }
        let value = new_value(identity);
        let absent = Compare::create_revision(key.clone(), CompareOp::Equal, 0);
        let txn = Txn::new().when([absent]).and_then([TxnOp::put(key.clone(), value, None)]);
        // Another member may be the first at the same time: what is there then counts.
        client.txn(txn).await.map_err(fault)?;
    }
}

/// The value for a store without a fleet.
pub(super) fn new_value(identity: &str) -> Vec<u8> {
    let store = RandomState::new().hash_one(identity);
    let ours = Format { format: FORMAT, store, identity: identity.to_owned() };
    // Cannot fail: numbers and a text.
    serde_json::to_vec(&ours).unwrap_or_default()
}

pub(super) fn compare(value: &[u8], identity: &str) -> Result<u64, StoreFault> {
    #[derive(Deserialize)]
    struct Number {
        format: u32,
    }
    let other = |difference: String| Err(StoreFault::OtherFleet { difference });
    // A later format may have other fields.
    let Ok(Number { format }) = serde_json::from_slice(value) else {
        return other(format!("its key `{KEY}` is malformed"));
    };
    if format != FORMAT {
        return Err(StoreFault::OtherFormat { has: format, speaks: FORMAT });
    }
    match serde_json::from_slice::<Format>(value) {
        Ok(found) if found.identity == identity => Ok(found.store),
        Ok(found) => other(format!("it is {}, and this one is {identity}", shorten(&found.identity))),
        Err(error) => other(format!("its key `{KEY}` is malformed: {error}")),
    }
}

/// A text of others, short enough for a log line and without control characters.
pub(super) fn shorten(text: &str) -> String {
    text.chars().filter(|one| !one.is_control()).take(200).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_fleets_and_formats_are_told_apart() {
        let of = |text: &str| compare(text.as_bytes(), "ours");
        assert_eq!(of(r#"{"format":1,"store":7,"identity":"ours","later":true}"#), Ok(7));
        let other = of(r#"{"format":1,"store":7,"identity":"theirs\u001b[2J"}"#);
        let difference = "it is theirs[2J, and this one is ours".to_owned();
        assert_eq!(other, Err(StoreFault::OtherFleet { difference }));
        assert_eq!(of(r#"{"format":2}"#), Err(StoreFault::OtherFormat { has: 2, speaks: 1 }));
        for garbage in ["", "7", "{}", r#"{"format":1}"#, r#"{"format":"1"}"#, "\u{0}", "[[[[[["] {
            assert!(matches!(of(garbage), Err(StoreFault::OtherFleet { .. })), "{garbage}");
        }
    }
}
