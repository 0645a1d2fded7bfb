//! What the keys of a fleet mean: records, members, rows of the prefix table, path MTUs. Values are JSON; fields of later
//! versions are ignored, and what is malformed is reported and otherwise left alone.
//!
//! `b/HOME-ADDRESS`: all bindings of a home address. `pool/PREFIX`: which home address has a prefix of the pool.
//! `m/MEMBER`: a member, as long as it lives. `r/HOME-ADDRESS`: a row of the prefix table. `u/CARE-OF-ADDRESS`: a path MTU.
//! `v`: which fleet this is ([`super::format`]). `w`: the keys of encrypted paths ([`super::encryption`]).

use super::{StoreEvent, Stored as StoredKey, Write, Written};
use roam6_proto::base::ids::PutId;
use roam6_proto::contract::config::nemo::PrefixTableRow;
use roam6_proto::contract::fleet::{Commit, FleetEvent, MemberRecord, StoreFault, Stored};
use roam6_proto::contract::item::fleet::{Author, MAX_VALUE};
use roam6_proto::contract::item::{FleetRecord, Key, Revision, SharedPathMtu, StoredBinding};
use roam6_proto::{Input, Outcome};
use roam6_wire::{HomeAddress, Prefix};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::net::Ipv6Addr;

/// The value of a prefix of the pool.
#[derive(Serialize)]
struct Owner {
    home: HomeAddress,
}

/// The value of a path MTU.
#[derive(Serialize, Deserialize)]
struct PathMtu {
    mtu: u32,
}

/// The write of a record.
pub(crate) fn write(id: PutId, record: &FleetRecord, by: Author) -> Write {
    let FleetRecord { home_address, record, expected, claims, releases } = record;
    let pool_key = |prefix: &Prefix| format!("pool/{prefix}");
    let owner = serde_json::to_vec(&Owner { home: *home_address }).unwrap_or_default();
    let value = record.as_deref().map(|binding| StoredBinding { by, binding: binding.clone() }.to_value());
    Write {
        id,
        key: format!("b/{}", home_address.0),
        value,
        expected: expected.0,
        claims: claims.iter().map(|prefix| (pool_key(prefix), owner.clone())).collect(),
        releases: releases.iter().map(pool_key).collect(),
    }
}

/// Key and value of a path MTU.
pub(crate) fn path_mtu(shared: &SharedPathMtu) -> (String, Vec<u8>) {
    let value = serde_json::to_vec(&PathMtu { mtu: shared.mtu }).unwrap_or_default();
    (format!("u/{}", shared.remote), value)
}

/// What an event means to the engines; `None`: nothing. `own` is the name of this member.
pub(crate) fn input(own: &str, event: StoreEvent) -> Option<Input> {
    let event = match event {
        StoreEvent::Written { key, id, written } => return outcome(&key, id, written),
        StoreEvent::Connected { .. } => FleetEvent::Connected,
        StoreEvent::Disconnected(why) => FleetEvent::Disconnected(why),
        StoreEvent::Copied => FleetEvent::Copied,
        StoreEvent::Fault(fault) => FleetEvent::Fault(fault),
        StoreEvent::SnapshotBegins { head } => FleetEvent::SnapshotBegins(Revision(head)),
        StoreEvent::SnapshotEnds { head } => FleetEvent::SnapshotEnds(Revision(head)),
        StoreEvent::Head { revision, heartbeat } => {
            FleetEvent::Head { revision: Revision(revision), own_heartbeat: heartbeat }
        }
        StoreEvent::Changed(stored) => changed(own, stored)?,
    };
    Some(Input::Fleet(event))
}

/// The outcome of a write.
fn outcome(key: &str, id: PutId, written: Written) -> Option<Input> {
    let home_address = home_address(key.strip_prefix("b/")?).ok()?;
    let commit = match written {
        Written::Kept(revision) => Commit::Kept(Revision(revision)),
        Written::Conflict(stored) => match binding(stored) {
            Ok(stored) => Commit::Conflict(stored),
            Err((key, why)) => Commit::Unavailable(format!("{key} in the store is malformed: {why}")),
        },
        Written::Claimed(stored) => {
            let prefix = stored.key.strip_prefix("pool/").and_then(|prefix| prefix.parse().ok());
            prefix.map_or_else(|| Commit::Unavailable(format!("{} is taken", stored.key)), Commit::PrefixTaken)
        }
        Written::Unknown(_) => Commit::Unknown,
        Written::Refused(why) => Commit::Unavailable(why),
    };
    Some(Input::Outcome(Outcome { id, key: Key::FleetRecord(home_address), error: None, commit: Some(commit) }))
}

