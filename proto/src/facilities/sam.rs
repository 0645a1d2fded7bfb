//! Service announcement: the originating side of EN 302 890-1 (SAM). The interval is configured, as no available
//! document specifies it; the message carries the repeat rate in messages per five seconds.

use crate::base::time::Time;
use crate::contract::config::facilities::{Announcement, OfferedService, RoutingAdvertisement};
use core::net::Ipv6Addr;
use core::time::Duration;
use roam6_wire::its::common::Header;
use roam6_wire::its::extension::{Extension, Value};
use roam6_wire::its::number::Number;
use roam6_wire::its::saem::{
    Address, Body, ChangeCount, Routing, Saem, Sam, Service, ServiceOptions, VERSION, Version,
};
use roam6_wire::its::{PROTOCOL_VERSION, message};

/// Minimum interval between messages, also after a change.
const MIN_INTERVAL: Duration = Duration::from_millis(100);
/// The period of the repeat rate.
pub const RATE_PERIOD: Duration = Duration::from_secs(5);
/// The announcement number; a station has one announcement.
const ANNOUNCEMENT_COUNT: u8 = 0;

/// Generates the SAMs of this station.
#[derive(Debug)]
pub struct SamGenerator {
    announcement: Option<Announcement>,
    /// SrvAdvContentCount: incremented modulo 16 with each change.
    content: u8,
    is_changed: bool,
    last: Option<Time>,
}

impl SamGenerator {
    /// A generator for this announcement; `None` sends nothing.
    pub fn new(announcement: Option<Announcement>) -> SamGenerator {
        SamGenerator { announcement, content: 0, is_changed: false, last: None }
    }

    /// Replaces the announcement.
    pub fn change(&mut self, announcement: Option<Announcement>) {
        if self.announcement != announcement {
            (self.announcement, self.is_changed) = (announcement, true);
            self.content = (self.content + 1) % 16;
        }
    }

    /// The announcement and its content count.
    pub fn announcement(&self) -> Option<(&Announcement, u8)> {
        self.announcement.as_ref().map(|announcement| (announcement, self.content))
    }

    /// When it was sent last.
    pub fn last(&self) -> Option<Time> {
        self.last
    }

    /// The message if it is due, which then counts as sent, and the interval to the next.
    pub fn next_message(&mut self, now: Time, station: u32) -> Option<(Saem, Duration)> {
        let announcement = self.announcement.as_ref()?;
        if self.due(announcement).is_some_and(|at| now < at) {
            return None;
        }
        (self.last, self.is_changed) = (Some(now), false);
        Some((message(station, announcement, self.content), announcement.interval))
    }

    /// When it is due, once a message was sent.
    pub fn deadline(&self) -> Option<Time> {
        self.due(self.announcement.as_ref()?)
    }

    fn due(&self, announcement: &Announcement) -> Option<Time> {
        let wait = if self.is_changed { MIN_INTERVAL } else { announcement.interval.max(MIN_INTERVAL) };
        self.last.map(|last| last + wait)
    }
}

fn message(station_id: u32, announcement: &Announcement, content: u8) -> Saem {
    let header = Header { protocol_version: PROTOCOL_VERSION, message_id: message::SAEM, station_id };
    let version = Version { message_id: 0, version: VERSION };
    let rate = RATE_PERIOD.as_millis() / announcement.interval.as_millis().max(1);
    let rate = Value::RepeatRate(u8::try_from(rate.max(1)).unwrap_or(u8::MAX));
    let name = announcement.name.clone().map(Value::Advertiser);
    let body = Body {
        change_count: ChangeCount { announcement: ANNOUNCEMENT_COUNT, content },
        extensions: extensions([Some(rate), name]),
        // TS 104 091: always there, if empty.
        services: Some(announcement.services.iter().map(service).collect()),
        channels: None,
        routing: announcement.routing.as_ref().map(routing),
    };
    Saem { header, sam: Sam { version, body } }
}

fn service(served: &OfferedService) -> Service {
    let context = served.context.as_ref().map(|text| Value::Context(text.clone().into_bytes()));
    let all = [served.address.map(Value::Address), served.port.map(Value::Port), context];
    let options = ServiceOptions { extensions: extensions(all), ..ServiceOptions::default() };
    Service { application: Number::from(served.application), channel: 0, options }
}

fn routing(advertised: &RoutingAdvertisement) -> Routing {
    let address = |address: Ipv6Addr| Address(address.octets().into());
    let mut dns = advertised.dns.iter().copied();
    let first = dns.next().unwrap_or(Ipv6Addr::UNSPECIFIED);
    Routing {
        lifetime: u16::try_from(advertised.lifetime.as_secs()).unwrap_or(u16::MAX),
        prefix: address(advertised.prefix.address()),
        prefix_length: advertised.prefix.length(),
        gateway: address(advertised.gateway),
        dns: address(first),
        extensions: extensions([dns.next().map(Value::SecondaryDns)]).unwrap_or_default(),
    }
}

fn extensions<const N: usize>(values: [Option<Value>; N]) -> Option<Vec<Extension>> {
    let all: Vec<Extension> = values.iter().flatten().filter_map(Value::emit).collect();
    (!all.is_empty()).then_some(all)
}
