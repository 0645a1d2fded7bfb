//! A GeoNetworking station as an engine: the router, IPv6 over it, echo and facilities.

#[cfg(feature = "dcc")]
use super::congestion_control::RadioChannels;
use super::echo::EchoService;
#[cfg(feature = "geo-security")]
use super::former_pseudonyms::FormerPseudonyms;
use super::ipv6_adaptation::{AdvertisementEffect, Ipv6Adaptation, MAX_DESTINATIONS};
#[cfg(feature = "geo-security")]
use super::pseudonym::PseudonymSchedule;
use super::request::{Delivery, PacketRequest, RequestError};
use super::router::GeoRouter;
use super::{geometry, view};
use crate::base::ids::LinkId;
use crate::base::rng::Entropy;
use crate::base::time::Time;
use crate::base::vec_map::VecMap;
use crate::base::vec_set::VecSet;
use crate::contract::command::{Command, GeoCommand, LifecycleCommand};
use crate::contract::config::facilities::DenmRequest;
use crate::contract::config::geo::{DestinationScope, EchoRequest, GeoConfig, GeoDestination, VirtualLink};
use crate::contract::engine::{Engine, Outbox};
use crate::contract::input::{Frame, Input, LinkEvent};
use crate::contract::item::{EthertypeSubscription, Item, Key, VirtualInterface};
use crate::contract::report::{DropReason, GeoReport, Report};
#[cfg(feature = "geo-security")]
use crate::contract::signature::VerificationResult;
use crate::contract::view::{GroupView, StationView, View};
use crate::facilities::Facilities;
use roam6_wire::LinkAddress;
use roam6_wire::geo::{Area, Coordinates, ETHERTYPE, TrafficClass};

/// A GeoNetworking station.
#[derive(Debug)]
pub struct GeoStation {
    interfaces: VecSet<String>,
    max_sdu: u16,
    max_area: f64,
    max_advertised: usize,
    router: GeoRouter,
    adaptation: Ipv6Adaptation,
    echoes: EchoService,
    facilities: Option<Facilities>,
    /// When the facilities have a message due.
    facilities_due: Option<Time>,
    /// When the pseudonym changes, if it does.
    #[cfg(feature = "geo-security")]
    pseudonyms: Option<PseudonymSchedule>,
    #[cfg(feature = "geo-security")]
    pseudonym_due: Option<Time>,
    #[cfg(feature = "geo-security")]
    former_pseudonyms: FormerPseudonyms,
    /// Interfaces that are up.
    interfaces_up: VecMap<LinkId, InterfaceState>,
    /// The virtual links as last requested from the host: link-layer address and MTU.
    requested_links: Option<(LinkAddress, u32)>,
    stopped: bool,
    #[cfg(feature = "dcc")]
    channels: RadioChannels,
}

/// An interface that carries GeoNetworking frames.
#[derive(Debug, Clone)]
struct InterfaceState {
    name: String,
    /// MTU of its frames, octets.
    mtu: u32,
    /// Its link-layer address.
    device: LinkAddress,
    /// The additional link-layer address last requested from the host, to receive frames for it too.
    requested_address: Option<LinkAddress>,
}

/// The traffic class of echoes.
const ECHO: TrafficClass = VirtualLink::CLASS;

