//! The `[geo]` table: a GeoNetworking station. What has a name in the standard's management information base is checked
//! against what the standard allows (EN 302 636-4-1 annex H).

use super::spanned::Spanned;
use super::toml_reader::{OneOrMore, from_toml, plain_toml};
use crate::config::duration::HumanDuration;
use crate::config::source::{Diagnostics, Problem};
use crate::config::{announce, check, geo_security};
#[cfg(feature = "geo-security")]
use crate::config::{geo_signed_list, geo_tickets};
use crate::daemon::position::track::Track;
use core::f64::consts::PI;
use core::ops::{Range, RangeInclusive};
use core::time::Duration;
use roam6_proto::Fix;
use roam6_proto::base::vec_set::VecSet;
use roam6_proto::contract::config::facilities::{Announcement, FacilitiesConfig};
use roam6_proto::contract::config::geo::{
    AreaForwarding, CongestionControl, DestinationScope, FlowParameters, GeoConfig, GeoDestination, LinkScope, Mib,
    NonAreaForwarding, PacketParameters, VirtualLink,
};
use roam6_proto::geo::geometry;
use roam6_wire::LinkAddress;
use roam6_wire::geo::{Area, Coordinates, ItsStationType, Shape, TrafficClass};
use std::net::Ipv6Addr;
use std::path::PathBuf;

/// Most interfaces, and most virtual links.
const MAX_LIST: usize = 16;
/// Most position sources.
const MAX_SOURCES: usize = 4;
/// Longest busy polling after a frame; more would only cost processor time.
const MAX_BUSY_POLL: Duration = Duration::from_millis(1);
/// Longest time without processor sleep after a frame.
const MAX_AWAKE: Duration = Duration::from_secs(10);

/// Lifetimes of packets (itsGnMaxPacketLifetime).
const LIFETIME_RANGE: RangeInclusive<Duration> = Duration::from_millis(50)..=Duration::from_secs(600);

/// A station and its position source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Geo {
    /// Settings of the engine.
    pub(crate) config: GeoConfig,
    /// The position source.
    pub(crate) position: Position,
    /// How long to poll for the next frame after a frame.
    pub(crate) busy_poll: Duration,
    /// How long no processor core sleeps after a frame.
    pub(crate) awake: Duration,
    /// The keys that sign its packets.
    #[cfg(feature = "geo-security")]
    pub(crate) keys: Vec<geo_tickets::TicketKey>,
    /// When its lists of revoked certificates expire.
    #[cfg(feature = "geo-security")]
    pub(crate) lists: Vec<geo_signed_list::ListExpiry>,
}

impl Geo {
    /// The station's announcement, which a reload may change.
    pub(crate) fn announcement(&self) -> Option<&Announcement> {
        self.config.facilities.as_ref()?.announcement.as_ref()
    }

    /// The same with another announcement.
    pub(crate) fn with_announcement(mut self, announcement: Option<Announcement>) -> Geo {
        if let Some(facilities) = &mut self.config.facilities {
            facilities.announcement = announcement;
        }
        self
    }

    /// The same with the authorisation tickets of another, which a reload may change: others, not from none to some.
    #[cfg(feature = "geo-security")]
    pub(crate) fn with_tickets_of(mut self, other: &Geo) -> Geo {
        let (own, others) = (&mut self.config.security.tickets, &other.config.security.tickets);
        if !own.is_empty() && !others.is_empty() {
            own.clone_from(others);
            self.keys.clone_from(&other.keys);
        }
        self
    }

    /// The same with the authorities and revoked certificates of another, which a reload may change.
    #[cfg(feature = "geo-security")]
    pub(crate) fn with_trust_of(mut self, other: &Geo) -> Geo {
        let (own, others) = (&mut self.config.security, &other.config.security);
        own.roots.clone_from(&others.roots);
        own.authorities.clone_from(&others.authorities);
        own.revoked.clone_from(&others.revoked);
        self.lists.clone_from(&other.lists);
        self
    }
}

