//! A GeoNetworking station as an engine: the router, IPv6 over it, echo and facilities.

use super::adaptation::{Adaptation, MAX_DESTINATIONS};
use super::echo::Echoes;
use super::geometry;
use super::request::{Refused, Request};
use super::router::Router;
use super::view;
use crate::base::few;
use crate::base::ids::LinkId;
use crate::base::rng::Entropy;
use crate::base::time::Time;
use crate::contract::command::Command;
use crate::contract::config::facilities::DenmRequest;
use crate::contract::config::geo::{GeoConfig, GeoDestination, EchoRequest, VirtualLink};
use crate::contract::engine::{Engine, Outbox};
use crate::contract::input::{Frame, Input, LinkEvent};
use crate::contract::item::{EthertypeSubscription, Item, Key, VirtualInterface};
use crate::contract::report::{DropReason, Report};
use crate::contract::view::{GroupView, View};
use crate::facilities::Facilities;
use roam6_wire::LinkAddress;
use roam6_wire::geo::{Area, ETHERTYPE, TrafficClass};

/// A GeoNetworking station.
#[derive(Debug)]
pub struct GeoStation {
    interfaces: few::VecSet<String>,
    max_sdu: u16,
    max_area: f64,
    router: Router,
    adaptation: Adaptation,
    echoes: Echoes,
    facilities: Option<Facilities>,
    /// When the facilities have a message due.
    speaks_at: Option<Time>,
    /// Interfaces that are up.
    links: few::VecMap<LinkId, Radio>,
    /// The virtual links as last requested from the host: link-layer address and MTU.
    asked: Option<(LinkAddress, u32)>,
    stopped: bool,
}

/// An interface that carries GeoNetworking frames.
#[derive(Debug, Clone, Copy)]
struct Radio {
    /// MTU of its frames, octets.
    mtu: u32,
    /// Its link-layer address.
    device: LinkAddress,
    /// The additional link-layer address last requested from the host, to receive frames for it too.
    asked: Option<LinkAddress>,
}

/// The traffic class of echoes.
const ECHO: TrafficClass = VirtualLink::CLASS;

impl GeoStation {
    /// The station, before any interface or fix is known.
    pub fn new(config: GeoConfig, mut entropy: Entropy) -> GeoStation {
        let echoes = Echoes::new(entropy.fork());
        let seed = entropy.fork();
        let facilities = config.facilities.map(|facilities| Facilities::new(facilities, config.station, seed));
        GeoStation {
            interfaces: config.interfaces,
            max_sdu: config.mib.max_sdu_size,
            max_area: f64::from(config.mib.max_area_size),
            router: Router::new(config.station, config.mib, entropy),
            adaptation: Adaptation::new(config.virtual_links),
            echoes,
            facilities,
            speaks_at: None,
            links: few::VecMap::new(),
            asked: None,
            stopped: false,
        }
    }

    /// The router.
    pub fn router(&self) -> &Router {
        &self.router
    }

    fn take_link(&mut self, now: Time, event: &LinkEvent, out: &mut Outbox) {
        if self.adaptation.names().any(|name| name == event.name) {
            self.adaptation.set_link(&event.name, event.up.then_some(event.link));
            return;
        }
        if !self.interfaces.contains(&event.name) {
            return;
        }
        let before = self.links.get(&event.link).copied();
        match event.address.filter(|_| event.up) {
            Some(device) => {
                let asked = before.and_then(|before| before.asked);
                self.links.insert(event.link, Radio { mtu: event.mtu, device, asked });
                if before.is_none() {
                    out.put(Item::EthertypeSubscription(EthertypeSubscription { link: event.link, ethertype: ETHERTYPE, address: None }));
                }
            }
            None => {
                if self.links.remove(&event.link).is_some() {
                    out.drop(Key::EthertypeSubscription(event.link, ETHERTYPE));
                }
            }
        }
        self.router.set_link(now, event);
    }

