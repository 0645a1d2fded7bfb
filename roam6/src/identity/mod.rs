//! Identities of hosts: files with cryptographically generated or hash-based addresses, and their keys (RFC 3972, RFC 5535).

pub(crate) mod file;
pub(crate) mod key;