/// What a key has become.
fn changed(own: &str, stored: StoredKey) -> Option<FleetEvent> {
    let event = match stored.key.split_once('/') {
        Some(("b", _)) => binding(stored).map(FleetEvent::Stored),
        Some(("m", name)) if name == own => return None,
        Some(("m", name)) => match &stored.value {
            None => Ok(FleetEvent::MemberGone(name.to_owned())),
            Some(value) => parse(&stored.key, value).and_then(|member| check_name(member, name)),
        },
        Some(("r", home)) => row(&stored, home),
        Some(("u", remote)) => match (&stored.value, remote.parse::<Ipv6Addr>()) {
            (None, _) => return None,
            (Some(value), Ok(remote)) => {
                parse(&stored.key, value).map(|PathMtu { mtu }| FleetEvent::PathMtu { remote, mtu })
            }
            (Some(_), Err(error)) => Err((stored.key, error.to_string())),
        },
        // Of the pool, the format, or of a later version.
        _ => return None,
    };
    Some(event.unwrap_or_else(|(key, why)| FleetEvent::Fault(StoreFault::Damaged { key: printable(&key), why })))
}

fn check_name(member: MemberRecord, name: &str) -> Result<FleetEvent, (String, String)> {
    if member.name == name {
        return Ok(FleetEvent::Member(member));
    }
    Err((format!("m/{name}"), "it has the name of another member".to_owned()))
}

fn row(stored: &StoredKey, home: &str) -> Result<FleetEvent, (String, String)> {
    let home = home_address(home).map_err(|why| (stored.key.clone(), why))?;
    match &stored.value {
        None => Ok(FleetEvent::RowGone(home)),
        Some(value) => checked_row(stored, home, value).map(|row| FleetEvent::Row(Box::new(row))),
    }
}

/// The key of the row of a home address.
pub(super) fn row_key(home: &str) -> String {
    format!("r/{home}")
}

/// The row that a key has; else the key, and what is wrong with it.
pub(super) fn row_of(stored: &StoredKey) -> Result<PrefixTableRow, (String, String)> {
    let home = home_address(stored.key.strip_prefix("r/").unwrap_or_default());
    let home = home.map_err(|why| (stored.key.clone(), why))?;
    checked_row(stored, home, stored.value.as_deref().unwrap_or_default())
}

fn checked_row(stored: &StoredKey, home: HomeAddress, value: &[u8]) -> Result<PrefixTableRow, (String, String)> {
    let row: PrefixTableRow = parse(&stored.key, value)?;
    if row.home_address != home {
        return Err((stored.key.clone(), "it is of another home address".to_owned()));
    }
    Ok(row)
}

/// The record of a home address; else the key, and what is wrong with it.
fn binding(stored: StoredKey) -> Result<Stored, (String, String)> {
    let StoredKey { key, value, revision } = stored;
    let read = || {
        let home_address = home_address(key.strip_prefix("b/").unwrap_or_default())?;
        let record = match value {
            Some(value) => Some(Box::new(StoredBinding::parse(home_address, &value)?.binding)),
            None => None,
        };
        Ok(Stored { home_address, revision: Revision(revision), record })
    };
    read().map_err(|why| (key.clone(), why))
}

/// A home address, in the one form that this program writes: two keys must not mean the same.
fn home_address(text: &str) -> Result<HomeAddress, String> {
    let address: Ipv6Addr = text.parse().map_err(|_| "its name is no IPv6 address".to_owned())?;
    if address.to_string() != text {
        return Err(format!("its name must be {address}"));
    }
    Ok(HomeAddress(address))
}

fn parse<T: DeserializeOwned>(key: &str, value: &[u8]) -> Result<T, (String, String)> {
    if value.len() > MAX_VALUE {
        return Err((key.to_owned(), format!("{} octets, and {MAX_VALUE} is the maximum", value.len())));
    }
    serde_json::from_slice(value).map_err(|error| (key.to_owned(), error.to_string()))
}

