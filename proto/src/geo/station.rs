//! A whole GeoNetworking station as an engine: the router, and IPv6 over it.

use super::adaptation::Adaptation;
use super::config::GeoConfig;
use super::request::Request;
use super::router::Router;
use crate::engine::{Engine, Outbox};
use crate::entropy::Entropy;
use crate::input::{Frame, Input, LinkEvent, LinkId, Order};
use crate::plan::{Heard, Item, Key, VirtualInterface};
use crate::report::{DropReason, Report};
use crate::time::Time;
use crate::view::{StationView, View};
use roam6_wire::LinkAddress;
use roam6_wire::geo::{ETHERTYPE, TrafficClass};
use std::collections::{BTreeMap, BTreeSet};

/// A GeoNetworking station.
#[derive(Debug)]
pub struct GeoStation {
    interfaces: BTreeSet<String>,
    max_sdu: u16,
    class: TrafficClass,
    router: Router,
    adaptation: Adaptation,
    /// Interfaces that are up, and the frames they carry.
    links: BTreeMap<LinkId, u32>,
    /// The virtual links as they were asked for last.
    asked: Option<(LinkAddress, u32)>,
    stopped: bool,
}

impl GeoStation {
    /// A station that has seen nothing yet.
    pub fn new(config: GeoConfig, entropy: Entropy) -> GeoStation {
        GeoStation {
            interfaces: config.interfaces,
            max_sdu: config.mib.max_sdu_size,
            class: TrafficClass(config.mib.traffic_class),
            router: Router::new(config.station, config.mib, entropy),
            adaptation: Adaptation::new(config.virtual_links),
            links: BTreeMap::new(),
            asked: None,
            stopped: false,
        }
    }

    /// The router below.
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
        let was = self.links.contains_key(&event.link);
        let up = event.up && event.address.is_some();
        match (was, up) {
            (false, true) => out.put(Item::Heard(Heard { link: event.link, ethertype: ETHERTYPE })),
            (true, false) => out.drop(Key::Heard(event.link, ETHERTYPE)),
            _ => {}
        }
        if up {
            self.links.insert(event.link, event.mtu);
        } else {
            self.links.remove(&event.link);
        }
        self.router.set_link(now, event);
    }

    /// Makes the virtual links as the station's address and its interfaces want them.
    fn ask_for_links(&mut self, out: &mut Outbox) {
        let Some(mtu) = self.links.values().min() else { return };
        let wanted = (self.router.address().mid, Adaptation::mtu(self.max_sdu, *mtu));
        if self.asked == Some(wanted) {
            return;
        }
        self.asked = Some(wanted);
        let (address, mtu) = wanted;
        for name in self.adaptation.names() {
            out.put(Item::Virtual(VirtualInterface { name: name.to_owned(), address, mtu }));
        }
    }

    fn take_frame(&mut self, now: Time, frame: &Frame, out: &mut Outbox) {
        if self.adaptation.has(frame.link) {
            let place = self.router.position(now).map(|position| position.place);
            if let Some(request) = self.adaptation.request(frame.clone(), place, self.class) {
                self.send(now, request, out);
            }
            return;
        }
        if frame.ethertype != ETHERTYPE {
            return;
        }
        if let Some(delivery) = self.router.hear(now, frame, out)
            && let Some(frame) = self.adaptation.frame(&delivery, self.router.address().mid)
        {
            out.frame(frame);
        }
    }

    fn send(&mut self, now: Time, request: Request, out: &mut Outbox) {
        if let Err(refused) = self.router.request(now, request, out) {
            let reason = DropReason::NoNeighbour;
            out.report(Report::Dropped { reason, from: None, detail: refused.to_string() });
        }
    }

    fn stop(&mut self, out: &mut Outbox) {
        self.stopped = true;
        for name in self.adaptation.names() {
            out.drop(Key::Virtual(name.to_owned()));
        }
        for link in std::mem::take(&mut self.links).into_keys() {
            out.drop(Key::Heard(link, ETHERTYPE));
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
            Input::Frame(frame) => self.take_frame(now, frame, out),
            Input::Fix(fix) => self.router.set_fix(now, *fix),
            Input::Clock(clock) => self.router.set_clock(now, *clock),
            Input::Order(Order::Stop) => return self.stop(out),
            _ => {}
        }
        self.router.expire(now, out);
        self.ask_for_links(out);
    }

    fn deadline(&self) -> Option<Time> {
        self.router.deadline().filter(|_| !self.stopped)
    }

    fn view(&self, now: Time, view: &mut View) {
        let own = self.router.position(now);
        let of_own = own.map(|position| StationView::own(&position));
        let others = self.router.stations().iter().map(|station| StationView::of(station, own.as_ref(), now));
        view.stations.extend(of_own.into_iter().chain(others));
    }
}
