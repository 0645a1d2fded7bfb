//! Counters of events and gauges of table sizes. They are one map in JSON, in which the name of a gauge begins with that of
//! its role.

use crate::base::vec_map::VecMap;
use serde::{Deserialize, Serialize};

/// The roles that report gauges.
const GAUGE_PREFIXES: [&str; 2] = ["home_agent_", "mobile_router_"];

/// Counters and gauges by name.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "VecMap<String, u64>", into = "VecMap<String, u64>")]
pub struct Counters {
    /// How often each event happened.
    pub events: VecMap<String, u64>,
    /// Present sizes of tables.
    pub gauges: VecMap<String, u64>,
}

impl From<VecMap<String, u64>> for Counters {
    fn from(all: VecMap<String, u64>) -> Counters {
        let is_gauge = |name: &str| GAUGE_PREFIXES.iter().any(|prefix| name.starts_with(prefix));
        let (gauges, events) = all.into_iter().partition(|(name, _)| is_gauge(name));
        Counters { events, gauges }
    }
}

impl From<Counters> for VecMap<String, u64> {
    fn from(counters: Counters) -> VecMap<String, u64> {
        counters.events.into_iter().chain(counters.gauges).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_and_gauges_are_one_map_in_json() {
        let counters = Counters {
            events: [("bound".to_owned(), 2), ("table_full".to_owned(), 1)].into(),
            gauges: [("home_agent_timers".to_owned(), 5)].into(),
        };
        let text = serde_json::to_string(&counters).unwrap();
        assert_eq!(text, r#"{"bound":2,"home_agent_timers":5,"table_full":1}"#);
        assert_eq!(serde_json::from_str::<Counters>(&text).unwrap(), counters);
    }
}
