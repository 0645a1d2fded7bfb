//! Firewalls of other programs on the forwarding path: base chains of nftables, which `iptables-nft` creates too, and
//! tables of the legacy iptables with rules or a policy other than accept. Messages and attributes are those of
//! linux/netfilter/nf_tables.h.

use super::attribute::{NFTA_CHAIN_HOOK, NFTA_CHAIN_NAME, NFTA_CHAIN_TABLE, NFTA_HOOK_HOOKNUM};
use super::hooks::{ForeignHook, Hooks};
use super::iptables_legacy;
use crate::error::Error;
use crate::netlink::attribute::{find, text_of};
use crate::netlink::socket::{encode, exchange, open, repeat_dump};
use netlink_packet_core::NLM_F_DUMP;
use netlink_sys::{Socket, protocols};
use nix::errno::Errno;
use nix::libc;

/// The tables of roam6: the BPF programs drop the same, or never forward it.
const OWN: [&str; 2] = [super::ICMP_FILTER_TABLE, super::SOURCE_FILTER_TABLE];
const GET_CHAIN: u16 = 0x0a04;
const NEW_CHAIN: u16 = 0x0a03;
/// Octets of the family, the version and the resource before the attributes.
const HEAD: usize = 4;

/// Finds firewalls on the forwarding path.
///
/// The socket stays open: a process that closes a socket of NETLINK_NETFILTER waits until the kernel has destroyed what earlier
/// transactions removed, which is after an RCU grace period, up to seconds on a busy machine (nft_rcv_nl_event). Each handover
/// replaces the table of source filters.
#[derive(Default)]
pub(crate) struct FirewallDetector(Option<Socket>);

impl FirewallDetector {
    /// All firewalls on the forwarding path.
    ///
    /// # Errors
    /// The kernel's, if it refuses a dump.
    pub(crate) fn find_all(&mut self) -> Result<Vec<ForeignHook>, Error> {
        let mut found = repeat_dump(|| self.dump())?;
        found.extend(iptables_legacy::find_all()?);
        Ok(found)
    }

    /// The base chains on the forwarding path, and whether they changed meanwhile.
    fn dump(&mut self) -> Result<(Vec<ForeignHook>, bool), Error> {
        let what = "nftables chains";
        let socket = match self.0.take() {
            Some(socket) => socket,
            None => match open(protocols::NETLINK_NETFILTER, what) {
                Ok(socket) => socket,
                // Without nftables there are none.
                Err(_) => return Ok((Vec::new(), false)),
            },
        };
        let mut found = Vec::new();
        let changed = exchange(&socket, &encode(GET_CHAIN, NLM_F_DUMP, 0, &[0; HEAD]), 0, |message| {
            if message.message_type() == NEW_CHAIN {
                found.extend(read_chain(message.payload()));
            }
        });
        match changed {
            // A kernel without nftables.
            Err((Errno::EINVAL | Errno::EOPNOTSUPP | Errno::EPROTONOSUPPORT, _)) => Ok((found, false)),
            // The rest of the reply may still be queued: the next dump has a socket of its own.
            Err((_, why)) => Err(Error::new(what, why)),
            Ok(changed) => {
                self.0 = Some(socket);
                Ok((found, changed))
            }
        }
    }
}

/// A base chain on the forwarding path, of packets or of their frames, that is not of roam6.
fn read_chain(payload: &[u8]) -> Option<ForeignHook> {
    let family = i32::from(*payload.first()?);
    let attributes = payload.get(HEAD..)?;
    let hook = find(find(attributes, NFTA_CHAIN_HOOK)?, NFTA_HOOK_HOOKNUM)?;
    let hook = i32::from_be_bytes(*hook.first_chunk()?);
    let (family, hooks) = forwarding_hooks(family, hook)?;
    let text = |kind| find(attributes, kind).map(text_of);
    let (table, chain) = (text(NFTA_CHAIN_TABLE)?, text(NFTA_CHAIN_NAME)?);
    let own = family == "ip6" && OWN.contains(&table.as_str());
    (!own).then(|| ForeignHook { name: format!("nftables {family} {table} {chain}"), hooks })
}

