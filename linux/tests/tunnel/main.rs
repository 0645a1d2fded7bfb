//! Tunnels by BPF between hosts in network namespaces: real packets, real kernel (RFC 2473, RFC 3963 §6.5 and §9).
#![cfg(feature = "bpf")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails where it stands")]
#![allow(clippy::disallowed_methods, reason = "real packets take real time")]
#![allow(unreachable_pub, reason = "nobody uses a test")]

mod carrying;
mod choosing;
mod driver;
mod firewall;
mod hostile;
mod ipv4;
mod kernel;
mod lasting;
mod scene;
#[allow(dead_code, reason = "shared with the fixtures")]
mod world;

/// The scene, or the reason why it cannot be set up here, printed.
#[macro_export]
macro_rules! scene_or_skip {
    ($name:literal) => {
        match $crate::world::obstacle() {
            None => $crate::scene::Scene::new(),
            Some(why) => {
                println!("skipped: {}: {why}", $name);
                return;
            }
        }
    };
}
