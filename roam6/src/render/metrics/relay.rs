//! Metrics of the relay, from its own process.

use super::page::Page;
use roam6_linux::relay::RelayState;

/// A page of them; `None`: no relay answers.
pub(crate) fn render(relay: Option<&RelayState>) -> String {
    let mut page = Page::default();
    page.head("roam6_relay_up", "gauge", "Whether the relay of this host answers.");
    page.sample(&[], if relay.is_some() { "1" } else { "0" });
    if let Some(relay) = relay {
        gauges(&mut page, relay);
        counters(&mut page, relay);
    }
    page.text
}

fn gauges(page: &mut Page, relay: &RelayState) {
    page.head("roam6_relay_connections", "gauge", "Relayed connections that are open.");
    page.sample(&[], &relay.flows.len().to_string());
    page.head("roam6_relay_idle_bearers", "gauge", "MPTCP connections to the other relay that wait for a connection.");
    page.sample(&[], &relay.idle_bearers.to_string());
    page.head("roam6_relay_held_syns", "gauge", "SYNs that are held until the other relay has connected.");
    page.sample(&[], &relay.held_syns.to_string());
}

fn counters(page: &mut Page, relay: &RelayState) {
    let counters = &relay.counters;
    page.head("roam6_relay_connections_total", "counter", "Connections that were relayed.");
    page.sample(&[], &counters.relayed.to_string());
    page.head("roam6_relay_resets_total", "counter", "Relayed connections that ended by a reset.");
    page.sample(&[], &counters.reset.to_string());
    page.head("roam6_relay_left_alone_total", "counter", "Connections left to the tunnel for want of a bearer.");
    page.sample(&[], &counters.left_alone.to_string());
    page.head("roam6_relay_refused_total", "counter", "Connections, requests and bearers refused by reason.");
    for (reason, count) in [
        ("by_destination", counters.refused_by_destination),
        ("no_binding", counters.refused_no_binding),
        ("source", counters.refused_source),
        ("destination", counters.refused_destination),
        ("limit", counters.refused_limit),
        ("malformed", counters.malformed),
    ] {
        page.sample(&[("reason", reason)], &count.to_string());
    }
    page.head("roam6_relay_bytes_total", "counter", "Octets relayed, to the other relay (sent) and from it.");
    for (direction, octets) in [("sent", relay.octets_out), ("received", relay.octets_in)] {
        page.sample(&[("direction", direction)], &octets.to_string());
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use roam6_proto::relay::Counters;

    /// The state of a relay, with another number for each metric.
    pub(in super::super) fn sample() -> RelayState {
        RelayState {
            counters: Counters {
                relayed: 10,
                reset: 11,
                refused_by_destination: 12,
                left_alone: 13,
                refused_no_binding: 14,
                refused_source: 15,
                refused_destination: 16,
                refused_limit: 17,
                malformed: 18,
            },
            idle_bearers: 8,
            held_syns: 3,
            octets_out: 4_300_000_000,
            octets_in: 20,
            flows: Vec::new(),
        }
    }

    #[test]
    fn every_counter_of_the_relay_is_sampled() {
        let page = render(Some(&sample()));
        for line in [
            "roam6_relay_up 1",
            "roam6_relay_connections 0",
            "roam6_relay_idle_bearers 8",
            "roam6_relay_held_syns 3",
            "roam6_relay_connections_total 10",
            "roam6_relay_resets_total 11",
            "roam6_relay_left_alone_total 13",
            "roam6_relay_refused_total{reason=\"by_destination\"} 12",
            "roam6_relay_refused_total{reason=\"no_binding\"} 14",
            "roam6_relay_refused_total{reason=\"source\"} 15",
            "roam6_relay_refused_total{reason=\"destination\"} 16",
            "roam6_relay_refused_total{reason=\"limit\"} 17",
            "roam6_relay_refused_total{reason=\"malformed\"} 18",
            "roam6_relay_bytes_total{direction=\"sent\"} 4300000000",
            "roam6_relay_bytes_total{direction=\"received\"} 20",
        ] {
            assert!(page.lines().any(|found| found == line), "{line} not in\n{page}");
        }
        let samples = render(None).lines().filter(|line| !line.starts_with('#')).count();
        assert_eq!((samples, render(None).contains("roam6_relay_up 0")), (1, true));
    }

    /// A daemon may be newer than the relay that it finds.
    #[test]
    fn the_state_of_an_older_relay_is_read() {
        let mut state = serde_json::to_value(sample()).unwrap();
        for key in ["held_syns", "octets_out", "octets_in"] {
            state.as_object_mut().unwrap().remove(key);
        }
        assert_eq!(serde_json::from_value::<RelayState>(state).unwrap().octets_out, 0);
    }
}
