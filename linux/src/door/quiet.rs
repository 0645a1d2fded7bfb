//! Keeps the kernel from answering what engines answer: it knows no mobility headers, home address options or mobile
//! prefix discovery, and would tell the sender so (RFC 4443 §3.4). Packets passing through are not touched, nor is ESP, but behind a home address.

use crate::error::{Context, Error};
use crate::netlink::socket::{messages, refusal};
use crate::sys::{self, FilterStep};
use netlink_sys::{Socket, SocketAddr, protocols};
use std::os::fd::OwnedFd;

/// Name of the nftables table.
const TABLE: &str = "roam6";
const CHAIN: &str = "input";
/// Before everybody else's chains: the priority of nftables' `raw`.
const PRIORITY: i32 = -300;

const MOBILITY: u8 = 135;
const ICMPV6: u8 = 58;
const ESP: u8 = 50;
const ROUTING: u8 = 43;
const DESTINATION: u8 = 60;
/// The routing header that names a home address (RFC 6275 §6.4).
const HOME_ROUTING: u8 = 2;
/// Home agent address discovery and mobile prefix discovery (RFC 6275 §6.5 to §6.8).
const DISCOVERY: [u8; 2] = [144, 147];

/// What keeps the kernel quiet. The table outlives the daemon: peers repeat themselves until it is back.
pub(crate) enum Quiet {
    Table(Socket),
    /// Takes plain mobility headers, and throws them away.
    Sink(#[allow(dead_code, reason = "works by being open")] OwnedFd),
}

impl Quiet {
    /// Silences the kernel; also says why it had to be done the lesser way, if so.
    pub(crate) fn keep() -> Result<(Quiet, Option<String>), Error> {
        match install() {
            Ok(socket) => Ok((Quiet::Table(socket), None)),
            Err(error) => {
                let notice =
                    format!("{error}; the kernel will answer mobility messages that carry options with errors");
                Ok((Quiet::Sink(sink()?), Some(notice)))
            }
        }
    }