/// A position source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Position {
    /// A fixed position.
    Fixed(Fix),
    /// A gpsd at this address, `host:port`.
    Gpsd(String),
    /// NMEA 0183 sentences, from a device or a file to replay.
    Nmea(PathBuf),
    /// A track to replay.
    Track(Track),
    /// Several of these, the preferred first.
    Several(Vec<Position>),
}

/// The table, as written.
pub(crate) struct Section {
    interfaces: Spanned<Vec<Spanned<String>>>,
    station: Option<Spanned<String>>,
    is_mobile: Option<bool>,
    position: Spanned<OneOrMore<PositionTable>>,
    links: Vec<LinkTable>,
    advertised_links: Option<Spanned<u8>>,
    destinations: Vec<DestinationTable>,
    beacon: Option<Spanned<HumanDuration>>,
    beacon_hops: Option<Spanned<u8>>,
    neighbour_lifetime: Option<Spanned<HumanDuration>>,
    hop_limit: Option<Spanned<u8>>,
    lifetime: Option<Spanned<HumanDuration>>,
    forwarding: Option<NonAreaForwarding>,
    recovery: Option<bool>,
    area_forwarding: Option<AreaForwarding>,
    range: Option<Spanned<u32>>,
    max_area: Option<Spanned<u32>>,
    packet_data_rate: Option<u32>,
    congestion_control: Option<Spanned<CongestionControl>>,
    busy_poll: Option<Spanned<HumanDuration>>,
    awake: Option<Spanned<HumanDuration>>,
    facilities: Option<Spanned<FacilitiesTable>>,
    announce: Option<Spanned<announce::Section>>,
    security: Option<geo_security::Section>,
}

plain_toml!(NonAreaForwarding, AreaForwarding, CongestionControl, Shape, Resolution);

from_toml!(Section {
    interfaces,
    station,
    is_mobile,
    position,
    links = Vec::new(),
    advertised_links,
    destinations = Vec::new(),
    beacon,
    beacon_hops,
    neighbour_lifetime,
    hop_limit,
    lifetime,
    forwarding,
    recovery,
    area_forwarding,
    range,
    max_area,
    packet_data_rate,
    congestion_control,
    busy_poll,
    awake,
    facilities,
    announce,
    security,
});

struct FacilitiesTable {
    station_id: Option<u32>,
    cam: Option<bool>,
    length: Option<f64>,
    width: Option<f64>,
}

from_toml!(FacilitiesTable { station_id, cam, length, width });

struct PositionTable {
    latitude: Option<f64>,
    longitude: Option<f64>,
    gpsd: Option<String>,
    nmea: Option<PathBuf>,
    track: Option<PathBuf>,
    repeat: Option<bool>,
}

from_toml!(PositionTable { latitude, longitude, gpsd, nmea, track, repeat });

struct LinkTable {
    name: Spanned<String>,
    around: Option<Spanned<u16>>,
    hops: Option<Spanned<u8>>,
    area: Option<Spanned<AreaTable>>,
    traffic_class: Option<Spanned<u8>>,
    store_carry_forward: Option<bool>,
    lifetime: Option<Spanned<HumanDuration>>,
    hop_limit: Option<Spanned<u8>>,
    flows: Vec<FlowTable>,
    resolution: Option<Resolution>,
}

from_toml!(LinkTable {
    name,
    around,
    hops,
    area,
    traffic_class,
    store_carry_forward,
    lifetime,
    hop_limit,
    flows = Vec::new(),
    resolution,
});

/// How link-layer addresses of neighbours are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Resolution {
    /// By neighbour discovery.
    NeighbourDiscovery,
    /// By their interface identifiers.
    Identifier,
}

/// The packets of a link with one DiffServ code point.
struct FlowTable {
    dscp: Spanned<u8>,
    traffic_class: Option<Spanned<u8>>,
    store_carry_forward: Option<bool>,
    lifetime: Option<Spanned<HumanDuration>>,
    hop_limit: Option<Spanned<u8>>,
}

from_toml!(FlowTable { dscp, traffic_class, store_carry_forward, lifetime, hop_limit });

/// Where packets to one address are sent.
struct DestinationTable {
    address: Spanned<Ipv6Addr>,
    area: Option<AreaTable>,
    around: Option<u16>,
    station: Option<Spanned<String>>,
    hops: Option<u8>,
}

