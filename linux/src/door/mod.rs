//! Where packets enter and leave: taps that see what engines want, a raw exit, and silence of the kernel in between.

pub(crate) mod frames;
pub(crate) mod packet;
pub(crate) mod port;
pub(crate) mod quiet;
pub(crate) mod raw;
