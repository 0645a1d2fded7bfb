//! Congestion control of the radios of a station: measures their channels, and gates the frames that the router sends.

use super::dcc::ReactiveDcc;
use crate::base::ids::LinkId;
use crate::base::time::Time;
use crate::base::vec_map::VecMap;
use crate::contract::config::geo::CongestionControl;
use crate::contract::engine::Outbox;
use crate::contract::input::{ChannelTimes, ChannelUse, LinkEvent};
use crate::contract::report::{DropReason, GeoReport};
use crate::contract::view::ChannelView;
use core::time::Duration;
use roam6_wire::LinkAddress;
use roam6_wire::geo::ETHERTYPE;

/// Interval of measurements (T_CBR).
const MEASUREMENT: Duration = Duration::from_millis(100);
/// Interval of queries where nothing is measured: the interface may join a channel later.
const RETRY: Duration = Duration::from_secs(10);

/// The radios of a station.
#[derive(Debug)]
pub struct RadioChannels {
    mode: CongestionControl,
    radios: VecMap<LinkId, RadioChannel>,
}

#[derive(Debug)]
struct RadioChannel {
    name: String,
    /// `None` while a query is not answered.
    next_query: Option<Time>,
    /// The last counters.
    times: Option<ChannelTimes>,
    /// While the channel is measured.
    dcc: Option<ReactiveDcc>,
    /// Whether it was reported that there is no congestion control.
    is_reported: bool,
}

impl RadioChannels {
    /// Before the first interface.
    pub fn new(mode: CongestionControl) -> RadioChannels {
        RadioChannels { mode, radios: VecMap::new() }
    }

    /// An interface appeared, changed or disappeared. Frames that wait for one that is down are dropped with it.
    pub fn set_link(&mut self, now: Time, event: &LinkEvent) {
        if !event.up || event.address.is_none() {
            self.radios.remove(&event.link);
        } else if self.mode != CongestionControl::Off && !self.radios.contains_key(&event.link) {
            let name = event.name.clone();
            let radio = RadioChannel { name, next_query: Some(now), times: None, dcc: None, is_reported: false };
            self.radios.insert(event.link, radio);
        }
    }

    /// Queries the channels whose measurement is due.
    pub fn query(&mut self, now: Time, out: &mut Outbox) {
        let is_due = |radio: &RadioChannel| radio.next_query.is_some_and(|at| at <= now);
        for (link, radio) in self.radios.iter_mut().filter(|(_, radio)| is_due(radio)) {
            radio.next_query = None;
            out.query_channel_use(*link);
        }
    }

    /// Receives a measurement.
    pub fn receive(&mut self, now: Time, measured: &ChannelUse, out: &mut Outbox) {
        let Some(radio) = self.radios.get_mut(&measured.link) else { return };
        let is_wanted = measured.is_ocb || self.mode == CongestionControl::On;
        let Some(times) = measured.times.filter(|_| is_wanted) else {
            let why = match measured.times {
                Some(_) => "it is not in OCB mode (congestion_control = \"on\" in [geo] includes it)",
                None => "the kernel measures no radio channel there",
            };
            return radio.disable(now, why, out);
        };
        radio.next_query = Some(now + MEASUREMENT);
        let dcc = radio.dcc.get_or_insert_with(|| ReactiveDcc::new(self.mode == CongestionControl::On));
        let Some(before) = radio.times.replace(times) else { return };
        if busy_ratio(before, times).is_some_and(|ratio| dcc.measure(ratio)) {
            out.report(GeoReport::CongestionChanged {
                link: radio.name.clone(),
                busy: dcc.busy(),
                state: dcc.state().as_str().to_owned(),
                interval: dcc.interval(),
            });
        }
    }

    /// Gates the GeoNetworking frames in `out` from index `first` on, and sends those whose time has come.
    pub fn gate(&mut self, now: Time, first: usize, out: &mut Outbox) {
        for (link, radio) in self.radios.iter_mut() {
            let Some(dcc) = &mut radio.dcc else { continue };
            let expired = dcc.drop_expired(now);
            let frames = out.take_frames(first, |frame| frame.link == *link && frame.ethertype == ETHERTYPE);
            // Those that wait go first.
            send_due(dcc, now, out);
            let mut evicted = 0;
            for frame in frames {
                evicted += usize::from(dcc.put(now, frame));
                send_due(dcc, now, out);
            }
            for (count, reason) in [(evicted, DropReason::BufferFull), (expired, DropReason::Expired)] {
                if count > 0 {
                    let detail = format!("{count} frames dropped by congestion control of {}", radio.name);
                    out.report_drop(reason, None, detail);
                }
            }
        }
    }

