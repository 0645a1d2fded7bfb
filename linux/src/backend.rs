//! Selects the tunnel back end.

use crate::error::Error;
use crate::options::{Backend, HostOptions};
use crate::tunnel::Tunnels;
use crate::tunnel::ip6tnl::Ip6Tnl;
use crate::tunnel::none::NoTunnels;

/// Opens the configured back end.
///
/// # Errors
/// The kernel's, if the device or the programs are refused.
pub(crate) fn open(options: &HostOptions) -> Result<Box<dyn Tunnels + Send>, Error> {
    let needs_bpf = needs_bpf(options);
    match options.backend {
        Backend::Ip6tnl if needs_bpf => Err(Error::new("encryption", "it needs data_plane = \"bpf\"")),
        Backend::Auto if needs_bpf => bpf(options, false),
        Backend::Bpf => bpf(options, false),
        Backend::Xdp => bpf(options, true),
        Backend::Ip6tnl => ip6tnl(options),
        Backend::None => Ok(Box::new(NoTunnels)),
        Backend::Auto => bpf(options, false)
            .or_else(|why| ip6tnl(options).map_err(|error| Error::new("no tunnels", format!("{why}; {error}")))),
    }
}

/// Whether paths are encrypted, which only BPF can.
#[cfg(feature = "bpf")]
fn needs_bpf(options: &HostOptions) -> bool {
    options.encryption != crate::wireguard::Encryption::Off
}

#[cfg(not(feature = "bpf"))]
fn needs_bpf(_: &HostOptions) -> bool {
    false
}

#[cfg(feature = "bpf")]
fn bpf(options: &HostOptions, at_driver: bool) -> Result<Box<dyn Tunnels + Send>, Error> {
    use crate::tunnel::bpf::{Bpf, Options};
    let HostOptions {
        run_dir: run,
        state_dir,
        device,
        max_tunnels,
        dsmip_addresses,
        udp6_addresses,
        encryption,
        bonding,
        ..
    } = options.clone();
    let xdp = at_driver;
    Ok(Box::new(Bpf::open(Options {
        device,
        run,
        state_dir,
        xdp,
        max_tunnels,
        dsmip_addresses,
        udp6_addresses,
        encryption,
        bonding,
    })?))
}

#[cfg(not(feature = "bpf"))]
fn bpf(_: &HostOptions, _: bool) -> Result<Box<dyn Tunnels + Send>, Error> {
    Err(Error::new("tunnels by BPF", "not part of this build"))
}

fn ip6tnl(options: &HostOptions) -> Result<Box<dyn Tunnels + Send>, Error> {
    Ok(Box::new(Ip6Tnl::open(&format!("{}-", options.device))?))
}
