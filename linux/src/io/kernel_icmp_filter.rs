//! Suppresses the kernel's ICMP errors for messages that engines answer: it knows no mobility headers, home address
//! options or mobile prefix discovery, and would report that to the sender (RFC 4443 §3.4). Forwarded packets are not
//! affected, nor is ESP unless it is behind a home address option.

use crate::error::{Context, Error};
use crate::nft::expression::{accept, between, drop_packet, equal, load_icmp_type};
use crate::nft::expression::{load_presence, load_protocol, load_routing_type};
use crate::nft::{Hook, ICMP_FILTER_TABLE as TABLE, Nftables};
use crate::sys;
use roam6_wire::ip6::protocol;
use std::os::fd::OwnedFd;

/// The routing header type with a home address (RFC 6275 §6.4).
const HOME_ROUTING: u8 = 2;
/// Home agent address discovery and mobile prefix discovery (RFC 6275 §6.5 to §6.8).
const DISCOVERY: [u8; 2] = [144, 147];

/// How the errors are suppressed. The nftables table outlives the daemon: peers retransmit until it is back.
pub(crate) enum KernelIcmpFilter {
    Nftables(Nftables),
    /// A raw socket that receives plain mobility headers and discards them.
    DiscardingSocket(#[allow(dead_code, reason = "works by being open")] OwnedFd),
}

impl KernelIcmpFilter {
    /// Installs the filter; also returns why the fallback had to be taken, if so.
    ///
    /// # Errors
    /// The kernel's, if it refuses both nftables and the raw socket.
    pub(crate) fn open() -> Result<(KernelIcmpFilter, Option<String>), Error> {
        match install() {
            Ok(filter) => Ok((KernelIcmpFilter::Nftables(filter), None)),
            Err(error) => {
                let notice = format!(
                    "{error}; the kernel will send ICMP errors for mobility messages with a home address option"
                );
                Ok((KernelIcmpFilter::DiscardingSocket(discarding_socket(libc::IPPROTO_MH)?), Some(notice)))
            }
        }
    }

    /// Installs the table again if another program has removed it; true if so.
    ///
    /// # Errors
    /// The kernel's, if it refuses the table.
    pub(crate) fn repair(&self) -> Result<bool, Error> {
        match self {
            KernelIcmpFilter::Nftables(filter) if !filter.has_table(TABLE)? => write_rules(filter).map(|()| true),
            _ => Ok(false),
        }
    }

    /// Removes the table that a killed daemon with other roles has left. Without nftables there is none.
    pub(crate) fn remove_stale() {
        let _ = Nftables::open().and_then(|filter| filter.drop(TABLE));
    }

    /// Removes the filter.
    ///
    /// # Errors
    /// The kernel's, if it refuses to remove the table.
    pub(crate) fn clean(&self) -> Result<(), Error> {
        match self {
            KernelIcmpFilter::Nftables(filter) => filter.drop(TABLE),
            KernelIcmpFilter::DiscardingSocket(_) => Ok(()),
        }
    }
}

fn install() -> Result<Nftables, Error> {
    let filter = Nftables::open()?;
    write_rules(&filter)?;
    Ok(filter)
}

fn write_rules(filter: &Nftables) -> Result<(), Error> {
    // Data, encrypted data among it, is spared the other rules.
    let data = vec![load_protocol(), between([0, protocol::ESP - 1]), accept()];
    let mobility = vec![load_protocol(), equal(protocol::MOBILITY), drop_packet()];
    let discovery = vec![load_protocol(), equal(protocol::ICMPV6), load_icmp_type(), between(DISCOVERY), drop_packet()];
    // The kernel's own IPsec has neither of the two before ESP.
    let sealed =
        vec![load_protocol(), equal(protocol::ESP), load_presence(protocol::DESTINATION), equal(1), drop_packet()];
    let answered = vec![load_protocol(), equal(protocol::ESP), load_routing_type(), equal(HOME_ROUTING), drop_packet()];
    filter.put(TABLE, Hook::Input, &[data, mobility, discovery, sealed, answered])
}

/// With a raw socket the kernel takes a protocol for implemented, and sends no error for it.
///
/// # Errors
/// The kernel's, if it refuses the socket.
pub(crate) fn discarding_socket(protocol: libc::c_int) -> Result<OwnedFd, Error> {
    let what = format_args!("raw socket of protocol {protocol}");
    let socket = sys::raw_socket(libc::AF_INET6, protocol).context(what)?;
    sys::attach_filter(&socket, &[sys::REFUSE]).context(what)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::packet_socket::{PacketFilter, PacketSocket};
    use crate::io::raw_sender::RawSender;
    use nix::sched::{CloneFlags, unshare};
    use roam6_proto::{Transmit, Via};

    /// Whether the kernel answers a mobility header to this host with an ICMPv6 error.
    fn kernel_sends_icmp_error() -> bool {
        let mut packet = vec![0x60, 0, 0, 0, 0, 8, protocol::MOBILITY, 64];
        packet.extend(std::net::Ipv6Addr::LOCALHOST.octets().repeat(2));
        packet.extend([59, 0, 0, 0, 0, 0, 0, 0]);
        let mut socket = PacketSocket::open(PacketFilter::IcmpErrors).unwrap();
        RawSender::open().unwrap().send(&Transmit { via: Via::Route, bytes: packet }, None).unwrap();
        std::thread::sleep(core::time::Duration::from_millis(50));
        socket.receive().unwrap().is_some()
    }

    #[test]
    fn nftables_rules_of_a_killed_daemon_are_removed() {
        const NAME: &str = "nftables_rules_of_a_killed_daemon_are_removed";
        if let Err(error) = unshare(CloneFlags::CLONE_NEWNET) {
            return println!("skipped: {NAME}: no network namespace: {error}");
        }
        std::process::Command::new("ip").args(["link", "set", "lo", "up"]).status().unwrap();
        match KernelIcmpFilter::open().unwrap() {
            (KernelIcmpFilter::Nftables(_), _) => assert!(!kernel_sends_icmp_error()),
            (KernelIcmpFilter::DiscardingSocket(_), fallback) => {
                return println!("skipped: {NAME}: {}", fallback.unwrap_or_default());
            }
        }
        KernelIcmpFilter::remove_stale();
        assert!(kernel_sends_icmp_error());
    }

    #[test]
    fn discarding_socket_suppresses_icmp_errors_for_mobility_headers() {
        if let Err(error) = unshare(CloneFlags::CLONE_NEWNET) {
            return println!(
                "skipped: discarding_socket_suppresses_icmp_errors_for_mobility_headers: no network namespace: {error}"
            );
        }
        std::process::Command::new("ip").args(["link", "set", "lo", "up"]).status().unwrap();
        assert!(kernel_sends_icmp_error());
        let sink = discarding_socket(libc::IPPROTO_MH).unwrap();
        assert!(!kernel_sends_icmp_error());
        drop(sink);
        assert!(kernel_sends_icmp_error());
    }
}
