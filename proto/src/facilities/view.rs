//! Views of the LDM and of service announcements for the control socket.

use super::ldm::{LdmEvent, LdmStation, StationMessage};
use super::message_table::ReceivedMessage;
use super::sam::SamGenerator;
use super::service_table::{self, ReceivedSam};
use crate::base::time::Time;
use crate::contract::config::facilities::{EventId, RoutingAdvertisement};
use crate::contract::view::{AnnouncementView, LdmEventView, LdmMessageView, LdmStationView, ServiceView};
use core::net::Ipv6Addr;
use core::time::Duration;
use roam6_wire::geo::ItsStationType;
use roam6_wire::its::cam::{Cam, HighFrequency};
use roam6_wire::its::common::{Heading, Speed};
use roam6_wire::its::extension::Value;
use roam6_wire::its::saem::{Address, Body, Routing, Service, values};
use roam6_wire::its::vam::{Profile, Vam};
use roam6_wire::{LinkAddress, Prefix};

/// A station; `None` if its message has no place.
pub(super) fn station(seen: &LdmStation, now: Time) -> Option<LdmStationView> {
    let (mid, age) = (seen.mid, now.since(seen.received));
    match &seen.message {
        StationMessage::Cam(cam) => station_of_cam(cam, mid, age),
        StationMessage::Vam(vam) => vulnerable_road_user(vam, mid, age),
    }
}

fn station_of_cam(cam: &Cam, mid: LinkAddress, age: Duration) -> Option<LdmStationView> {
    let parameters = &cam.awareness.parameters;
    let vehicle = match &parameters.high_frequency {
        HighFrequency::Vehicle(vehicle) => Some(vehicle),
        _ => None,
    };
    Some(LdmStationView {
        station: cam.header.station_id,
        mid,
        kind: ItsStationType(parameters.basic.station_type).to_string(),
        place: parameters.basic.position.place()?,
        speed: vehicle.and_then(|vehicle| known_speed(vehicle.speed)),
        heading: vehicle.and_then(|vehicle| known_heading(vehicle.heading)),
        length: vehicle.map(|vehicle| vehicle.length.value).filter(|length| *length < 1022),
        width: vehicle.map(|vehicle| vehicle.width).filter(|width| *width < 61),
        age,
    })
}

fn vulnerable_road_user(vam: &Vam, mid: LinkAddress, age: Duration) -> Option<LdmStationView> {
    let parameters = &vam.awareness.parameters;
    let kind = ItsStationType(parameters.basic.station_type);
    let profile = parameters.low_frequency.as_ref().map(|low| low.profile).and_then(Profile::name);
    Some(LdmStationView {
        station: vam.header.station_id,
        mid,
        kind: profile.map_or_else(|| kind.to_string(), |profile| format!("{kind} ({profile})")),
        place: parameters.basic.position.place()?,
        speed: known_speed(parameters.high_frequency.speed),
        heading: known_heading(parameters.high_frequency.heading),
        length: None,
        width: None,
        age,
    })
}

fn known_speed(speed: Speed) -> Option<u16> {
    Some(speed.value).filter(|speed| *speed < 16_383)
}

fn known_heading(heading: Heading) -> Option<u16> {
    Some(heading.value).filter(|heading| *heading <= 3600)
}

/// A message that describes more than its station.
pub(super) fn message(known: &ReceivedMessage, now: Time) -> LdmMessageView {
    LdmMessageView {
        station: known.header.station_id,
        mid: known.mid,
        kind: known.kind().to_owned(),
        place: known.perception.and_then(|perception| perception.place),
        heading: known.perception.and_then(|perception| perception.orientation),
        objects: known.perception.and_then(|perception| perception.objects),
        count: known.count,
        age: now.since(known.received),
    }
}

/// An event; `None` if its DENM has no place.
pub(super) fn event(known: &LdmEvent, name: EventId, tag: Option<u32>, now: Time) -> Option<LdmEventView> {
    let notification = &known.denm.denm.notification;
    let (cause, sub_cause) = known.denm.cause();
    Some(LdmEventView {
        name,
        tag,
        cause,
        sub_cause,
        quality: notification.situation.as_ref().map_or(0, |it| it.quality),
        place: notification.management.position.place()?,
        area: known.denm.area,
        remaining: known.until.since(now),
    })
}

/// The announcement of this station.
pub(super) fn own(announcer: &SamGenerator, station: u32, now: Time) -> Option<AnnouncementView> {
    let (announcement, content) = announcer.announcement()?;
    let services = announcement.services.iter().map(|served| ServiceView {
        application: served.application,
        channel: None,
        address: served.address,
        port: served.port,
        context: served.context.clone(),
    });
    Some(AnnouncementView {
        station,
        mid: None,
        name: announcement.name.clone(),
        content,
        services: services.collect(),
        routing: announcement.routing.clone(),
        interval: Some(announcement.interval),
        age: announcer.last().map(|last| now.since(last)),
    })
}

/// The announcement of another station.
pub(super) fn announcement(received: &ReceivedSam, now: Time) -> AnnouncementView {
    let body = &received.saem.sam.body;
    let name = values(body.extensions.as_deref()).find_map(|value| match value {
        Value::Advertiser(name) => Some(name),
        _ => None,
    });
    AnnouncementView {
        station: received.saem.header.station_id,
        mid: Some(received.mid),
        name,
        content: body.change_count.content,
        services: body.services.iter().flatten().map(|one| service(one, body)).collect(),
        routing: body.routing.as_ref().and_then(routing_advertisement),
        interval: service_table::interval(&received.saem),
        age: Some(now.since(received.received)),
    }
}

fn service(service: &Service, body: &Body) -> ServiceView {
    let index = usize::from(service.channel).checked_sub(1);
    let channel = index.and_then(|index| body.channels.as_ref()?.get(index));
    let (application, channel) = (service.application.into(), channel.map(|channel| channel.number));
    let mut seen = ServiceView { application, channel, address: None, port: None, context: None };
    for value in values(service.options.extensions.as_deref()) {
        match value {
            Value::Address(address) => seen.address = Some(address),
            Value::Port(port) => seen.port = Some(port),
            Value::Context(octets) => seen.context = Some(octets.escape_ascii().to_string()),
            _ => {}
        }
    }
    seen
}

fn routing_advertisement(routing: &Routing) -> Option<RoutingAdvertisement> {
    let address = |Address(octets): &Address| Ipv6Addr::from(**octets);
    let second = values(Some(&routing.extensions)).find_map(|value| match value {
        Value::SecondaryDns(address) => Some(address),
        _ => None,
    });
    let dns = [Some(address(&routing.dns)), second].into_iter().flatten();
    Some(RoutingAdvertisement {
        prefix: Prefix::new(address(&routing.prefix), routing.prefix_length)?,
        gateway: address(&routing.gateway),
        dns: dns.filter(|dns| !dns.is_unspecified()).collect(),
        lifetime: Duration::from_secs(routing.lifetime.into()),
    })
}
