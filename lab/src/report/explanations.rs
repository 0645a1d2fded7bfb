//! Explanations in the report: the document that a group of experiments refers to, and how to read each experiment.

use serde_json::Value;

/// A group of experiments, by the prefix of their names.
pub(super) struct Chapter {
    pub(super) prefix: &'static str,
    pub(super) title: &'static str,
    pub(super) about: &'static str,
}

/// In the order of the page.
pub(super) const CHAPTERS: &[Chapter] = &[
    Chapter {
        prefix: "nemo/",
        title: "Mobile networks",
        about: "Compared with Lightweight NEMO for low-end devices (Almodovar and others, 2008), which measured packets per \
                second and did not measure handovers.",
    },
    Chapter {
        prefix: "mptcp/",
        title: "The direct path",
        about: "Compared with NEMO augmented with MPTCP (Mitharwal, Lohr, Gravey; 2016), which restarted its connections at \
                each handover.",
    },
    Chapter {
        prefix: "geonet/",
        title: "GeoNetworking",
        about: "Compared with CarGeo6 (Toukabri and others, 2011): 2 to 10 ms over one hop, and packets larger than 1350 \
                octets were lost.",
    },
    Chapter {
        prefix: "shim6/",
        title: "Several providers",
        about: "Compared with LinShim6 (Barré, Ronan, Bonaventure), a patch of the kernel.",
    },
    Chapter { prefix: "lab/", title: "The testbed itself", about: "The accuracy of the testbed's links." },
];

/// How to read the figures of each experiment.
const EXPLANATIONS: &[(&str, &str)] = &[
    ("lab/links", "Accuracy of delay, loss and re-plugging of the links, which limits all other figures."),
    (
        "mptcp/handover",
        "One connection through every kind of handover. The silence is measured at the application, by the tunnel and on the \
         direct path.",
    ),
    ("mptcp/many", "Each line is one kind of connection, sorted by gap."),
    ("mptcp/model", "The paper's five equations predict the round trips to a fraction of a millisecond."),
    (
        "mptcp/scenarios",
        "With the direct path the delay in a visited network is that at home. By the home agent each byte crosses its link \
         twice, with twice the delay and loss, so the gain is larger than the paper's.",
    ),
    ("nemo/crash", "Effect of a killed daemon. The tunnel is in the kernel and forwards while the daemon is down."),
    (
        "nemo/firewall",
        "No packet passes against the rules of a firewall on either end of the tunnel, in any state of the neighbour cache \
         and during rule changes. The cost of the hooks is compared with plain routers with the same rules.",
    ),
    (
        "nemo/flows",
        "Cost of path selection for each flow. With weights, consecutive packets also leave by two interfaces, so that the \
         kernel batches fewer of them.",
    ),
    (
        "nemo/handover",
        "Gap of each kind of handover, by a train of 1000 packets/s. A hard handover has no cable for 9 ms; its minimum is \
         that and one round trip to the home agent.",
    ),
    ("nemo/home-and-away", "One uplink at home and one away, both in use (RFC 5648 §5.6)."),
    (
        "nemo/hostile",
        "A million bad messages, each of them counted, while the legitimate router keeps its binding; and attacks by \
         outsiders and insiders, whose figures are 0, or the number of times that one packet may be forwarded.",
    ),
    ("nemo/nested", "Mobile routers nested three deep: each tunnel takes 40 octets."),
    (
        "nemo/scale",
        "One home agent by number of bindings. With random networks every packet costs the cache misses of its prefix and \
         its tunnel; plain routing with as many routes costs more.",
    ),
    (
        "nemo/storm",
        "A restart does not require registrations, because bindings are in the journal; here all mobile routers register at \
         the same time.",
    ),
    ("nemo/throughput", "Packets for the same CPU time, in turn within one run; plain routing is 1."),
    ("shim6/generation", "The candidates per second determine the time to generate an address with a higher Sec."),
    ("shim6/recovery", "The outage is the Send Timeout and little more if TCP is told of the new path."),
];

/// The explanation of an experiment; empty if there is none.
pub(super) fn explanation(experiment: &str) -> &'static str {
    EXPLANATIONS.iter().find(|(name, _)| *name == experiment).map_or("", |(_, text)| text)
}

/// Descriptions of the failed checks of a run.
pub(super) fn faults(result: &Value) -> Vec<&str> {
    result.get("faults").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect()
}