    /// The station has another address: frames that wait with a former one would show whose it was.
    pub fn discard_former(&mut self, address: LinkAddress) {
        for dcc in self.radios.values_mut().filter_map(|radio| radio.dcc.as_mut()) {
            dcc.retain(|frame| frame.source == address);
        }
    }

    /// The longest of the least times between two frames; `None` without congestion control.
    pub fn interval(&self) -> Option<Duration> {
        self.controlled().map(|(_, dcc)| dcc.interval()).max()
    }

    /// When a frame may be sent or a measurement is due.
    pub fn deadline(&self) -> Option<Time> {
        let gates = self.controlled().filter_map(|(_, dcc)| dcc.deadline());
        self.radios.values().filter_map(|radio| radio.next_query).chain(gates).min()
    }

    /// The rows of the channels.
    pub fn view(&self) -> impl Iterator<Item = ChannelView> + '_ {
        self.controlled().map(|(name, dcc)| dcc.view(name))
    }

    fn controlled(&self) -> impl Iterator<Item = (&str, &ReactiveDcc)> {
        self.radios.values().filter_map(|radio| Some((radio.name.as_str(), radio.dcc.as_ref()?)))
    }
}

impl RadioChannel {
    /// Ends congestion control, which the log says once. Frames that wait are dropped with it.
    fn disable(&mut self, now: Time, why: &str, out: &mut Outbox) {
        (self.times, self.next_query) = (None, Some(now + RETRY));
        if let Some(waiting) = self.dcc.take().map(|dcc| dcc.queued()).filter(|waiting| *waiting > 0) {
            let detail = format!("{waiting} frames dropped: the channel of {} is not measured any more", self.name);
            out.report_drop(DropReason::BufferFull, None, detail);
        }
        if !core::mem::replace(&mut self.is_reported, true) {
            out.notice(format!("no congestion control (DCC) on {}: {why}", self.name));
        }
    }
}

fn send_due(dcc: &mut ReactiveDcc, now: Time, out: &mut Outbox) {
    while let Some(frame) = dcc.take(now) {
        out.send_frame(frame);
    }
}