from_toml!(DestinationTable { address, area, around, station, hops });

struct AreaTable {
    shape: Shape,
    latitude: f64,
    longitude: f64,
    a: u16,
    b: u16,
    angle: u16,
}

from_toml!(AreaTable { shape = circle(), latitude, longitude, a, b = 0, angle = 0 });

fn circle() -> Shape {
    Shape::Circle
}

/// Checks the table; problems are reported to `diagnostics`.
pub(crate) fn validate(section: Section, diagnostics: &mut Diagnostics<'_>) -> Option<Geo> {
    let mut mib = to_mib(&section, diagnostics);
    let interfaces = interfaces(&section.interfaces, diagnostics);
    let station =
        section.station.as_ref().map_or(Some(ItsStationType::PASSENGER_CAR), |name| station(name, diagnostics));
    let position = positions(&section.position, diagnostics);
    let is_fixed = matches!(position, Some(Position::Fixed(_)));
    mib.is_mobile = section.is_mobile.unwrap_or(!is_fixed);
    if let Some(link) = section.links.get(MAX_LIST) {
        diagnostics.report(link.name.span(), format!("more than {MAX_LIST} virtual links"), "list fewer");
    }
    let virtual_links: Vec<VirtualLink> =
        section.links.iter().filter_map(|table| link(table, mib.max_area_size, diagnostics)).collect();
    let mut facilities = section.facilities.as_ref().and_then(|table| facilities(table, diagnostics));
    match (&section.announce, &mut facilities) {
        (Some(written), Some(facilities)) => facilities.announcement = Some(announce::validate(written, diagnostics)),
        (Some(written), None) if section.facilities.is_none() => {
            let hint = "write facilities = {} into [geo], or facilities = { cam = false }";
            diagnostics.report(written.span(), "services are announced by the facilities, and there are none", hint);
        }
        _ => {}
    }
    let security = geo_security::validate(section.security.as_ref(), diagnostics);
    #[cfg(feature = "geo-security")]
    if let Some(table) =
        section.facilities.as_ref().filter(|table| table.station_id.is_some() && security.config.pseudonyms)
    {
        let hint = "leave station_id out, or write pseudonyms = false";
        diagnostics.report(table.span(), "a station with pseudonyms has no fixed station_id", hint);
    }
    let advertised_links =
        diagnostics.number(&section.advertised_links, "advertised_links", 0..=MAX_LIST as u8).unwrap_or(0);
    let tables = section.destinations.iter();
    let destinations = tables.filter_map(|table| destination(table, mib.max_area_size, diagnostics)).collect();
    let config = GeoConfig {
        interfaces,
        station: station?,
        virtual_links,
        advertised_links: usize::from(advertised_links),
        destinations,
        facilities,
        mib,
        security: security.config,
    };
    let mut duration =
        |written, name, most| diagnostics.duration(written, name, Duration::ZERO..=most).unwrap_or_default();
    let busy_poll = duration(&section.busy_poll, "busy_poll", MAX_BUSY_POLL);
    let awake = duration(&section.awake, "awake", MAX_AWAKE);
    Some(Geo {
        config,
        position: position?,
        busy_poll,
        awake,
        #[cfg(feature = "geo-security")]
        keys: security.keys,
        #[cfg(feature = "geo-security")]
        lists: security.lists,
    })
}

