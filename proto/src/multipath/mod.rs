//! Several paths for one connection: which addresses the kernel's MPTCP makes subflows from (RFC 8684).

pub mod advertised;
pub mod link;
pub mod path_manager;
pub mod scenario;
pub(crate) mod source_routes;
pub mod subflow;
#[cfg(test)]
mod tests;

pub use path_manager::PathManager;