/// The channel busy ratio between two readings of the counters, per mille. Counters that are less than before were reset;
/// `None` if no time has passed.
fn busy_ratio(before: ChannelTimes, now: ChannelTimes) -> Option<u16> {
    let (observed, busy) = match (now.observed.checked_sub(before.observed), now.busy.checked_sub(before.busy)) {
        (Some(observed), Some(busy)) => (observed, busy),
        _ => (now.observed, now.busy),
    };
    let ratio = (u128::from(busy) * 1000).checked_div(u128::from(observed))?;
    u16::try_from(ratio.min(1000)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::config::geo::{GeoConfig, Mib};
    use crate::contract::engine::Engine;
    use crate::contract::input::{Clock, Fix, Frame, Input};
    use crate::contract::output::Output;
    use crate::contract::report::{HostReport, Report};
    use crate::contract::view::{CongestionState, View};
    use crate::{Entropy, geo::GeoStation};
    use roam6_wire::geo::{Coordinates, ItsStationType};

    const RADIO: LinkId = LinkId(4);

    /// A station that moves at 20 m/s, on a channel whose busy ratio the test sets.
    struct Road {
        station: GeoStation,
        millis: u64,
        times: ChannelTimes,
        is_ocb: bool,
        measures: bool,
        sent: Vec<u64>,
        reports: Vec<Report>,
    }

    impl Road {
        fn new(mode: CongestionControl, is_ocb: bool, measures: bool) -> Road {
            let config = GeoConfig {
                interfaces: ["wlan0".to_owned()].into(),
                station: ItsStationType::PASSENGER_CAR,
                virtual_links: Vec::new(),
                advertised_links: 0,
                destinations: Vec::new(),
                facilities: Some(crate::contract::config::facilities::FacilitiesConfig {
                    station_id: Some(7),
                    send_cams: true,
                    length: None,
                    width: None,
                    announcement: None,
                }),
                mib: Mib { congestion_control: mode, ..Mib::default() },
                security: crate::contract::config::geo::SecurityMode::default().into(),
            };
            let mut road = Road {
                station: GeoStation::new(config, Entropy::seed_from_u64(7)),
                millis: 0,
                times: ChannelTimes { observed: 5_000, busy: 100 },
                is_ocb,
                measures,
                sent: Vec::new(),
                reports: Vec::new(),
            };
            road.feed(&Input::Clock(Clock { unix_micros: 1_790_000_000_000_000 }));
            let address = Some(LinkAddress([2, 0, 0, 0, 0, 1]));
            road.feed(&Input::Link(LinkEvent { link: RADIO, name: "wlan0".to_owned(), address, up: true, mtu: 1500 }));
            road
        }

        fn feed(&mut self, input: &Input) {
            let now = Time::ZERO + Duration::from_millis(self.millis);
            let mut out = Outbox::new();
            self.station.handle(now, input, &mut out);
            let mut is_queried = false;
            for output in out.drain() {
                match output {
                    Output::Frame(_) => self.sent.push(self.millis),
                    Output::ChannelUseQuery(RADIO) => is_queried = true,
                    Output::Report(report) => self.reports.push(report),
                    _ => {}
                }
            }
            if is_queried {
                let times = self.measures.then_some(self.times);
                self.feed(&Input::ChannelUse(ChannelUse { link: RADIO, is_ocb: self.is_ocb, times }));
            }
        }

        /// Drives for so long while the channel is busy for this ratio, per cent; returns the frames sent in the last two
        /// seconds.
        fn drive(&mut self, seconds: u64, percent: u64) -> usize {
            let end = self.millis + seconds * 1000;
            while self.millis < end {
                self.millis += 10;
                self.times.observed += 10;
                self.times.busy += u64::from(self.millis % 100 < percent) * 10;
                if self.millis.is_multiple_of(50) {
                    let latitude = 480_000_000 + i32::try_from(self.millis).unwrap() * 18 / 100;
                    let place = Coordinates { latitude, longitude: 110_000_000 };
                    let fix = Fix { place, uncertainty: Some(1), speed: 2000, heading: (self.millis % 3600) as u16 };
                    self.feed(&Input::Fix(Some(fix)));
                }
                self.feed(&Input::Tick);
            }
            self.sent.iter().filter(|millis| **millis > end - 2000).count()
        }

        fn channels(&self) -> Vec<ChannelView> {
            let mut view = View::default();
            self.station.view(Time::ZERO + Duration::from_millis(self.millis), &mut view);
            view.channels
        }

        fn notices(&self) -> usize {
            let is_notice = |report: &&Report| matches!(report, Report::Host(HostReport::Notice { .. }));
            self.reports.iter().filter(is_notice).count()
        }
    }

    #[test]
    fn a_busy_channel_makes_stations_send_less() {
        let mut road = Road::new(CongestionControl::On, true, true);
        let free = road.drive(10, 0);
        assert!((10..=20).contains(&free), "{free} frames in 2 s of a free channel");
        let active = road.drive(10, 40);
        assert_eq!(road.channels().first().map(|row| row.state.clone()), Some(CongestionState::Active2));
        assert!((3..=5).contains(&active), "{active} frames in 2 s of a channel busy for 40 %");
        let full = road.drive(10, 90);
        assert_eq!(road.channels().first().map(|row| row.state.clone()), Some(CongestionState::Restrictive));
        assert!((1..=2).contains(&full), "{full} frames in 2 s of a channel busy for 90 %");
        for pair in road.sent.windows(2) {
            assert!(pair[1] - pair[0] >= 100, "{pair:?}");
        }
        assert!(road.drive(10, 0) >= free - 2);
        let is_change = |report: &&Report| matches!(report, Report::Geo(GeoReport::CongestionChanged { .. }));
        let changes = road.reports.iter().filter(is_change).count();
        assert_eq!(changes, 8, "four states up and four down, one after the other");
        assert_eq!(road.notices(), 0);
    }

    /// A channel of 6 Mbit/s that carries what this gate passes, and a share of others.
    struct Channel {
        gate: RadioChannels,
        millis: u64,
        times: ChannelTimes,
        /// Microseconds of air time to come.
        backlog: u64,
        sent: Vec<u64>,
    }

    impl Channel {
        fn new(mode: CongestionControl) -> Channel {
            let mut gate = RadioChannels::new(mode);
            let address = Some(LinkAddress([2, 0, 0, 0, 0, 1]));
            let name = "wlan0".to_owned();
            gate.set_link(Time::ZERO, &LinkEvent { link: RADIO, name, address, up: true, mtu: 1500 });
            Channel { gate, millis: 0, times: ChannelTimes { observed: 0, busy: 0 }, backlog: 0, sent: Vec::new() }
        }

        /// A frame of IPv6, for which the channel is busy for 2 ms, wants to be sent every millisecond.
        fn load(&mut self, seconds: u64, others_percent: u64) {
            for _ in 0..seconds * 1000 {
                self.millis += 1;
                let now = Time::ZERO + Duration::from_millis(self.millis);
                self.times.observed += 1;
                let is_others = self.millis % 100 < others_percent;
                self.times.busy += u64::from(is_others || self.backlog >= 1000);
                if !is_others {
                    self.backlog = self.backlog.saturating_sub(1000);
                }
                let mut out = Outbox::new();
                let class = roam6_wire::geo::TrafficClass(3).0;
                let bytes = vec![0x11, 0, 0xf2, 1, 0x20, 0x50, class, 0x80];
                let source = LinkAddress([2, 0, 0, 0, 0, 1]);
                // A driver has a queue, which is full at times.
                if self.backlog < 20_000 {
                    out.send_frame(Frame { link: RADIO, source, destination: source, ethertype: ETHERTYPE, bytes });
                }
                self.gate.gate(now, 0, &mut out);
                self.gate.query(now, &mut out);
                for output in out.drain() {
                    match output {
                        Output::Frame(_) => {
                            self.backlog += 2000;
                            self.sent.push(self.millis);
                        }
                        Output::ChannelUseQuery(link) => {
                            let measured = ChannelUse { link, is_ocb: true, times: Some(self.times) };
                            self.gate.receive(now, &measured, &mut Outbox::new());
                        }
                        _ => {}
                    }
                }
            }
        }

        fn longest_gap(&self) -> u64 {
            self.sent.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(u64::MAX)
        }
    }

    #[test]
    fn a_free_channel_carries_ipv6_by_default_and_a_busy_one_is_left_to_others() {
        let mut free = Channel::new(CongestionControl::Auto);
        free.load(20, 0);
        let share = free.sent.len() * 2 * 100 / 20_000;
        assert!((15..=45).contains(&share), "{share} % of the channel");
        assert!(free.longest_gap() <= 500, "{} ms without a frame", free.longest_gap());
        let mut strict = Channel::new(CongestionControl::On);
        strict.load(20, 0);
        assert!((190..=201).contains(&strict.sent.len()), "{} frames in 20 s", strict.sent.len());
        for (mode, others) in [(CongestionControl::Auto, 65), (CongestionControl::On, 65)] {
            let mut busy = Channel::new(mode);
            busy.load(2, others);
            busy.sent.clear();
            busy.load(20, others);
            assert!((19..=21).contains(&busy.sent.len()), "{mode:?}: {} frames in 20 s", busy.sent.len());
        }
    }

    #[test]
    fn a_burst_on_a_free_channel_passes_in_its_order() {
        let mut gate = RadioChannels::new(CongestionControl::Auto);
        let address = LinkAddress([2, 0, 0, 0, 0, 1]);
        let link = LinkEvent { link: RADIO, name: "wlan0".to_owned(), address: Some(address), up: true, mtu: 1500 };
        gate.set_link(Time::ZERO, &link);
        let times = Some(ChannelTimes { observed: 1, busy: 0 });
        gate.receive(Time::ZERO, &ChannelUse { link: RADIO, is_ocb: true, times }, &mut Outbox::new());
        let mut out = Outbox::new();
        for number in 0..100 {
            let bytes = vec![0x11, 0, 0xf2, 1, 0x20, 0x50, 3, 0x80, number];
            out.send_frame(Frame { link: RADIO, source: address, destination: address, ethertype: ETHERTYPE, bytes });
        }
        gate.gate(Time::ZERO, 0, &mut out);
        let frames =
            out.drain().filter_map(|output| if let Output::Frame(frame) = output { Some(frame) } else { None });
        assert!(frames.map(|frame| frame.bytes[8]).eq(0..100));
    }

    #[test]
    fn frames_with_a_former_address_are_not_sent() {
        let mut gate = RadioChannels::new(CongestionControl::On);
        let (former, present) = (LinkAddress([2, 0, 0, 0, 0, 1]), LinkAddress([2, 0, 0, 0, 0, 2]));
        let link = LinkEvent { link: RADIO, name: "wlan0".to_owned(), address: Some(former), up: true, mtu: 1500 };
        gate.set_link(Time::ZERO, &link);
        let times = Some(ChannelTimes { observed: 1, busy: 0 });
        gate.receive(Time::ZERO, &ChannelUse { link: RADIO, is_ocb: true, times }, &mut Outbox::new());
        let mut out = Outbox::new();
        for source in [former, former, former, present] {
            let bytes = vec![0x11, 0, 0xf2, 1, 0x20, 0x50, 3, 0x80];
            out.send_frame(Frame { link: RADIO, source, destination: former, ethertype: ETHERTYPE, bytes });
        }
        gate.gate(Time::ZERO, 0, &mut out);
        assert_eq!(out.drain().count(), 1, "the others wait");
        gate.discard_former(present);
        let mut sources = Vec::new();
        for millis in 1..1000 {
            let mut out = Outbox::new();
            gate.gate(Time::ZERO + Duration::from_millis(millis), 0, &mut out);
            sources.extend(out.drain().filter_map(|output| match output {
                Output::Frame(frame) => Some(frame.source),
                _ => None,
            }));
        }
        assert_eq!(sources, [present]);
        assert_eq!(gate.view().map(|row| row.dropped).sum::<u64>(), 2);
    }

    #[test]
    fn without_a_measurement_nothing_is_limited_and_the_log_says_so_once() {
        for (mode, is_ocb, measures) in [
            (CongestionControl::Auto, false, false),
            (CongestionControl::On, false, false),
            (CongestionControl::Auto, false, true),
        ] {
            let mut road = Road::new(mode, is_ocb, measures);
            assert!(road.drive(30, 90) > 10);
            assert_eq!((road.channels().len(), road.notices()), (0, 1), "{mode:?}");
        }
        let mut off = Road::new(CongestionControl::Off, true, true);
        assert!(off.drive(5, 90) > 10);
        assert_eq!((off.channels().len(), off.notices()), (0, 0));
        let mut on = Road::new(CongestionControl::On, false, true);
        assert!(on.drive(5, 90) <= 3);
    }

    #[test]
    fn a_radio_that_joins_a_channel_later_is_controlled_then() {
        let mut road = Road::new(CongestionControl::Auto, false, false);
        road.drive(3, 90);
        (road.is_ocb, road.measures) = (true, true);
        road.drive(12, 90);
        assert_eq!(road.channels().first().map(|row| row.state.clone()), Some(CongestionState::Restrictive));
        let address = Some(LinkAddress([2, 0, 0, 0, 0, 1]));
        road.feed(&Input::Link(LinkEvent { link: RADIO, name: "wlan0".to_owned(), address, up: false, mtu: 1500 }));
        assert!(road.channels().is_empty());
    }

    #[test]
    fn counters_that_are_reset_or_absurd_have_a_ratio_all_the_same() {
        let times = |observed, busy| ChannelTimes { observed, busy };
        assert_eq!(busy_ratio(times(1000, 100), times(1100, 150)), Some(500));
        assert_eq!(busy_ratio(times(1000, 100), times(1000, 100)), None);
        assert_eq!(busy_ratio(times(1000, 100), times(80, 20)), Some(250), "reset");
        assert_eq!(busy_ratio(times(0, 0), times(10, u64::MAX)), Some(1000));
        assert_eq!(busy_ratio(times(0, 0), times(u64::MAX, u64::MAX)), Some(1000));
    }
}
