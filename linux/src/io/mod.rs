//! Receive sockets for the packets that engines handle, the raw transmit socket, and the nftables rules that suppress
//! the kernel's ICMP errors.

pub(crate) mod frames;
pub(crate) mod kernel_icmp_filter;
pub(crate) mod packet_socket;
pub(crate) mod raw_sender;
mod raw_socket;
pub(crate) mod receiver;
pub(crate) mod retry_queue;
pub(crate) mod router_cache;
pub(crate) mod udp_port_hold;
