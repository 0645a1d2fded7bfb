//! Stations and areas on the command line.

use roam6_proto::contract::config::geo::{DestinationScope, TransportType};
use roam6_wire::LinkAddress;
use roam6_wire::geo::{self, Coordinates, GeoAddress, ItsStationType};
use std::fmt;
use std::net::Ipv6Addr;

const HINT: &str = "write a station as 02:00:00:00:00:07, an area as circle LAT LON RADIUS or \
                    rectangle|ellipse LAT LON A B DEGREES";

/// Destination of an echo request.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Target {
    /// One station.
    Station(LinkAddress),
    /// All stations in an area.
    Area(geo::Area),
    /// Any one station in an area.
    Any(geo::Area),
    /// The stations at most so many hops away.
    Hops(u8),
    /// All neighbours.
    Neighbours,
}

impl Target {
    /// Parses a station or an area.
    ///
    /// # Errors
    /// A message with the accepted forms.
    pub(crate) fn parse(arguments: &[String]) -> Result<Target, String> {
        match arguments {
            [word] if word == "neighbours" => Ok(Target::Neighbours),
            [word, number] if word == "hops" => parse_hops(number).map(Target::Hops),
            [word, area @ ..] if word == "any" => AreaText::parse(area).map(Target::Any),
            [word] => parse_station(word).map(Target::Station),
            _ => AreaText::parse(arguments).map(Target::Area),
        }
    }

    /// The destination as the engine takes it.
    pub(crate) fn to(self) -> TransportType {
        match self {
            Target::Station(mid) => TransportType::GeoUnicast(GeoAddress::new(ItsStationType::UNKNOWN, mid)),
            Target::Area(area) => TransportType::GeoBroadcast(area),
            Target::Any(area) => TransportType::GeoAnycast(area),
            Target::Hops(hops) => TransportType::TopologyBroadcast(hops),
            Target::Neighbours => TransportType::SingleHop,
        }
    }
}

/// In the form that the command line accepts.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Station(mid) => write!(f, "{mid}"),
            Target::Area(area) => f.write_str(&AreaText::format(area)),
            Target::Any(area) => write!(f, "any {}", AreaText::format(area)),
            Target::Hops(hops) => write!(f, "hops {hops}"),
            Target::Neighbours => f.write_str("neighbours"),
        }
    }
}

/// Parses a station: its link-layer address, or the link-local address derived from it.
///
/// # Errors
/// A message with the accepted forms.
pub(crate) fn parse_station(word: &str) -> Result<LinkAddress, String> {
    let of_address = |address: Ipv6Addr| {
        let [.., a, b, c, 0xff, 0xfe, d, e, f] = address.octets() else { return None };
        Some(LinkAddress([a ^ 0x02, b, c, d, e, f]))
    };
    let bare = word.split('%').next().unwrap_or(word);
    let by_address = || bare.parse().ok().filter(Ipv6Addr::is_unicast_link_local).and_then(of_address);
    let mid = word.parse().ok().or_else(by_address).filter(|mid: &LinkAddress| mid.is_unicast());
    mid.ok_or_else(|| format!("\"{word}\" is not a station; {HINT}"))
}

fn parse_hops(word: &str) -> Result<u8, String> {
    let hops = word.parse().ok().filter(|hops| *hops > 0);
    hops.ok_or_else(|| format!("\"{word}\" is not a number of hops; write 1 to 255"))
}

/// Text form of the destinations of `roam6 geo area`.
pub(crate) struct ScopeText;

impl ScopeText {
    /// Parses a destination.
    ///
    /// # Errors
    /// A message with the accepted forms.
    pub(crate) fn parse(arguments: &[String]) -> Result<DestinationScope, String> {
        let radius = |word: &String| {
            let metres = word.parse::<u16>().ok().filter(|metres| *metres > 0);
            metres.ok_or_else(|| format!("\"{word}\" is not a radius; write metres"))
        };
        match arguments {
            [word, metres] if word == "around" => radius(metres).map(DestinationScope::Around),
            [word, station, metres] if word == "around" => {
                Ok(DestinationScope::AroundStation { station: parse_station(station)?, radius: radius(metres)? })
            }
            [word, number] if word == "hops" => parse_hops(number).map(DestinationScope::Hops),
            _ => AreaText::parse(arguments).map(DestinationScope::Area),
        }
    }