impl GeoStation {
    /// The station, before any interface or fix is known.
    pub fn new(config: GeoConfig, mut entropy: Entropy) -> GeoStation {
        let echoes = EchoService::new(entropy.fork());
        let seed = entropy.fork();
        let facilities = config.facilities.map(|facilities| Facilities::new(facilities, config.station, seed));
        #[cfg(feature = "geo-security")]
        let schedule_seed = entropy.independent();
        let router = GeoRouter::new(config.station, config.mib.clone(), entropy);
        #[cfg(feature = "geo-security")]
        let router = router.with_security(&config.security);
        #[cfg(feature = "geo-security")]
        let (router, pseudonyms) = match config.security.pseudonyms {
            true => (router.with_pseudonyms(), Some(PseudonymSchedule::new(schedule_seed))),
            false => (router, None),
        };
        GeoStation {
            interfaces: config.interfaces,
            max_sdu: config.mib.max_sdu_size,
            max_area: f64::from(config.mib.max_area_size),
            max_advertised: config.advertised_links,
            #[cfg(feature = "dcc")]
            channels: RadioChannels::new(config.mib.congestion_control),
            router,
            adaptation: Ipv6Adaptation::new(config.virtual_links, config.advertised_links, &config.destinations),
            echoes,
            facilities,
            facilities_due: None,
            #[cfg(feature = "geo-security")]
            pseudonyms,
            #[cfg(feature = "geo-security")]
            pseudonym_due: None,
            #[cfg(feature = "geo-security")]
            former_pseudonyms: FormerPseudonyms::default(),
            interfaces_up: VecMap::new(),
            requested_links: None,
            stopped: false,
        }
    }

    /// The router.
    pub fn router(&self) -> &GeoRouter {
        &self.router
    }

    /// The same station with another first sequence number: other stacks begin with 0.
    pub fn with_sequence(self, sequence: u16) -> GeoStation {
        GeoStation { router: self.router.with_sequence(sequence), ..self }
    }

    /// Sends a packet of an upper layer (GN-DATA.request, annex J).
    ///
    /// # Errors
    /// Why it is refused.
    pub fn request(&mut self, now: Time, request: PacketRequest, out: &mut Outbox) -> Result<(), RequestError> {
        self.router.request(now, request, out)
    }

    fn link_changed(&mut self, now: Time, event: &LinkEvent, out: &mut Outbox) {
        if self.adaptation.names().any(|name| name == event.name) {
            self.adaptation.set_link(&event.name, event.up.then_some(event.link));
            if let Some(frame) = self.adaptation.take_held(event.link) {
                self.deliver_to_host(frame, out);
            }
            return;
        }
        if !self.interfaces.contains(&event.name) {
            return;
        }
        let before = self.interfaces_up.get(&event.link);
        match event.address.filter(|_| event.up) {
            Some(device) => {
                if before.is_none_or(|before| before.mtu != event.mtu) {
                    self.warn_of_small_mtu(event, out);
                }
                let requested_address = before.and_then(|before| before.requested_address);
                let state = InterfaceState { name: event.name.clone(), mtu: event.mtu, device, requested_address };
                if self.interfaces_up.insert(event.link, state).is_none() {
                    out.put(Item::EthertypeSubscription(EthertypeSubscription {
                        link: event.link,
                        ethertype: ETHERTYPE,
                        address: None,
                    }));
                }
            }
            None => {
                if self.interfaces_up.remove(&event.link).is_some() {
                    out.drop(Key::EthertypeSubscription(event.link, ETHERTYPE));
                }
            }
        }
        self.router.set_link(now, event);
        #[cfg(feature = "dcc")]
        self.channels.set_link(now, event);
        #[cfg(feature = "geo-security")]
        if let Some(mtu) = self.interfaces_up.values().map(|radio| radio.mtu).min() {
            self.router.set_frame_mtu(mtu);
        }
    }

    /// Warns of frames that are too small for IPv6 packets of the minimum MTU.
    fn warn_of_small_mtu(&self, event: &LinkEvent, out: &mut Outbox) {
        let (has, needs) = (event.mtu, Ipv6Adaptation::MIN_FRAME_MTU + self.router.security_overhead());
        if has < needs && self.adaptation.names().next().is_some() {
            let name = &event.name;
            out.notice(format!(
                "interface {name} has an MTU of {has} octets: IPv6 packets of more than {} octets cannot be sent there; \
                 set the MTU to {needs} or more",
                has.saturating_sub(needs - 1280),
            ));
        }
    }

    /// Requests reception for the address that frames carry, where it differs from the interface's own.
    fn request_addresses(&mut self, out: &mut Outbox) {
        for (link, radio) in self.interfaces_up.iter_mut() {
            let address = self.router.link_address(*link).filter(|address| *address != radio.device);
            if radio.requested_address != address {
                radio.requested_address = address;
                out.put(Item::EthertypeSubscription(EthertypeSubscription {
                    link: *link,
                    ethertype: ETHERTYPE,
                    address,
                }));
            }
        }
    }

