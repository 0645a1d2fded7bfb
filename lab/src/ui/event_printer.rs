//! Prints the events that roam6 reports while a demo runs.

use crate::bed::Events;
use crate::threads::Workers;
use crate::ui::terminal::{LineStyle, Terminal};
use anyhow::Result;
use roam6_proto::Report;
use roam6_proto::contract::report::{HostReport, LinkReport, MptcpReport, NemoReport, ShimReport};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Prints what the daemons report until the workers are dropped. Each source is a host's name and what its daemon
/// reports.
pub(crate) fn print_events_of(terminal: &Arc<Terminal>, sources: Vec<(&'static str, Events)>) -> Result<Workers> {
    let (terminal, mut workers) = (terminal.clone(), Workers::default());
    workers.spawn("event printer", move |stop| print_events(&terminal, &sources, stop))?;
    Ok(workers)
}

fn print_events(terminal: &Terminal, sources: &[(&str, Events)], stop: &AtomicBool) {
    let mut printed = vec![0; sources.len()];
    while !stop.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(20));
        let mut news = Vec::new();
        for ((host, events), printed) in sources.iter().zip(&mut printed) {
            let new = events.events_from(*printed);
            *printed += new.len();
            news.extend(new.into_iter().map(|event| (event.unix_micros, *host, event.report)));
        }
        news.sort_by_key(|(moment, ..)| *moment);
        for (moment, host, report) in news {
            if let Some(text) = describe(&report) {
                terminal.timed_line_at(moment, LineStyle::Event, format!("  {host}  {text}"));
            }
        }
    }
}

/// A report in words, if it is worth a line.
pub(crate) fn describe(report: &Report) -> Option<String> {
    let list =
        |addresses: &[std::net::Ipv6Addr]| addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    Some(match report {
        Report::Link(LinkReport::LinkUp { name, .. }) => format!("{name} has carrier"),
        Report::Link(LinkReport::LinkDown { name, .. }) => format!("{name} lost carrier"),
        Report::Link(LinkReport::RouterFound { router, prefix: Some(prefix), .. }) => {
            format!("router {router} advertises {prefix}")
        }
        Report::Nemo(NemoReport::UpdateSent { lifetime: Duration::ZERO, sequence, .. }) => {
            format!("BU {sequence}: de-registers")
        }
        Report::Nemo(NemoReport::UpdateSent { care_of, sequence, lifetime, .. }) => {
            format!("BU {sequence}: care-of {}, lifetime {} s", list(care_of), lifetime.as_secs())
        }
        Report::Nemo(NemoReport::AcknowledgementReceived { status, sequence, .. }) => {
            format!("BA {sequence}: status {status}")
        }
        Report::Nemo(NemoReport::AtHome { .. }) => "at home, de-registered".to_owned(),
        Report::Nemo(NemoReport::Registered { home_address, care_of, .. }) => {
            format!("binding {home_address} -> {}", list(care_of))
        }
        Report::Nemo(NemoReport::Deregistered { home_address, .. }) => format!("binding of {home_address} ended"),
        Report::Nemo(NemoReport::PathDown { care_of, why, .. }) => format!("path by {care_of} is down: {why}"),
        Report::Nemo(NemoReport::PrefixDelegated { prefix, .. }) => format!("{prefix} delegated to the mobile network"),
        Report::Nemo(NemoReport::PrefixLost { prefix, why, .. }) => format!("{prefix} lost: {why}"),
        Report::Mptcp(MptcpReport::EndpointUp { address, backup: true, .. }) => {
            format!("{address} added as backup endpoint")
        }
        Report::Mptcp(MptcpReport::EndpointUp { address, .. }) => format!("{address} added as endpoint"),
        Report::Mptcp(MptcpReport::EndpointDown { address, .. }) => format!("{address} removed as endpoint"),
        Report::Mptcp(MptcpReport::SubflowUp { local, backup, first: false, .. }) => {
            format!("subflow from {}{}", local.ip(), if *backup { ", backup" } else { "" })
        }
        Report::Mptcp(MptcpReport::SubflowDown { local, .. }) => format!("subflow from {} ended", local.ip()),
        Report::Shim(ShimReport::ContextUp { path, locators, .. }) => {
            format!("context established on {path}, {locators} locators of the peer")
        }
        Report::Shim(ShimReport::PathLost { path, why, .. }) => format!("path {path} failed: {why}"),
        Report::Shim(ShimReport::PathChanged { path, after, .. }) => {
            format!("path {path}, found after {} ms", after.as_millis())
        }
        Report::Shim(ShimReport::ContextDown { why, .. }) => format!("context ended: {why}"),
        Report::Host(HostReport::ItemRefused { key, why }) => format!("refused by the kernel: {key:?}: {why}"),
        _ => return None,
    })
}
