//! Kernel features, settings, clock, disk and the programs that manage networks.

use crate::error::{Context, Error};
use crate::nft::Nftables;
use crate::sys;
use core::fmt;
use nix::sys::statfs::{TMPFS_MAGIC, statfs};
use nix::sys::statvfs::statvfs;
use nix::sys::time::{TimeSpec, TimeValLike};
use nix::time::{ClockId, clock_gettime};
use std::fs;
use std::path::Path;

/// The state of UDP sockets that receive, in `/proc/net/udp` (TCP_CLOSE of linux/net/tcp_states.h).
const UDP_OPEN: &str = "07";

/// A setting below `/proc/sys`, such as `net.ipv6.conf.all.forwarding`; `None` if there is none. A name of an interface may
/// contain a dot: separate with slashes then.
pub fn sysctl(name: &str) -> Option<String> {
    let path = if name.contains('/') { name.to_owned() } else { name.replace('.', "/") };
    let value = fs::read_to_string(Path::new("/proc/sys").join(path)).ok()?;
    Some(value.trim().to_owned())
}

/// What the kernel offers to tunnels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KernelFeatures {
    /// TUN devices (`/dev/net/tun`).
    pub tun: bool,
    /// Type information for BPF programs (BTF).
    pub btf: bool,
    /// The module ip6_tunnel, loaded or loadable.
    pub ip6_tunnel: bool,
    /// nftables.
    pub nftables: bool,
}

/// What the kernel offers to tunnels.
pub fn kernel_features() -> KernelFeatures {
    KernelFeatures {
        tun: Path::new("/dev/net/tun").exists(),
        btf: Path::new("/sys/kernel/btf/vmlinux").exists(),
        ip6_tunnel: has_module("ip6_tunnel"),
        nftables: Nftables::open().and_then(|nftables| nftables.has_table("roam6")).is_ok(),
    }
}

/// Whether a module is loaded, built in, or can be loaded.
fn has_module(name: &str) -> bool {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let folder = Path::new("/lib/modules").join(release.trim());
    let listed = |file: &str| {
        fs::read_to_string(folder.join(file)).is_ok_and(|list| list.lines().any(|line| is_module(line, name)))
    };
    Path::new("/sys/module").join(name).exists() || listed("modules.builtin") || listed("modules.dep")
}

/// Whether a line of `modules.dep` or `modules.builtin` is that of this module.
fn is_module(line: &str, name: &str) -> bool {
    let file = line.split(':').next().unwrap_or_default().rsplit('/').next().unwrap_or_default();
    file.split(".ko").next().is_some_and(|module| module.replace('-', "_") == name)
}

/// The wall clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockState {
    /// Seconds since 1970-01-01T00:00Z.
    pub unix: u64,
    /// Whether the kernel takes it for synchronised, as by NTP.
    pub synchronised: bool,
}

/// The wall clock.
pub fn clock_state() -> ClockState {
    let unix = TimeValLike::num_seconds(&clock_gettime(ClockId::CLOCK_REALTIME).unwrap_or(TimeSpec::new(0, 0)));
    let unix = u64::try_from(unix).unwrap_or_default();
    ClockState { unix, synchronised: sys::is_clock_synchronised() }
}

/// Octets that are free in the file system of a folder.
///
/// # Errors
/// The system's, as where there is no such folder.
pub fn free_space(folder: &Path) -> Result<u64, Error> {
    let found = statvfs(folder).context(folder.display())?;
    #[allow(clippy::useless_conversion, reason = "32 bits on some machines")]
    Ok(u64::from(found.blocks_available()).saturating_mul(u64::from(found.fragment_size())))
}

/// Whether a folder, or the one that it is to be made in, is in memory: what is written there is lost with the power.
pub fn is_volatile(folder: &Path) -> bool {
    let held = folder.ancestors().find_map(|there| statfs(there).ok());
    held.is_some_and(|held| held.filesystem_type() == TMPFS_MAGIC)
}

/// Whether a program of this network namespace receives on a UDP port, of any address and either family.
pub fn is_udp_port_open(port: u16) -> bool {
    ["/proc/thread-self/net/udp6", "/proc/thread-self/net/udp"].iter().any(|table| {
        fs::read_to_string(table).is_ok_and(|text| text.lines().skip(1).any(|line| is_open_on(line, port)))
    })
}

