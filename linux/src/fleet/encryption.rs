//! The key `w`: which WireGuard keys the members have. Packets of a mobile router may reach any member, so all have the same keys,
//! or none encrypts.

use super::connection::Connection;
use super::fault::{Fault, failure};
use super::format::shorten;
use etcd_client::{Client, Compare, CompareOp, Error as EtcdError, Txn, TxnOp};
use roam6_proto::contract::fleet::StoreFault;

/// The key.
const KEY: &str = "w";

/// Compares the keys of the fleet with those of this member; the first member that encrypts writes the key.
///
/// # Errors
/// The members have other keys, or the store does not answer. Nothing was written then.
pub(super) async fn check(client: &Client, connection: &Connection) -> Result<(), Fault> {
    let fault = |error: EtcdError| failure(&error).fault();
    let mut client = client.clone();
    let key = connection.clients.full_key(KEY);
    let own = connection.options.encryption.as_deref();
    loop {
        let response = client.get(key.clone(), None).await.map_err(fault)?;
        let found = response.kvs().first().map(|found| found.value());
        let (None, Some(value)) = (found, own) else { return compare(found, own, &key).map_err(Fault::Store) };
        let absent = Compare::create_revision(key.clone(), CompareOp::Equal, 0);
        let txn = Txn::new().when([absent]).and_then([TxnOp::put(key.clone(), value, None)]);
        // Another member may be the first at the same time: what is there then counts.
        client.txn(txn).await.map_err(fault)?;
    }
}

fn compare(found: Option<&[u8]>, own: Option<&str>, key: &str) -> Result<(), StoreFault> {
    let (key, theirs) = (key.to_owned(), found.map(|found| shorten(&String::from_utf8_lossy(found))));
    match (theirs, own) {
        (Some(theirs), Some(own)) if theirs != own => Err(StoreFault::OtherKeys { key, theirs, own: own.to_owned() }),
        (Some(_), None) => Err(StoreFault::Unencrypted { key }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_have_the_same_keys_or_none() {
        let of = |found: Option<&str>, own| compare(found.map(str::as_bytes), own, "/roam6/north/w");
        assert_eq!([of(None, None), of(None, Some("a")), of(Some("a"), Some("a"))], [Ok(()), Ok(()), Ok(())]);
        let other = of(Some("b\u{1b}[2J"), Some("a")).unwrap_err().to_string();
        assert!(other.contains("b[2J") && other.contains("copy wireguard.keys"), "{other}");
        assert!(other.contains("etcdctl del /roam6/north/w"), "{other}");
        let without = of(Some("b"), None).unwrap_err().to_string();
        assert!(without.contains("write encrypt"), "{without}");
        let garbage = compare(Some(&[0xff; 9000]), Some("a"), "w").unwrap_err().to_string();
        assert!(garbage.len() < 2000, "{}", garbage.len());
    }
}