    /// Requests the virtual links with the address and MTU of the station.
    fn request_virtual_links(&mut self, out: &mut Outbox) {
        let Some(mtu) = self.interfaces_up.values().map(|radio| radio.mtu).min() else { return };
        let for_packet = mtu.saturating_sub(self.router.security_overhead());
        let wanted = (self.router.address().mid, Ipv6Adaptation::mtu(self.max_sdu, for_packet));
        if self.requested_links == Some(wanted) {
            return;
        }
        self.requested_links = Some(wanted);
        let (address, mtu) = wanted;
        for name in self.adaptation.names() {
            out.put(Item::VirtualInterface(VirtualInterface { name: name.to_owned(), address, mtu }));
        }
    }

    /// Receives a frame; returns the packet that is delivered to the upper layers (GN-DATA.indication, annex J).
    pub fn receive_frame<'a>(&mut self, now: Time, frame: &'a Frame, out: &mut Outbox) -> Option<Delivery<'a>> {
        if self.adaptation.is_virtual_link(frame.link) {
            #[cfg(feature = "geo-security")]
            if self.is_of_former_pseudonym(frame) {
                out.report_drop(DropReason::NotForUs, None, "a packet with the former pseudonym");
                return None;
            }
            self.adaptation.observe(frame);
            if let Some(answer) = self.adaptation.resolve(frame) {
                self.deliver_to_host(answer, out);
                return None;
            }
            let place = self.router.position(now).map(|position| position.place);
            let table = self.router.location_table();
            let place_of = |station| table.find(station).map(|known| known.position.place);
            if let Some(request) = self.adaptation.request(frame.clone(), place, place_of) {
                self.send(now, request, out);
            }
            return None;
        }
        if frame.ethertype != ETHERTYPE {
            return None;
        }
        let delivery = self.router.receive(now, frame, out)?;
        self.deliver(now, &delivery, out);
        Some(delivery)
    }

    /// Whether the host has sent a frame with an address that it had before the last changes of the pseudonym.
    #[cfg(feature = "geo-security")]
    fn is_of_former_pseudonym(&self, frame: &Frame) -> bool {
        let is_other = frame.source != self.router.address().mid;
        self.pseudonyms.is_some() && (is_other || self.former_pseudonyms.is_source_of(frame))
    }

    /// Delivers a packet to the upper layers.
    fn deliver(&mut self, now: Time, delivery: &Delivery<'_>, out: &mut Outbox) {
        if self.receive_advertisement(now, delivery, out) {
            return;
        }
        let here = self.router.position(now).map(|position| position.place);
        if let Some(frame) = self.adaptation.frame(delivery, self.router.address().mid, here) {
            self.deliver_to_host(frame, out);
        }
        if let Some(report) = self.echoes.receive(now, delivery) {
            out.report(report);
        }
        let its_time = self.router.its_time(now);
        if let Some(report) = self.facilities.as_mut().and_then(|it| it.receive(now, delivery, its_time)) {
            out.report(report);
        }
    }

    /// Creates or withdraws virtual links by a Router Advertisement; returns whether it is held until its link exists.
    fn receive_advertisement(&mut self, now: Time, delivery: &Delivery<'_>, out: &mut Outbox) -> bool {
        if delivery.hop_limit_reached {
            return false;
        }
        match self.adaptation.receive_advertisement(now, &delivery.packet, self.router.address().mid) {
            AdvertisementEffect::None | AdvertisementEffect::Withdrawn => return false,
            AdvertisementEffect::Refused => out.report_full_table("advertised links", self.max_advertised),
            // All virtual links are requested again, and this one for the first time.
            AdvertisementEffect::Created => self.requested_links = None,
        }
        true
    }

    /// Removes virtual links that are not advertised any more, or whose area this station has left.
    fn expire_advertised_links(&mut self, now: Time, out: &mut Outbox) {
        let here = self.router.position(now).map(|position| position.place);
        for name in self.adaptation.expire_links(now, here) {
            out.drop(Key::VirtualInterface(name));
        }
    }

    /// Receives the result of a verification, and the packets that it is about.
    #[cfg(feature = "geo-security")]
    fn receive_verified(&mut self, now: Time, result: VerificationResult, out: &mut Outbox) {
        let Some((frames, signer)) = self.router.conclude_verification(now, result, out) else { return };
        for frame in &frames {
            if let Some(delivery) = self.router.receive_verified(now, frame, signer, out) {
                self.deliver(now, &delivery, out);
            }
        }
    }

    /// Delivers a frame to the host; a multicast frame only if its group is joined.
    fn deliver_to_host(&self, frame: Frame, out: &mut Outbox) {
        if self.adaptation.has_listener(&frame) {
            out.send_frame(frame);
        } else {
            out.report_drop(DropReason::NotForUs, None, "no listener of the multicast group");
        }
    }

    fn send(&mut self, now: Time, request: PacketRequest, out: &mut Outbox) {
        if let Err(refused) = self.router.request(now, request, out) {
            out.report_drop(refused.reason(), None, refused.to_string());
        }
    }

    fn execute(&mut self, now: Time, order: &Command, out: &mut Outbox) {
        match order {
            Command::Lifecycle(LifecycleCommand::Stop) => self.stop(out),
            Command::Geo(GeoCommand::SendEchoRequest(request)) => self.send_echo(now, request, out),
            Command::Geo(GeoCommand::AddGeoDestination(destination)) => self.put_destination(*destination, out),
            Command::Geo(GeoCommand::RemoveGeoDestination(address)) => self.adaptation.drop(*address),
            Command::Geo(GeoCommand::Denm(order)) => self.order_denm(now, order, out),
            #[cfg(feature = "geo-security")]
            Command::Geo(order @ (GeoCommand::ChangePseudonym | GeoCommand::LockPseudonym(_))) => {
                self.order_pseudonym(now, order, out);
            }
            Command::Geo(GeoCommand::ReloadAnnouncement(announcement)) => {
                if let Some(facilities) = &mut self.facilities {
                    facilities.announce(announcement.as_deref().cloned());
                }
            }
            #[cfg(feature = "geo-security")]
            Command::Geo(GeoCommand::ReloadRevoked(revoked)) => self.router.set_revoked(revoked),
            #[cfg(feature = "geo-security")]
            Command::Geo(GeoCommand::ReloadAuthorities { roots, authorities }) => {
                self.router.set_authorities(roots, authorities);
            }
            #[cfg(feature = "geo-security")]
            Command::Geo(GeoCommand::ReloadTickets(tickets)) => self.router.replace_tickets(tickets),
            _ => {}
        }
    }

    fn send_echo(&mut self, now: Time, request: &EchoRequest, out: &mut Outbox) {
        let packet = self.echoes.request(now, request, ECHO);
        if let Err(refused) = self.router.request(now, packet, out) {
            let (identifier, sequence) = (request.id.identifier, request.id.sequence);
            out.report(Report::Geo(GeoReport::EchoNotSent { identifier, sequence, why: refused.to_string() }));
        }
    }

    fn order_denm(&mut self, now: Time, order: &DenmRequest, out: &mut Outbox) {
        match self.denm_request(now, order) {
            Ok(request) => self.send(now, request, out),
            Err(why) => out.notice(format!("DENM not sent: {why}")),
        }
    }

    fn denm_request(&mut self, now: Time, order: &DenmRequest) -> Result<PacketRequest, String> {
        if let Some(area) = order.area() {
            self.check_area(area).map_err(|why| why.to_string())?;
        }
        let own = self.router.ego_state(now);
        #[cfg(all(feature = "facilities", feature = "geo-security"))]
        self.check_permission(order)?;
        let facilities = self.facilities.as_mut().ok_or("this station has no facilities")?;
        facilities.execute(now, order, own.as_ref())
    }

    #[cfg(feature = "geo-security")]
    fn order_pseudonym(&mut self, now: Time, order: &GeoCommand, out: &mut Outbox) {
        let Some(schedule) = &mut self.pseudonyms else {
            return out.notice("no pseudonym changed or locked: the station has none (pseudonyms in [geo.security])");
        };
        match order {
            GeoCommand::LockPseudonym(span) => schedule.lock(now, *span),
            _ => schedule.order(),
        }
    }

    /// Replaces a certificate that is not valid any longer, or withdrawn, and a pseudonym when its change is due.
    #[cfg(feature = "geo-security")]
    fn replace_certificate(&mut self, now: Time, out: &mut Outbox) {
        let is_needed = self.router.needs_other_certificate(now);
        match &mut self.pseudonyms {
            Some(schedule) if is_needed => schedule.order(),
            None if is_needed => self.router.take_next_ticket(now, out),
            _ => {}
        }
        self.change_pseudonym(now, out);
    }

    /// Changes the pseudonym when it is due, and not while an event of this station is active, whose DENMs have its name.
    #[cfg(feature = "geo-security")]
    fn change_pseudonym(&mut self, now: Time, out: &mut Outbox) {
        let Some(schedule) = &mut self.pseudonyms else { return };
        let has_events = self.facilities.as_ref().is_some_and(Facilities::has_own_events);
        if schedule.is_due(now) && !has_events {
            schedule.note_changed(now);
            let former = self.router.address().mid;
            if self.router.change_pseudonym(now, out) {
                self.former_pseudonyms.push(former);
                if let Some(facilities) = &mut self.facilities {
                    facilities.change_station_id();
                }
            } else {
                out.notice("the pseudonym is kept: no other certificate in tickets is valid now");
            }
        }
        self.pseudonym_due = schedule.deadline(now);
    }

    /// Refuses a DENM that receivers would refuse.
    #[cfg(all(feature = "facilities", feature = "geo-security"))]
    fn check_permission(&self, order: &DenmRequest) -> Result<(), String> {
        let permissions = self.router.own_permissions(roam6_wire::security::Psid::DENM);
        let permissions = permissions.ok_or("the certificate of this station does not permit DENMs")?;
        match order {
            DenmRequest::Trigger(event) | DenmRequest::Update(_, event)
                if !crate::facilities::denm::is_cause_permitted(event.cause.0, permissions) =>
            {
                Err(format!("the certificate of this station does not permit the cause {}", event.cause.0))
            }
            _ => Ok(()),
        }
    }

    /// Sends the messages of the facilities that are due; none while no interface is up.
    fn send_facility_messages(&mut self, now: Time, out: &mut Outbox) {
        let own = self.router.ego_state(now).filter(|_| !self.interfaces_up.is_empty());
        while let Some(request) = self.facilities.as_mut().and_then(|it| it.next_message(now, own.as_ref())) {
            self.send(now, request, out);
        }
        self.facilities_due = self.facilities.as_ref().and_then(|it| it.deadline(own.as_ref()));
    }

    fn put_destination(&mut self, destination: GeoDestination, out: &mut Outbox) {
        let address = destination.address;
        let size = match destination.scope {
            DestinationScope::Area(area) => Some(area),
            DestinationScope::Around(radius) | DestinationScope::AroundStation { radius, .. } => {
                Some(Area::circle(Coordinates { latitude: 0, longitude: 0 }, radius))
            }
            DestinationScope::Hops(_) => None,
        };
        if let Some(Err(why)) = size.map(|area| self.check_area(&area)) {
            out.notice(format!("no area set for {address}: {why}"));
        } else if !self.adaptation.put(destination) {
            out.report_full_table("areas", MAX_DESTINATIONS);
        }
    }

    /// Refuses areas larger than itsGnMaxGeoAreaSize.
    fn check_area(&self, area: &Area) -> Result<(), RequestError> {
        let (has, most) = (geometry::square_metres(area), self.max_area);
        if has > most { Err(RequestError::AreaTooLarge { square_metres: has, limit: most }) } else { Ok(()) }
    }

    fn stop(&mut self, out: &mut Outbox) {
        self.stopped = true;
        for name in self.adaptation.names() {
            out.drop(Key::VirtualInterface(name.to_owned()));
        }
        for link in std::mem::take(&mut self.interfaces_up).into_keys() {
            out.drop(Key::EthertypeSubscription(link, ETHERTYPE));
        }
    }
}