/// Whether a line of `/proc/net/udp` is of a socket that receives on this port.
fn is_open_on(line: &str, port: u16) -> bool {
    let mut fields = line.split_ascii_whitespace().skip(1);
    let local = fields.next().and_then(|local| u16::from_str_radix(local.rsplit(':').next()?, 16).ok());
    local == Some(port) && fields.nth(1) == Some(UDP_OPEN)
}

/// A program that manages networks or their firewalls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manager {
    /// NetworkManager.
    NetworkManager,
    /// systemd-networkd.
    Networkd,
    /// dhcpcd.
    Dhcpcd,
    /// The firewall of Ubuntu.
    Ufw,
    /// firewalld.
    Firewalld,
    /// OpenWrt's several uplinks.
    Mwan3,
}

impl Manager {
    const ALL: [Manager; 6] =
        [Manager::NetworkManager, Manager::Networkd, Manager::Dhcpcd, Manager::Ufw, Manager::Firewalld, Manager::Mwan3];

    /// Whether it manages this interface, as far as it tells; `false` for firewalls.
    pub fn manages(self, index: u32) -> bool {
        let says = |folder: &str, wanted: &[&str]| {
            let file = Path::new(folder).join(index.to_string());
            fs::read_to_string(file).is_ok_and(|text| text.lines().any(|line| wanted.contains(&line)))
        };
        match self {
            Manager::NetworkManager => says("/run/NetworkManager/devices", &["managed=true", "managed=1"]),
            Manager::Networkd => says(
                "/run/systemd/netif/links",
                &["ADMIN_STATE=configured", "ADMIN_STATE=configuring", "ADMIN_STATE=pending"],
            ),
            Manager::Dhcpcd => is_running(self),
            Manager::Ufw | Manager::Firewalld | Manager::Mwan3 => false,
        }
    }
}

impl fmt::Display for Manager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Manager::NetworkManager => "NetworkManager",
            Manager::Networkd => "systemd-networkd",
            Manager::Dhcpcd => "dhcpcd",
            Manager::Ufw => "ufw",
            Manager::Firewalld => "firewalld",
            Manager::Mwan3 => "mwan3",
        })
    }
}

/// The programs that manage networks here, by the files that they leave while they run.
pub fn managers() -> Vec<Manager> {
    Manager::ALL.into_iter().filter(|manager| is_running(*manager)).collect()
}

fn is_running(manager: Manager) -> bool {
    let any = |paths: &[&str]| paths.iter().any(|path| Path::new(path).exists());
    match manager {
        Manager::NetworkManager => any(&["/run/NetworkManager/devices"]),
        Manager::Networkd => any(&["/run/systemd/netif/state"]),
        Manager::Dhcpcd => any(&["/run/dhcpcd/pid", "/run/dhcpcd.pid", "/run/dhcpcd/sock"]),
        Manager::Ufw => fs::read_to_string("/etc/ufw/ufw.conf")
            .is_ok_and(|text| text.lines().any(|line| line.trim().eq_ignore_ascii_case("ENABLED=yes"))),
        Manager::Firewalld => any(&["/run/firewalld.pid", "/run/firewalld/pid"]),
        Manager::Mwan3 => any(&["/var/run/mwan3"]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_modules_and_sockets_are_read() {
        for line in ["kernel/net/ipv6/ip6_tunnel.ko: kernel/net/ipv6/tunnel6.ko", "kernel/net/ipv6/ip6-tunnel.ko.xz:"] {
            assert!(is_module(line, "ip6_tunnel"), "{line}");
        }
        assert!(!is_module("kernel/net/ipv6/tunnel6.ko: kernel/net/ipv6/ip6_tunnel.ko", "ip6_tunnel"));
        let line =
            " 123: 00000000000000000000000000000000:105F 00000000000000000000000000000000:0000 07 00000000:00000000";
        assert!(is_open_on(line, 4191));
        assert!(!is_open_on(line, 546));
        assert!(!is_open_on(&line.replace(" 07 ", " 01 "), 4191), "connected to one peer");
        assert!(!is_open_on("", 0));
    }

    #[test]
    fn settings_are_read_by_dots_and_slashes() {
        assert!(sysctl("net.ipv6.conf.all.forwarding").is_some());
        assert_eq!(sysctl("net/ipv6/conf/lo/forwarding"), sysctl("net.ipv6.conf.lo.forwarding"));
        assert_eq!(sysctl("net.ipv6.conf.none0.forwarding"), None);
    }
}
