//! Where packets enter and leave: ears for what engines want, a raw exit, and silence of the kernel in between.

pub(crate) mod receiver;
pub(crate) mod frames;
mod raw_socket;
pub(crate) mod packet_socket;
pub(crate) mod udp_port_hold;
pub(crate) mod kernel_icmp_filter;
pub(crate) mod raw_sender;
pub(crate) mod retry_queue;
