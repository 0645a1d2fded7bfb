//! The running testbed in a browser: shows its state, and moves the vehicle with the mouse.

mod counts;
mod geonet;
mod http;
mod nemo;
mod packets;
mod stage;

use crate::bed::cage;
use anyhow::{Context, Result};
use std::net::{Ipv4Addr, TcpListener};

/// The network to show.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(crate) enum Show {
    /// The networks of the demo: home, FN1, FN2, and a vehicle that can be dragged into another.
    Nemo,
    /// Vehicles on a road: positions, neighbours and packets.
    Geonet,
}

/// Serves the page of a testbed on this port of 127.0.0.1 (0: any free port) until interrupted.
pub(crate) fn run(show: Show, port: u16) -> Result<bool> {
    // The listener is outside of the sandbox, the testbed inside.
    let door = cage::enter_with_door(|| {
        let door = TcpListener::bind((Ipv4Addr::LOCALHOST, port));
        door.with_context(|| format!("cannot serve on port {port} of 127.0.0.1; choose another with --port"))
    })?;
    let site: Box<dyn http::Site> = match show {
        Show::Nemo => {
            println!("building home, FN1, FN2 and a vehicle");
            Box::new(nemo::open()?)
        }
        Show::Geonet => {
            println!("building a road, a roadside unit and three vehicles");
            Box::new(geonet::Geonet::open()?)
        }
    };
    println!("http://{}/   (Ctrl-C ends it)", door.local_addr()?);
    http::serve(door, site.as_ref())?;
    Ok(true)
}
