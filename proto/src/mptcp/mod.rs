//! MPTCP path manager: the addresses from which the kernel makes subflows (RFC 8684).

pub mod advertised_prefixes;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzz;
pub mod link;
pub mod path_manager;
pub(crate) mod source_routes;
pub mod subflow;
#[cfg(test)]
mod tests;

pub use path_manager::PathManager;
