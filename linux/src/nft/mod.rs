//! Packet filter rules in nftables, for conditions that neither routes nor routing rules can express. Each table is
//! replaced in one transaction. Messages and attributes are those of linux/netfilter/nf_tables.h.

mod attribute;
pub(crate) mod dump;
pub(crate) mod expression;
pub(crate) mod hooks;
pub(crate) mod iptables_legacy;
pub(crate) mod other_firewalls;

use crate::error::{Context, Error};
use crate::netlink::socket::{ERROR, encode, error_of, messages, open};
use attribute::*;
pub use hooks::Hooks;
use netlink_packet_core::{NLM_F_ACK, NLM_F_APPEND, NLM_F_CREATE};
use netlink_sys::{Socket, protocols};
use nix::errno::Errno;
use std::io::ErrorKind;

/// Before the chains of others: the priority of nftables' `raw`.
const PRIORITY: i32 = -300;
const CHAIN: &str = "packets";
/// The table that suppresses ICMP errors for mobility messages, of the family `ip6`.
pub(crate) const ICMP_FILTER_TABLE: &str = "roam6";
/// The table of source address filters, of the same family.
pub(crate) const SOURCE_FILTER_TABLE: &str = "roam6-guard";

/// The hook of a table's chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hook {
    /// Packets for this host.
    Input,
    /// All received packets, before the route lookup.
    Prerouting,
}

/// A connection to nftables.
pub(crate) struct Nftables(Socket);

impl Nftables {
    pub(crate) fn open() -> Result<Nftables, Error> {
        open(protocols::NETLINK_NETFILTER, "nftables").map(Nftables)
    }

    /// Replaces the rules of `table`; each rule is a list of expressions.
    ///
    /// # Errors
    /// The kernel's, if it refuses the transaction or has no nftables.
    pub(crate) fn put(&self, table: &str, hook: Hook, rules: &[Vec<Vec<u8>>]) -> Result<(), Error> {
        // Created, removed and created again in one transaction, so that it is empty.
        let make = || named(NEW_TABLE, NLM_F_CREATE, table);
        let fresh = [make(), named(DEL_TABLE, 0, table), make(), chain(table, hook)];
        let rules = rules.iter().map(|expressions| rule(table, expressions));
        self.commit(fresh.into_iter().chain(rules).collect())
    }

    /// Whether `table` exists.
    ///
    /// # Errors
    /// The kernel's, if it refuses the request.
    pub(crate) fn has_table(&self, table: &str) -> Result<bool, Error> {
        match self.exchange(&emit(1, &named(GET_TABLE, NLM_F_ACK, table)), 1)? {
            None => Ok(true),
            Some((Errno::ENOENT, _)) => Ok(false),
            Some((_, why)) => Err(Error::new("nftables", why)),
        }
    }

    /// Removes `table`, if it exists.
    ///
    /// # Errors
    /// The kernel's, if it refuses the request.
    pub(crate) fn drop(&self, table: &str) -> Result<(), Error> {
        self.commit(vec![named(NEW_TABLE, NLM_F_CREATE, table), named(DEL_TABLE, 0, table)])
    }

    /// Executes all messages in one transaction.
    fn commit(&self, changes: Vec<Message>) -> Result<(), Error> {
        let last = changes.len();
        let mut bytes = emit(0, &Message(BATCH_BEGIN, 0, Vec::new()));
        for (number, Message(kind, flags, attributes)) in (1_u32..).zip(changes) {
            let ack = if number as usize == last { NLM_F_ACK } else { 0 };
            bytes.extend(emit(number, &Message(kind, flags | ack, attributes)));
        }
        bytes.extend(emit(0, &Message(BATCH_END, 0, Vec::new())));
        match self.exchange(&bytes, last)? {
            None => Ok(()),
            Some((_, why)) => Err(Error::new("nftables", why)),
        }
    }

    /// Sends messages. Returns the first error; nothing once message number `last` was acknowledged.
    fn exchange(&self, bytes: &[u8], last: usize) -> Result<Option<(Errno, String)>, Error> {
        self.0.send(bytes, 0).context("nftables")?;
        loop {
            let mut reply = Vec::with_capacity(16 * 1024);
            // The reply is queued before the request returns; no reply means that there is no nftables.
            self.0.recv(&mut reply, libc::MSG_DONTWAIT).context("nftables")?;
            for message in messages(&reply) {
                let refused = error_of(&message);
                let acknowledged = message.message_type() == ERROR && message.sequence_number() as usize == last;
                if refused.is_some() || acknowledged {
                    return Ok(refused);
                }
            }
        }
    }
}

