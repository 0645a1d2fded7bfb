//! Names of the causes of events.

/// Names of the causes (TS 102 894-2 §A.10).
const CAUSE_NAMES: [(&str, u8); 26] = [
    ("traffic-condition", 1),
    ("accident", 2),
    ("roadworks", 3),
    ("impassability", 5),
    ("adhesion", 6),
    ("aquaplaning", 7),
    ("surface-condition", 9),
    ("obstacle", 10),
    ("animal", 11),
    ("human-presence", 12),
    ("wrong-way", 14),
    ("rescue-work", 15),
    ("extreme-weather", 17),
    ("visibility", 18),
    ("precipitation", 19),
    ("slow-vehicle", 26),
    ("end-of-queue", 27),
    ("breakdown", 91),
    ("post-crash", 92),
    ("human-problem", 93),
    ("stationary-vehicle", 94),
    ("emergency-vehicle", 95),
    ("dangerous-curve", 96),
    ("collision-risk", 97),
    ("signal-violation", 98),
    ("dangerous-situation", 99),
];

/// The name of a cause, or its number.
pub(crate) fn cause_name(cause: u8) -> String {
    let found = CAUSE_NAMES.iter().find(|(_, number)| *number == cause);
    found.map_or_else(|| cause.to_string(), |(name, _)| (*name).to_owned())
}

/// The cause code of a name.
pub(crate) fn cause_code(text: &str) -> Option<u8> {
    CAUSE_NAMES.iter().find(|(name, _)| *name == text).map(|(_, number)| *number)
}
