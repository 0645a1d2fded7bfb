//! The testbed in a browser while it runs: look at it, and move the vehicle with the mouse.

mod counts;
mod http;
mod nemo;
mod stage;

use crate::bed::cage;
use anyhow::{Context, Result};
use std::net::{Ipv4Addr, TcpListener};

/// Serves the page of the testbed on this port of this machine, 0 for any, until it is interrupted.
pub(crate) fn run(port: u16) -> Result<bool> {
    // The page is for the machine outside; what it shows is in the cage.
    let door = cage::enter_with_door(|| {
        let door = TcpListener::bind((Ipv4Addr::LOCALHOST, port));
        door.with_context(|| format!("cannot serve on port {port} of 127.0.0.1; choose another with --port"))
    })?;
    println!("building home, FN1, FN2 and a vehicle");
    let stage = nemo::open()?;
    println!("http://{}/   (Ctrl-C ends it)", door.local_addr()?);
    http::serve(door, &stage)?;
    Ok(true)
}
