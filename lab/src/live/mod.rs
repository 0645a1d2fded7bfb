//! The running testbed in a browser: shows its state, and moves the vehicle with the mouse.

mod geonet;
mod http;
mod link_counters;
mod nemo;
mod packet_log;

use crate::bed::sandbox;
use anyhow::{Context, Result};
use std::net::{Ipv4Addr, TcpListener};

/// The network to show.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(crate) enum Subject {
    /// The networks of the demo: home, FN1, FN2, and a vehicle that can be dragged into another.
    Nemo,
    /// Vehicles on a road: positions, neighbours and packets.
    Geonet,
}

/// Serves the page of a testbed on this port of 127.0.0.1 (0: any free port) until interrupted.
pub(crate) fn run(show: Subject, port: u16) -> Result<bool> {
    // The listener is outside of the sandbox, the testbed inside.
    let listener = sandbox::enter_with_listener(|| {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port));
        listener.with_context(|| format!("cannot serve on port {port} of 127.0.0.1; choose another with --port"))
    })?;
    let site: Box<dyn http::LivePage> = match show {
        Subject::Nemo => {
            println!("building home, FN1, FN2 and a vehicle");
            Box::new(nemo::NemoPage::build()?)
        }
        Subject::Geonet => {
            println!("building a road, a roadside unit and three vehicles");
            Box::new(geonet::GeonetPage::build()?)
        }
    };
    println!("http://{}/   (Ctrl-C ends it)", listener.local_addr()?);
    http::serve(listener, site.as_ref())?;
    Ok(true)
}
