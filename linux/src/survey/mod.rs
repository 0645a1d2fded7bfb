//! What there is on this host, for commands that explain or prepare it: interfaces, addresses, routes, neighbours,
//! firewalls, and the other programs that manage them. Everything is read, nothing is changed or decided.
//!
//! Files are read below `/proc/thread-self`, and interfaces by netlink: `/sys/class/net` shows the network namespace of its
//! mount, not that of the reader.

mod firewalls;
mod host;
mod interfaces;
mod radio;
mod tables;

pub use firewalls::{BaseChain, ChainHook, LEGACY, base_chains};
pub use host::{
    ClockState, KernelFeatures, Manager, clock_state, free_space, is_udp_port_open, is_volatile, kernel_features,
    managers, sysctl,
};
pub use interfaces::{Interface, InterfaceKind, WifiMode, interface_octets, interfaces};
pub use radio::{is_radio_blocked, nl80211_modes};
pub use tables::{Address, Neighbour, Route, RouteKind, RouteOrigin, addresses, neighbours, route_to, routes};