    /// Lets the kernel speak again.
    pub(crate) fn clean(&self) -> Result<(), Error> {
        match self {
            Quiet::Table(socket) => commit(socket, vec![table(DEL_TABLE, 0)]),
            Quiet::Sink(_) => Ok(()),
        }
    }
}

fn install() -> Result<Socket, Error> {
    let what = "nftables";
    let mut socket = Socket::new(protocols::NETLINK_NETFILTER).context(what)?;
    socket.bind_auto().context(what)?;
    socket.connect(&SocketAddr::new(0, 0)).context(what)?;
    socket.set_ext_ack(true).context(what)?;
    socket.set_cap_ack(true).context(what)?;
    let mobility = [load_protocol(), equal(MOBILITY), drop_packet()];
    let discovery = [load_protocol(), equal(ICMPV6), load_icmp_type(), between(DISCOVERY), drop_packet()];
    // The kernel's own IPsec puts neither of the two in front of ESP.
    let sealed = [load_protocol(), equal(ESP), load_presence(DESTINATION), equal(1), drop_packet()];
    let answered = [load_protocol(), equal(ESP), load_routing_type(), equal(HOME_ROUTING), drop_packet()];
    let rules = [rule(&mobility), rule(&discovery), rule(&sealed), rule(&answered)];
    // Made, removed and made again in one transaction: empty, whatever was there.
    let table = || table(NEW_TABLE, NLM_F_CREATE);
    let fresh = [table(), self::table(DEL_TABLE, 0), table(), chain()];
    commit(&socket, fresh.into_iter().chain(rules).collect())?;
    Ok(socket)
}

/// A raw socket is enough for the kernel to believe somebody takes care of a protocol.
fn sink() -> Result<OwnedFd, Error> {
    let what = "raw socket for mobility headers";
    let socket = sys::raw_socket(libc::IPPROTO_MH).context(what)?;
    let refuse = FilterStep { code: (libc::BPF_RET | libc::BPF_K) as u16, jt: 0, jf: 0, k: 0 };
    sys::attach_filter(&socket, &[refuse]).context(what)?;
    Ok(socket)
}

// Messages of nftables: types, then builders, after the kernel's linux/netfilter/nf_tables.h.

const NLM_F_REQUEST: u16 = 1;
const NLM_F_ACK: u16 = 4;
const NLM_F_CREATE: u16 = 0x400;
const NLM_F_APPEND: u16 = 0x800;
const NESTED: u16 = 0x8000;
const BATCH_BEGIN: u16 = 0x10;
const BATCH_END: u16 = 0x11;
const NEW_TABLE: u16 = 0x0a00;
const DEL_TABLE: u16 = 0x0a02;
const NEW_CHAIN: u16 = 0x0a03;
const NEW_RULE: u16 = 0x0a06;

/// One message: type, flags, attributes.
struct Message(u16, u16, Vec<u8>);

/// Carries out all messages or none.
fn commit(socket: &Socket, changes: Vec<Message>) -> Result<(), Error> {
    let mut bytes = Vec::new();
    let last = changes.len();
    append(&mut bytes, 0, &Message(BATCH_BEGIN, 0, Vec::new()));
    for (number, Message(kind, flags, attributes)) in (1_u32..).zip(changes) {
        let ack = if number as usize == last { NLM_F_ACK } else { 0 };
        append(&mut bytes, number, &Message(kind, flags | ack, attributes));
    }
    append(&mut bytes, 0, &Message(BATCH_END, 0, Vec::new()));
    socket.send(&bytes, 0).context("nftables")?;
    loop {
        let mut answer = Vec::with_capacity(16 * 1024);
        // The answer is queued before the request returns; none means that there is no nftables.
        socket.recv(&mut answer, libc::MSG_DONTWAIT).context("nftables")?;
        for message in messages(&answer) {
            if let Some((_, why)) = refusal(&message) {
                return Err(Error::new("nftables", why));
            }
            if message.sequence_number() as usize == last {
                return Ok(());
            }
        }
    }
}

fn append(bytes: &mut Vec<u8>, number: u32, Message(kind, flags, attributes): &Message) {
    let batch = matches!(*kind, BATCH_BEGIN | BATCH_END);
    let family = if batch { 0 } else { libc::NFPROTO_IPV6 as u8 };
    let resource = if batch { libc::NFNL_SUBSYS_NFTABLES as u16 } else { 0 };
    bytes.extend((20 + attributes.len() as u32).to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend((NLM_F_REQUEST | flags).to_ne_bytes());
    bytes.extend(number.to_ne_bytes());
    bytes.extend([0; 4]);
    bytes.extend([family, 0]);
    bytes.extend(resource.to_be_bytes());
    bytes.extend(attributes);
}

fn table(kind: u16, flags: u16) -> Message {
    Message(kind, flags, text(1, TABLE))
}

fn chain() -> Message {
    let hook = [number(1, libc::NF_INET_LOCAL_IN.cast_unsigned()), number(2, PRIORITY.cast_unsigned())];
    let parts = [text(1, TABLE), text(3, CHAIN), group(4, &hook), text(7, "filter")];
    Message(NEW_CHAIN, NLM_F_CREATE, parts.concat())
}

fn rule(expressions: &[Vec<u8>]) -> Message {
    let parts = [text(1, TABLE), text(2, CHAIN), group(4, expressions)];
    Message(NEW_RULE, NLM_F_CREATE | NLM_F_APPEND, parts.concat())
}

/// Loads the protocol behind all extension headers.
fn load_protocol() -> Vec<u8> {
    expression("meta", &[number(1, REGISTER), number(2, libc::NFT_META_L4PROTO.cast_unsigned())])
}

fn load_icmp_type() -> Vec<u8> {
    const TRANSPORT: u32 = 2;
    expression("payload", &[number(1, REGISTER), number(2, TRANSPORT), number(3, 0), number(4, 1)])
}

/// 1 if the packet has an extension header of this type, else 0.
fn load_presence(header: u8) -> Vec<u8> {
    const PRESENT: u32 = 1;
    let place = [attribute(2, &[header]), number(3, 0), number(4, 1), number(5, PRESENT)];
    expression("exthdr", &[number(1, REGISTER), place.concat()])
}

/// The type of the routing header; a packet without one matches nothing.
fn load_routing_type() -> Vec<u8> {
    expression("exthdr", &[number(1, REGISTER), attribute(2, &[ROUTING]), number(3, 2), number(4, 1)])
}

fn equal(value: u8) -> Vec<u8> {
    expression("cmp", &[number(1, REGISTER), number(2, 0), group(3, &[attribute(1, &[value])])])
}

fn between([first, last]: [u8; 2]) -> Vec<u8> {
    let ends = [group(3, &[attribute(1, &[first])]), group(4, &[attribute(1, &[last])])];
    expression("range", &[number(1, REGISTER), number(2, 0), ends.concat()])
}

fn drop_packet() -> Vec<u8> {
    let verdict = group(2, &[number(1, libc::NF_DROP.cast_unsigned())]);
    expression("immediate", &[number(1, 0), group(2, &[verdict])])
}

const REGISTER: u32 = 1;

fn expression(name: &str, parts: &[Vec<u8>]) -> Vec<u8> {
    group(1, &[text(1, name), group(2, parts)])
}

fn group(kind: u16, parts: &[Vec<u8>]) -> Vec<u8> {
    attribute(kind | NESTED, &parts.concat())
}

fn text(kind: u16, value: &str) -> Vec<u8> {
    attribute(kind, &[value.as_bytes(), &[0]].concat())
}

fn number(kind: u16, value: u32) -> Vec<u8> {
    attribute(kind, &value.to_be_bytes())
}

fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::from((4 + value.len() as u16).to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::door::packet::{Kind, Tap};
    use crate::door::raw::Exit;
    use nix::sched::{CloneFlags, unshare};
    use roam6_proto::{Transmit, Via};

    /// Whether the kernel answers a mobility header to this very host with an error.
    fn is_answered() -> bool {
        let mut packet = vec![0x60, 0, 0, 0, 0, 8, MOBILITY, 64];
        packet.extend(std::net::Ipv6Addr::LOCALHOST.octets().repeat(2));
        packet.extend([59, 0, 0, 0, 0, 0, 0, 0]);
        let mut tap = Tap::open(Kind::Feedback).unwrap();
        Exit::open().unwrap().send(&Transmit { via: Via::Route, bytes: packet }, None).unwrap();
        std::thread::sleep(core::time::Duration::from_millis(50));
        tap.receive().unwrap().is_some()
    }

    #[test]
    fn the_lesser_way_silences_plain_mobility_headers() {
        if let Err(error) = unshare(CloneFlags::CLONE_NEWNET) {
            return println!("skipped: the_lesser_way_silences_plain_mobility_headers: no network namespace: {error}");
        }
        std::process::Command::new("ip").args(["link", "set", "lo", "up"]).status().unwrap();
        assert!(is_answered());
        let sink = sink().unwrap();
        assert!(!is_answered());
        drop(sink);
        assert!(is_answered());
    }
}