impl Engine for GeoStation {
    fn handle(&mut self, now: Time, input: &Input, out: &mut Outbox) {
        if self.stopped {
            return;
        }
        #[cfg(feature = "dcc")]
        let (first, address) = (out.outputs().len(), self.router.address().mid);
        match input {
            Input::Link(event) => self.link_changed(now, event, out),
            Input::Address(event) => self.adaptation.set_address(event),
            Input::Frame(frame) => {
                self.receive_frame(now, frame, out);
            }
            #[cfg(feature = "geo-security")]
            Input::Verified(result) => self.receive_verified(now, *result, out),
            #[cfg(feature = "geo-security")]
            Input::Signed(result) => self.router.conclude_signature(now, result, out),
            Input::Fix(fix) => {
                self.router.set_fix(now, *fix);
                #[cfg(feature = "geo-security")]
                if let (Some(schedule), Some(fix)) = (&mut self.pseudonyms, fix) {
                    schedule.set_place(fix.place);
                }
            }
            Input::Clock(clock) => self.router.set_clock(now, *clock),
            #[cfg(feature = "dcc")]
            Input::ChannelUse(measured) => self.channels.receive(now, measured, out),
            Input::Command(order) => self.execute(now, order, out),
            _ => {}
        }
        if self.stopped {
            return;
        }
        #[cfg(feature = "geo-security")]
        self.replace_certificate(now, out);
        self.router.expire(now, out);
        while let Some(answer) = self.echoes.next_reply(now, ECHO) {
            self.send(now, answer, out);
        }
        #[cfg(all(feature = "dcc", feature = "facilities"))]
        if let Some(facilities) = &mut self.facilities {
            facilities.set_least_cam_interval(self.channels.interval().unwrap_or_default());
        }
        self.send_facility_messages(now, out);
        self.expire_advertised_links(now, out);
        self.request_virtual_links(out);
        self.request_addresses(out);
        #[cfg(feature = "dcc")]
        {
            self.channels.gate(now, first, out);
            if self.router.address().mid != address {
                self.channels.discard_former(self.router.address().mid);
            }
            self.channels.query(now, out);
        }
    }