    /// Requests reception for the address that frames carry, where it differs from the interface's own.
    fn ask_for_addresses(&mut self, out: &mut Outbox) {
        for (link, radio) in self.links.iter_mut() {
            let address = self.router.link_address(*link).filter(|address| *address != radio.device);
            if radio.asked != address {
                radio.asked = address;
                out.put(Item::EthertypeSubscription(EthertypeSubscription { link: *link, ethertype: ETHERTYPE, address }));
            }
        }
    }

    /// Requests the virtual links with the address and MTU of the station.
    fn ask_for_links(&mut self, out: &mut Outbox) {
        let Some(mtu) = self.links.values().map(|radio| radio.mtu).min() else { return };
        let wanted = (self.router.address().mid, Adaptation::mtu(self.max_sdu, mtu));
        if self.asked == Some(wanted) {
            return;
        }
        self.asked = Some(wanted);
        let (address, mtu) = wanted;
        for name in self.adaptation.names() {
            out.put(Item::VirtualInterface(VirtualInterface { name: name.to_owned(), address, mtu }));
        }
    }

    fn take_frame(&mut self, now: Time, frame: &Frame, out: &mut Outbox) {
        if self.adaptation.has(frame.link) {
            self.adaptation.overhear(frame);
            let place = self.router.position(now).map(|position| position.place);
            if let Some(request) = self.adaptation.request(frame.clone(), place) {
                self.send(now, request, out);
            }
            return;
        }
        if frame.ethertype != ETHERTYPE {
            return;
        }
        let Some(delivery) = self.router.hear(now, frame, out) else { return };
        let here = self.router.position(now).map(|position| position.place);
        if let Some(frame) = self.adaptation.frame(&delivery, self.router.address().mid, here) {
            self.hand_up(frame, out);
        }
        if let Some(report) = self.echoes.hear(now, &delivery) {
            out.report(report);
        }
        let its_time = self.router.its_time(now);
        if let Some(report) = self.facilities.as_mut().and_then(|it| it.hear(now, &delivery, its_time)) {
            out.report(report);
        }
    }

    /// Delivers a frame to the host; a multicast frame only if its group is joined.
    fn hand_up(&self, frame: Frame, out: &mut Outbox) {
        if self.adaptation.wants(&frame) {
            out.send_frame(frame);
        } else {
            let (reason, detail) = (DropReason::NotForUs, "no listener of the multicast group".to_owned());
            out.report(Report::Dropped { reason, from: None, detail });
        }
    }

    fn send(&mut self, now: Time, request: Request, out: &mut Outbox) {
        if let Err(refused) = self.router.request(now, request, out) {
            out.report(Report::Dropped { reason: refused.reason(), from: None, detail: refused.to_string() });
        }
    }

    fn obey(&mut self, now: Time, order: &Command, out: &mut Outbox) {
        match order {
            Command::Stop => self.stop(out),
            Command::SendEchoRequest(question) => self.ask(now, question, out),
            Command::AddGeoDestination(destination) => self.put_area(*destination, out),
            Command::RemoveGeoDestination(address) => self.adaptation.drop(*address),
            Command::Denm(order) => self.notify(now, order, out),
            Command::ReloadAnnouncement(announcement) => {
                if let Some(facilities) = &mut self.facilities {
                    facilities.announce(announcement.as_deref().cloned());
                }
            }
            _ => {}
        }
    }

    fn ask(&mut self, now: Time, question: &EchoRequest, out: &mut Outbox) {
        let request = self.echoes.ask(now, question, ECHO);
        if let Err(refused) = self.router.request(now, request, out) {
            let (identifier, sequence) = (question.id.identifier, question.id.sequence);
            out.report(Report::EchoNotSent { identifier, sequence, why: refused.to_string() });
        }
    }

