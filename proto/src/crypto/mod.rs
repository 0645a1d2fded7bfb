//! Authenticators, ESP, signatures, and addresses that prove their owner.

pub mod authenticator;
pub mod cga;
pub mod esp;
pub mod hba;
pub mod key_agreement;
pub mod path_esp;
pub mod signature;
pub mod wireguard;
