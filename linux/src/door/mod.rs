//! Where packets enter and leave: ears for what engines want, a raw exit, and silence of the kernel in between.

pub(crate) mod ears;
pub(crate) mod frames;
mod letterbox;
pub(crate) mod packet;
pub(crate) mod port;
pub(crate) mod quiet;
pub(crate) mod raw;
pub(crate) mod unsent;