fn to_mib(section: &Section, diagnostics: &mut Diagnostics<'_>) -> Mib {
    let standard = Mib::default();
    let minute = Duration::from_secs(60);
    let beacon_timer = diagnostics.duration(&section.beacon, "beacon", Duration::from_millis(100)..=minute);
    let beacon_timer = beacon_timer.unwrap_or(standard.beacon_timer);
    let neighbours = Duration::from_millis(200)..=minute;
    let neighbour_lifetime = diagnostics.duration(&section.neighbour_lifetime, "neighbour_lifetime", neighbours);
    let default_lifetime = diagnostics.duration(&section.lifetime, "lifetime", LIFETIME_RANGE);
    Mib {
        beacon_timer,
        // itsGnBeaconServiceMaxJitter is a quarter of the timer.
        beacon_jitter: beacon_timer / 4,
        beacon_hops: diagnostics.number(&section.beacon_hops, "beacon_hops", 1..=10).unwrap_or(standard.beacon_hops),
        neighbour_lifetime: neighbour_lifetime.unwrap_or(standard.neighbour_lifetime),
        default_hop_limit: diagnostics
            .number(&section.hop_limit, "hop_limit", 1..=255)
            .unwrap_or(standard.default_hop_limit),
        default_lifetime: default_lifetime.unwrap_or(standard.default_lifetime),
        non_area: section.forwarding.unwrap_or(standard.non_area),
        recovery: section.recovery.unwrap_or(standard.recovery),
        in_area: section.area_forwarding.unwrap_or(standard.in_area),
        max_range: diagnostics.number(&section.range, "range", 1..=100_000).unwrap_or(standard.max_range),
        max_area_size: diagnostics
            .number(&section.max_area, "max_area", 1..=u32::MAX)
            .unwrap_or(standard.max_area_size),
        congestion_control: congestion_control(section.congestion_control.as_ref(), diagnostics),
        max_packet_data_rate: section.packet_data_rate.unwrap_or(standard.max_packet_data_rate),
        ..standard
    }
}

/// On radios in OCB mode, unless the file says otherwise.
fn congestion_control(
    written: Option<&Spanned<CongestionControl>>,
    diagnostics: &mut Diagnostics<'_>,
) -> CongestionControl {
    match written {
        Some(mode) if cfg!(not(feature = "dcc")) && **mode != CongestionControl::Off => {
            let hint = "build it with --features dcc";
            diagnostics.report(mode.span(), "this roam6 was built without congestion control", hint);
            CongestionControl::Off
        }
        Some(mode) => **mode,
        None if cfg!(feature = "dcc") => CongestionControl::Auto,
        None => CongestionControl::Off,
    }
}

fn interfaces(written: &Spanned<Vec<Spanned<String>>>, diagnostics: &mut Diagnostics<'_>) -> VecSet<String> {
    for name in written.iter() {
        check::interface_name(name, diagnostics);
    }
    if written.is_empty() {
        diagnostics.report(written.span(), "no interfaces", "write the radio's interface, as interfaces = [\"wlan0\"]");
    }
    diagnostics.limit(written, MAX_LIST, "interfaces", "list fewer");
    written.iter().map(|name| String::clone(name)).collect()
}

fn station(name: &Spanned<String>, diagnostics: &mut Diagnostics<'_>) -> Option<ItsStationType> {
    let hint = "write passenger-car, bus, tram, heavy-truck, roadside-unit or another of docs/geo.md";
    let what = || format!("\"{}\" is no kind of station", **name);
    ItsStationType::named(name).or_else(|| diagnostics.refuse(name.span(), what(), hint))
}

/// One source, or several of them.
fn positions(written: &Spanned<OneOrMore<PositionTable>>, diagnostics: &mut Diagnostics<'_>) -> Option<Position> {
    let tables = &written.0;
    if !(1..=MAX_SOURCES).contains(&tables.len()) {
        let what = format!("{} position sources", tables.len());
        return diagnostics.refuse(written.span(), what, &format!("write 1 to {MAX_SOURCES}"));
    }
    let mut sources: Vec<Position> =
        tables.iter().map(|table| position(table, diagnostics)).collect::<Option<Vec<_>>>()?;
    if sources.len() == 1 { sources.pop() } else { Some(Position::Several(sources)) }
}

/// Exactly one of the sources must be written.
fn position(table: &Spanned<PositionTable>, diagnostics: &mut Diagnostics<'_>) -> Option<Position> {
    let written = &**table;
    let PositionTable { latitude, longitude, gpsd, nmea, track, repeat } = written;
    let is_fixed = latitude.is_some() || longitude.is_some();
    let sources = [is_fixed, gpsd.is_some(), nmea.is_some(), track.is_some()];
    let found = match sources.iter().filter(|written| **written).count() {
        1 if repeat.is_none() || track.is_some() => position_source(written, diagnostics)?,
        _ => None,
    };
    let hint = "write one of { latitude = 48.1, longitude = 11.5 } in degrees, { gpsd = \"127.0.0.1:2947\" }, \
                { nmea = \"/dev/ttyUSB0\" }, { track = \"drive.gpx\", repeat = true }";
    found.or_else(|| diagnostics.refuse(table.span(), "no position", hint))
}

