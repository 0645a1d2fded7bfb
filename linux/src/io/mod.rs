//! Where packets enter and leave: ears for what engines want, a raw exit, and silence of the kernel in between.

pub(crate) mod frames;
pub(crate) mod kernel_icmp_filter;
pub(crate) mod packet_socket;
pub(crate) mod raw_sender;
mod raw_socket;
pub(crate) mod receiver;
pub(crate) mod retry_queue;
pub(crate) mod udp_port_hold;
