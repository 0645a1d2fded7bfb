//! Items of a fleet: records of its store, and announcements.

use super::BindingRecord;
use derive_more::Display;
use roam6_wire::{HomeAddress, Prefix};
use serde::{Deserialize, Serialize};
use std::net::Ipv6Addr;

/// Maximum octets of a value of the store.
pub const MAX_VALUE: usize = 8 * 1024;
/// Maximum elements of a list in a record.
const MAX_LIST: usize = 64;

/// The last revision of the store in which a key was changed (etcd's `mod_revision`); 0: the key does not exist.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Display, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Revision(pub u64);

/// A change of the record of a home address in the store, if the record is still at the expected revision. There is at most
/// one under way for each home address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FleetRecord {
    /// The home address.
    pub home_address: HomeAddress,
    /// The record; `None` deletes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record: Option<Box<BindingRecord>>,
    /// The revision that the record must have.
    pub expected: Revision,
    /// Prefixes of the pool that it claims in the same transaction: each must be free, or that of this home address.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub claims: Vec<Prefix>,
    /// Prefixes of the pool that it releases in the same transaction.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub releases: Vec<Prefix>,
}

/// A route in a table of its own, by which a routing daemon learns that this member serves a prefix; it ends with the
/// process. An announcement with another metric replaces the former one, which is removed after the new one is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Announcement {
    /// The prefix.
    pub prefix: Prefix,
    /// The routing table.
    pub table: u32,
    /// The metric: lower is better.
    pub metric: u32,
}

/// A path MTU that this member has learnt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedPathMtu {
    /// The care-of address.
    pub remote: Ipv6Addr,
    /// Octets.
    pub mtu: u32,
}

/// Who has written a value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Author {
    /// The member.
    pub member: String,
    /// A random number of its process.
    pub boot: u64,
    /// Number of the `Put`.
    pub number: u64,
}

/// The value of a home address in the store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredBinding {
    /// Who has written it.
    pub by: Author,
    /// The record.
    pub binding: BindingRecord,
}

impl StoredBinding {
    /// Reads the value of a home address. What a home agent must not do with it, such as to forward to an address that is
    /// not a unicast address, the engine checks.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(home_address: HomeAddress, value: &[u8]) -> Result<StoredBinding, String> {
        if value.len() > MAX_VALUE {
            return Err(format!("{} octets, and {MAX_VALUE} is the maximum", value.len()));
        }
        let stored: StoredBinding = serde_json::from_slice(value).map_err(|why| why.to_string())?;
        let binding = &stored.binding;
        if binding.home_address != home_address {
            return Err(format!("it is of {}", binding.home_address));
        }
        let lists = [
            binding.care_of.len(),
            binding.prefixes.len(),
            binding.flows.len(),
            binding.udp_ports.len(),
            binding.path_mtus.len(),
            binding.wireguard.len(),
            binding.esp.len(),
        ];
        if lists.iter().any(|length| *length > MAX_LIST) {
            return Err(format!("a list has more than {MAX_LIST} elements"));
        }
        let ends = binding.each_expires_unix_micros.len();
        if ends != 0 && ends != binding.care_of.len() {
            return Err(format!("{} care-of addresses have {ends} ends", binding.care_of.len()));
        }
        Ok(stored)
    }

    /// Its form in the store.
    pub fn to_value(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use roam6_wire::{Bid, Sequence};

    fn stored() -> StoredBinding {
        let home_address = HomeAddress("2001:db8:100::1".parse().unwrap());
        let binding = BindingRecord {
            home_address,
            care_of: vec![(Bid(0), "2001:db8:1::100".parse().unwrap(), 0)],
            prefixes: vec!["2001:db8:a00::/56".parse().unwrap()],
            explicit: false,
            flows: Vec::new(),
            sequence: Sequence(7),
            timestamp: 1,
            expires_unix_micros: 2,
            each_expires_unix_micros: Vec::new(),
            router: true,
            link_local: false,
            home_link_address: None,
            udp_ports: Vec::new(),
            path_mtus: Vec::new(),
            wireguard: Vec::new(),
            esp: Vec::new(),
        };
        StoredBinding { by: Author { member: "ha1".to_owned(), boot: 1, number: 2 }, binding }
    }

    #[test]
    fn a_value_is_read_as_it_was_written() {
        let stored = stored();
        let home = stored.binding.home_address;
        assert_eq!(StoredBinding::parse(home, &stored.to_value()), Ok(stored.clone()));
        let more = String::from_utf8(stored.to_value()).unwrap().replacen('{', r#"{"later":[1],"#, 1);
        assert_eq!(StoredBinding::parse(home, more.as_bytes()), Ok(stored), "fields of later versions are ignored");
    }

    #[test]
    fn a_malformed_value_is_refused() {
        let home = stored().binding.home_address;
        let refused = |value: &[u8]| StoredBinding::parse(home, value).unwrap_err();
        assert!(refused(b"").contains("EOF"));
        assert!(refused(b"{}").contains("missing field"));
        assert!(refused(&[b' '; MAX_VALUE + 1]).contains("8192"));
        assert!(refused(&[b'['; 2000]).contains("invalid"));
        let other = HomeAddress("2001:db8:100::2".parse().unwrap());
        assert_eq!(StoredBinding::parse(other, &stored().to_value()), Err(format!("it is of {home}")));
        let mut ends = stored();
        ends.binding.each_expires_unix_micros = vec![1, 2];
        assert!(refused(&ends.to_value()).contains("2 ends"));
        let mut long = stored();
        long.binding.prefixes = vec![long.binding.prefixes[0]; 65];
        assert!(refused(&long.to_value()).contains("64"));
    }
}