/// The one source of the table: `Some(None)` if it is invalid, `None` if that was already reported.
fn position_source(written: &PositionTable, diagnostics: &mut Diagnostics<'_>) -> Option<Option<Position>> {
    if let Some(file) = &written.track {
        let path = diagnostics.source.resolve(file);
        return match Track::read(&path, written.repeat == Some(true)) {
            Ok(track) => Some(Some(Position::Track(track))),
            Err(why) => {
                let hint = "write GPX with times, or lines of seconds,latitude,longitude";
                diagnostics.add(vec![Problem::of_file(&path, why, hint)]);
                None
            }
        };
    }
    if let Some(file) = &written.nmea {
        return Some(Some(Position::Nmea(diagnostics.source.resolve(file))));
    }
    if let Some(server) = &written.gpsd {
        return Some(server.contains(':').then(|| Position::Gpsd(server.clone())));
    }
    let place =
        written.latitude.zip(written.longitude).and_then(|(north, east)| Coordinates::from_degrees(north, east));
    Some(place.map(|place| Position::Fixed(Fix { place, uncertainty: Some(1), speed: 0, heading: 0 })))
}

/// Metres become tenths, as messages have them.
fn facilities(table: &Spanned<FacilitiesTable>, diagnostics: &mut Diagnostics<'_>) -> Option<FacilitiesConfig> {
    if cfg!(not(feature = "facilities")) {
        let hint = "build it with --features facilities";
        return diagnostics.refuse(table.span(), "this roam6 was built without facilities", hint);
    }
    let FacilitiesTable { station_id, cam, length, width } = &**table;
    let mut tenths = |metres: &Option<f64>, name: &str, most: f64| {
        let metres = (*metres)?;
        if !(0.1..=most).contains(&metres) {
            let what = format!("{name} = {metres} is out of bounds");
            diagnostics.report(table.span(), what, &format!("write 0.1 to {most} m"));
        }
        Some((metres * 10.0).round())
    };
    // Casts of floats saturate.
    let length = tenths(length, "length", 102.1).map(|tenths| tenths as u16);
    let width = tenths(width, "width", 6.0).map(|tenths| tenths as u8);
    Some(FacilitiesConfig {
        station_id: *station_id,
        send_cams: *cam != Some(false),
        length,
        width,
        announcement: None,
    })
}

fn link(table: &LinkTable, max_area: u32, diagnostics: &mut Diagnostics<'_>) -> Option<VirtualLink> {
    check::interface_name(&table.name, diagnostics);
    let name = String::clone(&table.name);
    let reach = match (&table.around, &table.hops, &table.area) {
        (Some(radius), None, None) if **radius > 0 => Some(LinkScope::Around(**radius)),
        (None, Some(hops), None) if **hops > 0 => Some(LinkScope::Hops(**hops)),
        (None, None, Some(written)) => area(written).map(LinkScope::Area),
        _ => None,
    };
    if reach.is_none() {
        let hint = "write one of around = 1000 (metres), hops = 3, area = { latitude = .., longitude = .., a = 500 }";
        diagnostics.report(table.name.span(), format!("virtual link {name} has no scope"), hint);
    }
    let written = [table.around.as_ref().map(Spanned::span), table.area.as_ref().map(Spanned::span)];
    if let (Some(reach), Some(span)) = (reach, written.into_iter().flatten().next()) {
        size(&format!("virtual link {name}"), reach, span, max_area, diagnostics);
    }
    let id = diagnostics.number(&table.traffic_class, "traffic_class", 0..=63).unwrap_or(VirtualLink::CLASS.id());
    let class = TrafficClass::new(id, table.store_carry_forward == Some(true));
    let lifetime = diagnostics.duration(&table.lifetime, "lifetime", LIFETIME_RANGE);
    let hops = diagnostics.number(&table.hop_limit, "hop_limit", 1..=255);
    let flows = table.flows.iter().filter_map(|flow| self::flow(flow, diagnostics)).collect();
    let resolves_by_identifier = table.resolution == Some(Resolution::Identifier);
    Some(VirtualLink { name, reach: reach?, class, lifetime, hops, flows, resolves_by_identifier })
}