/// Receives announcements of changes: tables removed (a firewall that is loaded usually begins with `flush ruleset`),
/// and chains added or removed.
pub(crate) struct TableMonitor(Socket);

/// What may have changed since the last call.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TableChanges {
    /// Tables were removed.
    pub(crate) removed: bool,
    /// There are other chains than before.
    pub(crate) chains: bool,
}

impl TableMonitor {
    pub(crate) fn open() -> Result<TableMonitor, Error> {
        let socket = open(protocols::NETLINK_NETFILTER, "nftables")?;
        socket.add_membership(GROUP).context("nftables")?;
        socket.set_non_blocking(true).context("nftables")?;
        Ok(TableMonitor(socket))
    }

    /// What may have changed since the last call.
    pub(crate) fn read(&self) -> TableChanges {
        let mut changed = TableChanges::default();
        for _ in 0..BATCH {
            let mut datagram = Vec::with_capacity(16 * 1024);
            match self.0.recv(&mut datagram, 0) {
                Ok(_) => {
                    let received = messages(&datagram);
                    let any = |kinds: &[u16]| received.iter().any(|message| kinds.contains(&message.message_type()));
                    changed.removed |= any(&[DEL_TABLE]);
                    changed.chains |= any(&[DEL_TABLE, NEW_TABLE, NEW_CHAIN, DEL_CHAIN]);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                // Receive buffer overrun: anything may have changed.
                Err(_) => changed = TableChanges { removed: true, chains: true },
            }
        }
        changed
    }
}

crate::sys::impl_as_fd!(TableMonitor, 0);

/// Announcements of tables, chains and rules (NFNLGRP_NFTABLES).
const GROUP: u32 = 7;
/// Most announcements read at once.
const BATCH: usize = 64;
const BATCH_BEGIN: u16 = 0x10;
const BATCH_END: u16 = 0x11;
const NEW_TABLE: u16 = 0x0a00;
const GET_TABLE: u16 = 0x0a01;
const DEL_TABLE: u16 = 0x0a02;
const NEW_CHAIN: u16 = 0x0a03;
const DEL_CHAIN: u16 = 0x0a05;
const NEW_RULE: u16 = 0x0a06;

/// One message: type, flags, attributes.
struct Message(u16, u16, Vec<u8>);

/// A message with its headers (netlink(7), linux/netfilter/nfnetlink.h).
fn emit(number: u32, Message(kind, flags, attributes): &Message) -> Vec<u8> {
    let (family, subsystem) = match *kind {
        BATCH_BEGIN | BATCH_END => (0, libc::NFNL_SUBSYS_NFTABLES as u16),
        _ => (libc::NFPROTO_IPV6 as u8, 0),
    };
    let [high, low] = subsystem.to_be_bytes();
    encode(*kind, *flags, number, &[&[family, 0, high, low][..], attributes].concat())
}

fn named(kind: u16, flags: u16, table: &str) -> Message {
    Message(kind, flags, text(NFTA_TABLE_NAME, table))
}

fn chain(table: &str, hook: Hook) -> Message {
    let place = match hook {
        Hook::Input => libc::NF_INET_LOCAL_IN,
        Hook::Prerouting => libc::NF_INET_PRE_ROUTING,
    };
    let hook = [number(NFTA_HOOK_HOOKNUM, place.cast_unsigned()), number(NFTA_HOOK_PRIORITY, PRIORITY.cast_unsigned())];
    let parts = [
        text(NFTA_CHAIN_TABLE, table),
        text(NFTA_CHAIN_NAME, CHAIN),
        nested(NFTA_CHAIN_HOOK, &hook),
        text(NFTA_CHAIN_TYPE, "filter"),
    ];
    Message(NEW_CHAIN, NLM_F_CREATE, parts.concat())
}

fn rule(table: &str, expressions: &[Vec<u8>]) -> Message {
    let parts =
        [text(NFTA_RULE_TABLE, table), text(NFTA_RULE_CHAIN, CHAIN), nested(NFTA_RULE_EXPRESSIONS, expressions)];
    Message(NEW_RULE, NLM_F_CREATE | NLM_F_APPEND, parts.concat())
}