    fn deadline(&self) -> Option<Time> {
        #[cfg(feature = "geo-security")]
        let pseudonym_due = self.pseudonym_due;
        #[cfg(not(feature = "geo-security"))]
        let pseudonym_due = None;
        let adaptation_due = self.adaptation.deadline();
        #[cfg(feature = "dcc")]
        let channels_due = self.channels.deadline();
        #[cfg(not(feature = "dcc"))]
        let channels_due = None;
        let own = [self.router.deadline(), self.echoes.deadline(), self.facilities_due];
        own.into_iter().chain([pseudonym_due, adaptation_due, channels_due]).flatten().min().filter(|_| !self.stopped)
    }

    fn view(&self, now: Time, view: &mut View) {
        let own = self.router.position(now);
        view.position = Some(self.router.position_view(now));
        view.areas.extend(self.adaptation.destinations());
        #[cfg(feature = "dcc")]
        view.channels.extend(self.channels.view());
        let groups = self.adaptation.groups();
        view.groups.extend(groups.map(|(link, group)| GroupView { link: link.to_owned(), group }));
        if let Some(facilities) = &self.facilities {
            facilities.view(now, view);
        }
        let of_own = own.map(|position| view::own(&position, self.router.has_fix()));
        let others = self.router.location_table().iter().map(|station| {
            let hop = station.neighbour.map(|(hop, _)| hop);
            let link = hop.and_then(|hop| self.interfaces_up.get(&hop.link)).map(|interface| interface.name.clone());
            StationView { link, ..view::other(station, own.as_ref(), now) }
        });
        view.stations.extend(of_own.into_iter().chain(others));
    }
}