/// A host chooses the DiffServ code point: it may not choose a class above that of CAMs.
fn flow(table: &FlowTable, diagnostics: &mut Diagnostics<'_>) -> Option<FlowParameters> {
    let dscp = *table.dscp;
    if dscp > 63 {
        let hint = "write a DiffServ code point, as 46 for expedited forwarding";
        return diagnostics.refuse(table.dscp.span(), format!("dscp = {dscp} is out of bounds"), hint);
    }
    let parameters = PacketParameters {
        class: diagnostics.number(&table.traffic_class, "traffic_class", 2..=63),
        store_carry_forward: table.store_carry_forward,
        lifetime: diagnostics.duration(&table.lifetime, "lifetime", LIFETIME_RANGE),
        hops: diagnostics.number(&table.hop_limit, "hop_limit", 1..=255),
    };
    Some(FlowParameters { dscp, parameters })
}

fn destination(table: &DestinationTable, max_area: u32, diagnostics: &mut Diagnostics<'_>) -> Option<GeoDestination> {
    let address = *table.address;
    let station = table.station.as_ref().map(|text| text.parse::<LinkAddress>());
    let scope = match (&table.area, table.around, station, table.hops) {
        (Some(written), None, None, None) => area(written).map(DestinationScope::Area),
        (None, Some(radius), None, None) if radius > 0 => Some(DestinationScope::Around(radius)),
        (None, Some(radius), Some(Ok(station)), None) if radius > 0 && station.is_unicast() => {
            Some(DestinationScope::AroundStation { station, radius })
        }
        (None, None, None, Some(hops)) if hops > 0 && address.is_multicast() => Some(DestinationScope::Hops(hops)),
        _ => None,
    };
    let Some(scope) = scope else {
        let hint = "write one of area = { latitude = .., longitude = .., a = 500 }, around = 500 (metres around this \
                    station, or around station = \"02:00:00:00:00:07\"), hops = 3 (for a multicast address)";
        return diagnostics.refuse(table.address.span(), format!("{address} has no destination"), hint);
    };
    let reach = match scope {
        DestinationScope::Area(area) => LinkScope::Area(area),
        DestinationScope::Around(radius) | DestinationScope::AroundStation { radius, .. } => LinkScope::Around(radius),
        DestinationScope::Hops(hops) => LinkScope::Hops(hops),
    };
    size(&format!("the destination of {address}"), reach, table.address.span(), max_area, diagnostics);
    Some(GeoDestination { address, scope })
}

/// Nothing is sent to an area larger than `max_area`, in square metres: neither is neighbour discovery.
fn size(what: &str, reach: LinkScope, span: Range<usize>, max_area: u32, diagnostics: &mut Diagnostics<'_>) {
    let size = match reach {
        LinkScope::Area(area) => geometry::square_metres(&area),
        LinkScope::Around(radius) => PI * f64::from(radius).powi(2),
        LinkScope::Hops(_) => return,
    };
    let most = f64::from(max_area);
    if size <= most {
        return;
    }
    let what = format!("{what} reaches {:.2} km², and max_area is {:.2} km²", size / 1e6, most / 1e6);
    let radius = (most / PI).sqrt().floor();
    let hint = format!("the largest circle has a radius of {radius} m; or write max_area = {} in [geo]", size.ceil());
    diagnostics.report(span, what, &hint);
}

/// An area that has an extent; a needs no b where it is a circle.
fn area(table: &AreaTable) -> Option<Area> {
    let center = Coordinates::from_degrees(table.latitude, table.longitude)?;
    let AreaTable { shape, a, b, angle, .. } = *table;
    let has_extent = a > 0 && angle <= 360 && (b > 0 || shape == Shape::Circle);
    has_extent.then_some(Area { shape, center, a, b, angle })
}