    fn notify(&mut self, now: Time, order: &DenmRequest, out: &mut Outbox) {
        match self.tell(now, order) {
            Ok(request) => self.send(now, request, out),
            Err(why) => out.report(Report::Notice { text: format!("DENM not sent: {why}") }),
        }
    }

    fn tell(&mut self, now: Time, order: &DenmRequest) -> Result<Request, String> {
        if let Some(area) = order.area() {
            self.allow(area).map_err(|why| why.to_string())?;
        }
        let own = self.router.own(now);
        let facilities = self.facilities.as_mut().ok_or("this station has no facilities")?;
        facilities.obey(now, order, own.as_ref())
    }

    /// Sends the messages of the facilities that are due; none while no interface is up.
    fn speak(&mut self, now: Time, out: &mut Outbox) {
        let own = self.router.own(now).filter(|_| !self.links.is_empty());
        while let Some(request) = self.facilities.as_mut().and_then(|it| it.turn(now, own.as_ref())) {
            self.send(now, request, out);
        }
        self.speaks_at = self.facilities.as_ref().and_then(|it| it.deadline(own.as_ref()));
    }

    fn put_area(&mut self, destination: GeoDestination, out: &mut Outbox) {
        let address = destination.address;
        if let Err(why) = self.allow(&destination.area) {
            out.report(Report::Notice { text: format!("no area set for {address}: {why}") });
        } else if !self.adaptation.put(destination) {
            out.report(Report::TableFull { table: "areas".to_owned(), limit: MAX_DESTINATIONS });
        }
    }

    /// Refuses areas larger than itsGnMaxGeoAreaSize.
    fn allow(&self, area: &Area) -> Result<(), Refused> {
        let (has, most) = (geometry::size(area), self.max_area);
        if has > most { Err(Refused::AreaTooLarge { has, most }) } else { Ok(()) }
    }

    fn stop(&mut self, out: &mut Outbox) {
        self.stopped = true;
        for name in self.adaptation.names() {
            out.drop(Key::VirtualInterface(name.to_owned()));
        }
        for link in std::mem::take(&mut self.links).into_keys() {
            out.drop(Key::EthertypeSubscription(link, ETHERTYPE));
        }
    }
}

impl Engine for GeoStation {
    fn handle(&mut self, now: Time, input: &Input, out: &mut Outbox) {
        if self.stopped {
            return;
        }
        match input {
            Input::Link(event) => self.take_link(now, event, out),
            Input::Address(event) => self.adaptation.set_address(event),
            Input::Frame(frame) => self.take_frame(now, frame, out),
            Input::Fix(fix) => self.router.set_fix(now, *fix),
            Input::Clock(clock) => self.router.set_clock(now, *clock),
            Input::Command(order) => self.obey(now, order, out),
            _ => {}
        }
        if self.stopped {
            return;
        }
        self.router.expire(now, out);
        while let Some(answer) = self.echoes.answer(now, ECHO) {
            self.send(now, answer, out);
        }
        self.speak(now, out);
        self.ask_for_links(out);
        self.ask_for_addresses(out);
    }

    fn deadline(&self) -> Option<Time> {
        [self.router.deadline(), self.echoes.deadline(), self.speaks_at]
            .into_iter()
            .flatten()
            .min()
            .filter(|_| !self.stopped)
    }

    fn view(&self, now: Time, view: &mut View) {
        let own = self.router.position(now);
        view.position = Some(self.router.position_view(now));
        view.areas.extend(self.adaptation.destinations());
        let groups = self.adaptation.groups();
        view.groups.extend(groups.map(|(link, group)| GroupView { link: link.to_owned(), group }));
        if let Some(facilities) = &self.facilities {
            facilities.view(now, view);
        }
        let of_own = own.map(|position| view::own(&position, self.router.has_fix()));
        let others = self.router.stations().iter().map(|station| view::other(station, own.as_ref(), now));
        view.stations.extend(of_own.into_iter().chain(others));
    }
}
