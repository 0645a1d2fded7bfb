//! The paper's delay equations 1 to 5 (document P2): a round trip is the sum of link delays and processing times;
//! classical NEMO adds the path by the home agent twice and the cost of the tunnel.

use super::LinkShape;
use std::time::Duration;

/// The five scenarios.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Scenario {
    /// At home.
    Ns0,
    /// In FN1 or FN2 (0 or 1) by classical NEMO.
    Classical(usize),
    /// In FN1 or FN2 on the direct path.
    Direct(usize),
}

impl Scenario {
    /// All scenarios in the order of the equations.
    pub(crate) const ALL: [Scenario; 5] =
        [Scenario::Ns0, Scenario::Classical(0), Scenario::Direct(0), Scenario::Classical(1), Scenario::Direct(1)];

    /// The access network whose address is used, if any.
    pub(crate) fn direct(self) -> Option<usize> {
        match self {
            Scenario::Direct(number) => Some(number),
            Scenario::Ns0 | Scenario::Classical(_) => None,
        }
    }

    /// The paper's name.
    pub(crate) fn name(self) -> String {
        match self {
            Scenario::Ns0 => "NS0".to_owned(),
            Scenario::Classical(number) => format!("NS{}C", number + 1),
            Scenario::Direct(number) => format!("NS{}P", number + 1),
        }
    }

    /// Link delay of a round trip: out of and into each network on the path.
    pub(crate) fn link_delay(self, shape: LinkShape) -> Duration {
        let home = shape.delay;
        let visited = |number| if number > 0 { shape.delay + 2 * shape.extra_delay } else { shape.delay };
        match self {
            Scenario::Ns0 => home,
            Scenario::Direct(number) => visited(number),
            // In each direction a packet enters and leaves the home network.
            Scenario::Classical(number) => visited(number) + 2 * home,
        }
    }

    /// The equation as text: `d` round-trip delays of links, `p` processing times of hosts, `t` processing time of the
    /// tunnel.
    pub(crate) fn equation(self) -> &'static str {
        match self {
            Scenario::Ns0 => "p0 + d(CN,HA)",
            Scenario::Classical(0) => "p1 + d(MR,HA) + d(CN,HA) + t",
            Scenario::Classical(_) => "p2 + d(MR,HA) + d(CN,HA) + t",
            Scenario::Direct(0) => "p1 + d(CN,FN1)",
            Scenario::Direct(_) => "p2 + d(CN,FN2)",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn link_delays_are_ordered_as_in_the_paper() {
        let path = |scenario: Scenario| scenario.link_delay(LinkShape::PAPER);
        assert_eq!(path(Scenario::Ns0), path(Scenario::Direct(0)));
        assert!(path(Scenario::Classical(0)) > path(Scenario::Direct(0)));
        assert!(path(Scenario::Direct(1)) > path(Scenario::Direct(0)));
        assert!(path(Scenario::Classical(1)) > path(Scenario::Direct(1)));
    }
}