/// A name that others chose, short enough for a log line and without control characters.
fn printable(text: &str) -> String {
    text.chars().filter(|one| !one.is_control()).take(100).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event_of(key: &str, value: Option<&str>) -> Option<FleetEvent> {
        let value = value.map(|value| value.as_bytes().to_vec());
        let stored = StoredKey { key: key.to_owned(), value, revision: 7 };
        match input("ha1", StoreEvent::Changed(stored)) {
            Some(Input::Fleet(event)) => Some(event),
            None => None,
            other => panic!("{other:?}"),
        }
    }

    fn record() -> FleetRecord {
        let binding = r#"{"home_address":"2001:db8::1","care_of":[[1,"2001:db8:1::1",0]],"prefixes":["2001:db8:a::/48"],
            "explicit":false,"flows":[],"sequence":3,"timestamp":4,"expires_unix_micros":5,"router":true}"#;
        FleetRecord {
            home_address: HomeAddress("2001:db8::1".parse().unwrap()),
            record: Some(Box::new(serde_json::from_str(binding).unwrap())),
            expected: Revision(6),
            claims: vec!["::ffff:192.0.2.1/128".parse().unwrap()],
            releases: vec!["::ffff:192.0.2.2/128".parse().unwrap()],
        }
    }

    fn written() -> Write {
        write(PutId::default(), &record(), Author { member: "ha1".to_owned(), boot: 1, number: 2 })
    }

    #[test]
    fn record_is_decoded_as_it_was_encoded() {
        let write = written();
        assert_eq!((write.key.as_str(), write.expected), ("b/2001:db8::1", 6));
        let value = String::from_utf8(write.value.unwrap()).unwrap();
        let Some(FleetEvent::Stored(stored)) = event_of(&write.key, Some(&value)) else { panic!("no event") };
        assert_eq!((stored.record, stored.revision), (record().record, Revision(7)));
        let Some(FleetEvent::Stored(stored)) = event_of(&write.key, None) else { panic!("no event") };
        assert_eq!((stored.home_address, stored.record), (record().home_address, None));
    }

    #[test]
    fn answers_become_outcomes() {
        let commit = |written| match outcome("b/2001:db8::1", PutId { role: 1, number: 9 }, written) {
            Some(Input::Outcome(outcome)) => {
                assert_eq!((outcome.id.number, outcome.key), (9, Key::FleetRecord(record().home_address)));
                assert_eq!(outcome.error, None);
                outcome.commit.unwrap()
            }
            other => panic!("{other:?}"),
        };
        assert_eq!(commit(Written::Kept(8)), Commit::Kept(Revision(8)));
        assert_eq!(commit(Written::Unknown(String::new())), Commit::Unknown);
        let stored = |key: &str, value: Option<&str>| StoredKey {
            key: key.to_owned(),
            value: value.map(|value| value.as_bytes().to_vec()),
            revision: 8,
        };
        let none = Stored { home_address: record().home_address, revision: Revision(8), record: None };
        assert_eq!(commit(Written::Conflict(stored("b/2001:db8::1", None))), Commit::Conflict(none));
        let garbage = commit(Written::Conflict(stored("b/2001:db8::1", Some("garbage"))));
        assert!(matches!(garbage, Commit::Unavailable(why) if why.contains("malformed")));
        // The key of a claim is read back as the prefix that was claimed.
        let claim = &written().claims[0].0;
        assert_eq!(commit(Written::Claimed(stored(claim, Some("{}")))), Commit::PrefixTaken(record().claims[0]));
    }

    #[test]
    fn member_is_known_by_its_key() {
        let value = r#"{"name":"ha2","state":"healthy","applied":9,"unix_micros":1,"version":"1","boot":4,"beat":5}"#;
        assert!(
            matches!(event_of("m/ha2", Some(value)), Some(FleetEvent::Member(member)) if member.applied == Revision(9))
        );
        assert_eq!(event_of("m/ha2", None), Some(FleetEvent::MemberGone("ha2".to_owned())));
        assert_eq!(event_of("m/ha1", Some(value)), None, "this member itself");
        assert!(matches!(event_of("m/ha3", Some(value)), Some(FleetEvent::Fault(StoreFault::Damaged { .. }))));
    }

    #[test]
    fn path_mtu_is_decoded_as_it_was_encoded() {
        let shared = SharedPathMtu { remote: "2001:db8::9".parse().unwrap(), mtu: 1400 };
        let (key, value) = path_mtu(&shared);
        let value = String::from_utf8(value).unwrap();
        assert_eq!(event_of(&key, Some(&value)), Some(FleetEvent::PathMtu { remote: shared.remote, mtu: 1400 }));
        assert_eq!(event_of(&key, None), None);
    }

    #[test]
    fn malformed_keys_and_values_are_reported() {
        let value = String::from_utf8(written().value.unwrap()).unwrap();
        let long = " ".repeat(MAX_VALUE + 1);
        for (key, value) in [
            ("b/2001:db8::2", value.as_str()),
            ("b/2001:db8:0::1", value.as_str()),
            ("b/\u{1b}[2J", value.as_str()),
            ("b/", value.as_str()),
            ("b/2001:db8::1", ""),
            ("b/2001:db8::1", "[[[[[["),
            ("b/2001:db8::1", &long),
            ("r/2001:db8::1", "{}"),
            ("r/x", "{}"),
            ("m/ha2", "7"),
            ("m/ha2", &long),
            ("u/x", r#"{"mtu":1400}"#),
            ("u/2001:db8::1", r#"{"mtu":-1}"#),
        ] {
            let event = event_of(key, Some(value));
            let Some(FleetEvent::Fault(StoreFault::Damaged { key, .. })) = event else { panic!("{key}: {event:?}") };
            assert!(!key.contains('\u{1b}'));
        }
        // What later versions may have.
        assert_eq!(event_of("x/y", Some("z")), None);
        assert_eq!(event_of("pool/x", Some("z")), None);
        assert_eq!(event_of("v", Some("z")), None);
    }
}