    /// The destination in the form that the command line accepts.
    pub(crate) fn format(scope: &DestinationScope) -> String {
        match scope {
            DestinationScope::Area(area) => AreaText::format(area),
            DestinationScope::Around(radius) => format!("around {radius}"),
            DestinationScope::AroundStation { station, radius } => format!("around {station} {radius}"),
            DestinationScope::Hops(hops) => format!("hops {hops}"),
        }
    }
}

/// Text form of areas.
pub(crate) struct AreaText;

impl AreaText {
    /// Parses an area.
    ///
    /// # Errors
    /// A message with the accepted forms.
    pub(crate) fn parse(arguments: &[String]) -> Result<geo::Area, String> {
        let wrong = || format!("\"{}\" is not an area; {HINT}", arguments.join(" "));
        let [kind, latitude, longitude, lengths @ ..] = arguments else { return Err(wrong()) };
        let degrees = |word: &String| word.trim_end_matches(',').parse::<f64>().map_err(|_| wrong());
        let center = Coordinates::from_degrees(degrees(latitude)?, degrees(longitude)?).ok_or_else(wrong)?;
        let metres = |word: &String| word.parse::<u16>().ok().filter(|metres| *metres > 0).ok_or_else(wrong);
        let shape = match kind.as_str() {
            "circle" => geo::Shape::Circle,
            "rectangle" => geo::Shape::Rectangle,
            "ellipse" => geo::Shape::Ellipse,
            _ => return Err(wrong()),
        };
        match (shape, lengths) {
            (geo::Shape::Circle, [radius]) => Ok(geo::Area::circle(center, metres(radius)?)),
            (geo::Shape::Circle, _) => Err(wrong()),
            (_, [a, b, rest @ ..]) if rest.len() <= 1 => {
                let angle = rest.first().map_or(Ok(0), |word| word.parse::<u16>()).map_err(|_| wrong())?;
                let area = geo::Area { shape, center, a: metres(a)?, b: metres(b)?, angle };
                if angle <= 360 { Ok(area) } else { Err(wrong()) }
            }
            _ => Err(wrong()),
        }
    }

    /// The area in the form that the command line accepts.
    pub(crate) fn format(area: &geo::Area) -> String {
        let geo::Area { shape, center, a, b, angle } = area;
        let (latitude, longitude) = center.to_degrees();
        match shape {
            geo::Shape::Circle => format!("circle {latitude} {longitude} {a}"),
            geo::Shape::Rectangle => format!("rectangle {latitude} {longitude} {a} {b} {angle}"),
            geo::Shape::Ellipse => format!("ellipse {latitude} {longitude} {a} {b} {angle}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(text: &str) -> Result<Target, String> {
        Target::parse(&text.split(' ').map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn displayed_targets_can_be_parsed() {
        for text in [
            "neighbours",
            "hops 3",
            "any circle 48.1 11.5 500",
            "circle 48.1 -11.5 500",
            "rectangle -33.9 151.2 400 50 90",
            "ellipse 0 0 1 2 360",
        ] {
            assert_eq!(target(text).unwrap().to_string(), text);
        }
        let mid = LinkAddress([2, 0, 0, 0, 0, 7]);
        for text in ["02:00:00:00:00:07", "fe80::ff:fe00:7", "fe80::ff:fe00:7%gn0"] {
            assert_eq!(target(text), Ok(Target::Station(mid)), "{text}");
        }
    }

    #[test]
    fn displayed_destinations_can_be_parsed() {
        for text in ["around 500", "around 02:00:00:00:00:07 500", "hops 3", "circle 48.1 11.5 500"] {
            let scope = ScopeText::parse(&text.split(' ').map(str::to_owned).collect::<Vec<_>>()).unwrap();
            assert_eq!(ScopeText::format(&scope), text);
        }
        for text in ["around 0", "around x 500", "hops 0", "hops"] {
            assert!(ScopeText::parse(&text.split(' ').map(str::to_owned).collect::<Vec<_>>()).is_err(), "{text}");
        }
    }

    #[test]
    fn an_invalid_target_is_refused_with_the_valid_forms() {
        for text in [
            "",
            "circle",
            "circle 48.1 11.5",
            "circle 91 11.5 500",
            "circle 48.1 11.5 0",
            "circle 48.1 11.5 500 1",
            "square 48.1 11.5 500",
            "rectangle 48.1 11.5 400",
            "rectangle 48.1 11.5 400 50 361",
            "ff:ff:ff:ff:ff:ff",
            "02:00:00:00:00",
            "2001:db8::ff:fe00:7",
        ] {
            assert!(target(text).unwrap_err().contains("02:00:00:00:00:07"), "{text}");
        }
    }
}