/// The name of a chain's family, and which forwarded packets its hook filters; `None`: none.
fn forwarding_hooks(family: i32, hook: i32) -> Option<(&'static str, Hooks)> {
    const INGRESS: i32 = 5;
    let forwards = [libc::NF_INET_PRE_ROUTING, libc::NF_INET_FORWARD, libc::NF_INET_POST_ROUTING].contains(&hook);
    let (ipv6, ipv4) = (Hooks { ipv6: true, ipv4: false }, Hooks { ipv6: false, ipv4: true });
    let both = ipv6.with(ipv4);
    match family {
        libc::NFPROTO_IPV6 if forwards => Some(("ip6", ipv6)),
        libc::NFPROTO_IPV4 if forwards => Some(("ip", ipv4)),
        libc::NFPROTO_INET if forwards || hook == INGRESS => Some(("inet", both)),
        libc::NFPROTO_NETDEV => Some(("netdev", both)),
        // Frames for the bridge itself, which the BPF programs process at its ports.
        libc::NFPROTO_BRIDGE if [libc::NF_INET_PRE_ROUTING, libc::NF_INET_LOCAL_IN].contains(&hook) => {
            Some(("bridge", both))
        }
        _ => None,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails at the assertion")]
mod tests {
    use super::super::attribute::{nested, number, text};
    use super::super::{Hook, Nftables};
    use super::*;
    use nix::sched::{CloneFlags, unshare};
    use nix::sys::stat::fstat;

    /// A base chain as the kernel dumps it.
    fn chain(family: i32, table: &str, hook: i32) -> Vec<u8> {
        let hook = nested(4, &[number(1, hook.cast_unsigned()), number(2, 0)]);
        let head = [u8::try_from(family).unwrap(), 0, 0, 0];
        [&head[..], &text(1, table), &text(3, "c"), &hook].concat()
    }

    #[test]
    fn base_chains_on_the_forwarding_path_are_recognised() {
        use libc::*;
        let (v6, v4) = (Some((true, false)), Some((false, true)));
        let both = Some((true, true));
        for (family, hook, expected) in [
            (NFPROTO_IPV6, NF_INET_FORWARD, v6),
            (NFPROTO_IPV6, NF_INET_PRE_ROUTING, v6),
            (NFPROTO_IPV6, NF_INET_POST_ROUTING, v6),
            (NFPROTO_IPV6, NF_INET_LOCAL_IN, None),
            (NFPROTO_IPV6, NF_INET_LOCAL_OUT, None),
            (NFPROTO_IPV4, NF_INET_FORWARD, v4),
            (NFPROTO_IPV4, NF_INET_LOCAL_IN, None),
            (NFPROTO_INET, NF_INET_FORWARD, both),
            (NFPROTO_INET, NF_INET_LOCAL_OUT, None),
            (NFPROTO_INET, 5, both),
            (NFPROTO_NETDEV, 0, both),
            (NFPROTO_BRIDGE, NF_INET_LOCAL_IN, both),
            (NFPROTO_BRIDGE, NF_INET_FORWARD, None),
            (NFPROTO_ARP, NF_INET_PRE_ROUTING, None),
        ] {
            let found = read_chain(&chain(family, "filter", hook));
            let seen = found.map(|found| (found.hooks.ipv6, found.hooks.ipv4));
            assert_eq!(seen, expected, "family {family}, hook {hook}");
        }
        let found = read_chain(&chain(NFPROTO_INET, "filter", NF_INET_FORWARD)).unwrap();
        assert_eq!(found.name, "nftables inet filter c");
    }

    #[test]
    fn handover_does_not_wait_for_the_destruction_of_replaced_rules() {
        let test = "handover_does_not_wait_for_the_destruction_of_replaced_rules";
        if let Err(error) = unshare(CloneFlags::CLONE_NEWNET) {
            return println!("skipped: {test}: no network namespace: {error}");
        }
        let mut detector = FirewallDetector::default();
        let mut find = || {
            detector.find_all().unwrap();
            detector.0.as_ref().map(|socket| fstat(socket).unwrap().st_ino)
        };
        let Some(first) = find() else { return println!("skipped: {test}: no nftables here") };
        Nftables::open().unwrap().put(super::OWN[1], Hook::Prerouting, &[]).unwrap();
        assert_eq!(find(), Some(first), "to close the socket takes an RCU grace period now");
    }

    #[test]
    fn own_chains_and_chains_without_a_hook_are_ignored() {
        for table in OWN {
            assert_eq!(read_chain(&chain(libc::NFPROTO_IPV6, table, libc::NF_INET_PRE_ROUTING)), None);
            assert!(read_chain(&chain(libc::NFPROTO_INET, table, libc::NF_INET_FORWARD)).is_some());
        }
        let plain = [&[2, 0, 0, 0][..], &text(1, "filter"), &text(3, "c")].concat();
        assert_eq!(read_chain(&plain), None);
        for length in 0..60 {
            let whole = chain(libc::NFPROTO_INET, "filter", libc::NF_INET_FORWARD);
            let _ = read_chain(whole.get(..length).unwrap_or_default());
        }
    }
}
