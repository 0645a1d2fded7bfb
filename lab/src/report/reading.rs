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
        title: "A network that moves",
        about: "Beside Lightweight NEMO for low-end devices (Almodovar and others, 2008), which measured packets a second \
                and left handover unmeasured.",
    },
    Chapter {
        prefix: "mptcp/",
        title: "The direct path",
        about: "Beside NEMO augmented with MPTCP (Mitharwal, Lohr, Gravey; 2016), which restarted its connections at each move.",
    },
    Chapter {
        prefix: "geonet/",
        title: "Addressed by place",
        about: "Beside CarGeo6 (Toukabri and others, 2011), which had 2 to 10 ms over one hop and lost what was larger than 1350 octets.",
    },
    Chapter {
        prefix: "shim6/",
        title: "Several providers",
        about: "Beside LinShim6 (Barré, Ronan, Bonaventure), which patched the kernel.",
    },
    Chapter { prefix: "lab/", title: "The testbed itself", about: "What the links of the testbed are worth." },
];

/// How to read the figures of each experiment.
const READING: &[(&str, &str)] = &[
    ("lab/links", "How exactly the links delay, lose and are re-plugged: what follows can be no finer than this."),
    (
        "mptcp/handover",
        "One connection through every kind of move. The silence is what the application saw; by the tunnel, and straight.",
    ),
    ("mptcp/many", "Each line is one way of all connections at once, the quickest to recover first."),
    ("mptcp/model", "The paper's five equations give the round trips to a fraction of a millisecond."),
    (
        "mptcp/scenarios",
        "With the direct path a visited network costs no more than home. By the home agent each byte crosses its line twice \
         and meets its delay and loss twice, so the gain is more than the paper's.",
    ),
    ("nemo/crash", "What a killed daemon costs: the tunnel is the kernel's, so nothing while it is away."),
    (
        "nemo/firewall",
        "What the rules of a firewall on either end of the tunnel forbid does not pass, whatever the neighbour cache holds \
         and while rules change; and what its hooks cost, beside plain routers with the same rules.",
    ),
    (
        "nemo/flows",
        "What it costs to choose a path for each flow; and by weights, that packets behind one another leave by two \
         interfaces, so that the kernel does less of its work for many at once.",
    ),
    (
        "nemo/handover",
        "How long the network is silent at each kind of move, seen by 1000 packets a second. A hard move has no cable for 9 ms, \
         and can be no shorter than that and one round trip to the home agent.",
    ),
    ("nemo/home-and-away", "One uplink at home and one abroad, both in use (RFC 5648 §5.6)."),
    (
        "nemo/hostile",
        "A million bad messages, each of them accounted for, while the legitimate router works on; and attacks by \
         outsiders and insiders, whose figures are 0, or the few times one packet may be forwarded.",
    ),
    ("nemo/nested", "A router in the network of a router in the network of a router: each tunnel takes 40 octets."),
    (
        "nemo/scale",
        "What one home agent carries as its bindings grow. With random networks every packet costs the cache misses of its \
         prefix and its tunnel; plain routing with as many routes pays more.",
    ),
    (
        "nemo/storm",
        "Nobody need register after a restart, because bindings are in the journal; here everybody does, at once.",
    ),
    ("nemo/throughput", "Packets for the same processor time, in turns within one run; plain routing is 1."),
    ("shim6/generation", "Candidates tried in a second decide how long an address of a higher Sec takes to make."),
    ("shim6/recovery", "How long an application stands still is the Send Timeout and little more, if TCP is told."),
];

/// The explanation of an experiment; empty if there is none.
pub(super) fn of(experiment: &str) -> &'static str {
    READING.iter().find(|(name, _)| *name == experiment).map_or("", |(_, text)| text)
}

/// Descriptions of the failed checks of a run.
pub(super) fn faults(result: &Value) -> Vec<&str> {
    result.get("faults").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect()
}
