//! Messages to mobile routers: acknowledgements, Binding Errors and Binding Refresh Requests. RFC 6275 §9.3.3, §9.5.4,
//! §9.5.5 and §10.3, RFC 3963 §6.6, RFC 4285 §5.1, RFC 3776 §4, RFC 5648 §6.2, RFC 6089 §5.3.5.

use super::HomeAgent;
use super::types::{BidStatus, CareOf, Reply};
use crate::contract::config::nemo::Authentication;
use crate::contract::report::NemoReport;
use crate::crypto::authenticator::authenticate;
use crate::{Outbox, Transmit, Via};
use core::time::Duration;
use roam6_wire::ip6::{self, Header, protocol};
use roam6_wire::mobility::{
    AckFlags, BindingAcknowledgement, BindingIdentifier, CareOfField, ErrorStatus, LIFETIME_UNIT_SECONDS, Message,
    MobilityOption, Status,
};
use roam6_wire::{Bid, HomeAddress, Ipv4Endpoint};
use std::net::Ipv6Addr;

impl HomeAgent {
    /// Acknowledges a registration that is installed.
    pub(super) fn acknowledge(&mut self, answer: &Reply, out: &mut Outbox) {
        let complete = answer.bid_statuses.iter().all(|echo| echo.status.is_accepted());
        let other = answer.bid_statuses.iter().map(|echo| echo.status).find(|status| *status != Status::ACCEPTED);
        self.send_acknowledgement(
            answer,
            if complete { other.unwrap_or(Status::ACCEPTED) } else { Status::MCOA_NOT_COMPLETE },
            out,
        );
    }

    /// Rejects an update, and reports it.
    pub(super) fn reject(&mut self, answer: &Reply, status: Status, out: &mut Outbox) {
        let answer = Reply { lifetime: Duration::ZERO, flows: Vec::new(), ipv4: Vec::new(), ..answer.clone() };
        self.send_acknowledgement(&answer, status, out);
        out.report(NemoReport::UpdateRejected {
            home_address: answer.home,
            care_of: answer.care_of.0,
            status: status.0,
        });
    }

    /// Sends a Binding Acknowledgement, authenticated as its update was.
    pub(super) fn send_acknowledgement(&mut self, answer: &Reply, status: Status, out: &mut Outbox) {
        let lifetime = lifetime_units(answer.lifetime);
        let bids = answer.bid_statuses.iter().map(|echo| echo.to_option(status)).map(MobilityOption::BindingIdentifier);
        let flows = answer.flows.iter().cloned().map(MobilityOption::FlowIdentification);
        // IPv4 options precede Binding Identifier options (RFC 5648 §8.2).
        let mut options: Vec<MobilityOption> = answer.ipv4.iter().cloned().chain(bids).chain(flows).collect();
        // RFC 6275 §6.2.4: less than the lifetime, or absent.
        let advice = self.config.refresh_advice.map(lifetime_units).filter(|advice| *advice > 0 && *advice < lifetime);
        options.extend(advice.filter(|_| status.is_accepted()).map(MobilityOption::BindingRefreshAdvice));
        options.extend(answer.dsmip.map(|dsmip| dsmip.nat_detection_option()));
        options.extend(Some(self.capabilities()).filter(|_| answer.has_capabilities));
        options.extend(answer.key_answer.filter(|_| status.is_accepted()).map(MobilityOption::KeyExchange));
        if status.is_accepted() {
            options.extend(self.wireguard_options(answer));
            options.extend(HomeAgent::esp_options(answer));
        }
        options.extend(answer.timestamp.map(|timestamp| MobilityOption::ReplayProtection(timestamp.0)));
        let flags = if answer.router { AckFlags::ROUTER } else { AckFlags::NONE };
        let message = Message::BindingAcknowledgement(BindingAcknowledgement {
            status,
            flags,
            sequence: answer.sequence,
            lifetime_units: lifetime,
            options,
        });
        let header = self.header(answer.to, answer.home, answer.has_home_address_option);
        let (source, destination) = (header.real_source(), header.real_destination());
        let bytes = match &answer.authentication {
            Authentication::SharedKey(key) => message.emit_authenticated(source, destination, key.spi, |part| {
                authenticate(&key.secret, answer.care_of, answer.home, part)
            }),
            Authentication::None | Authentication::Ipsec(_) => message.emit(source, destination),
        };
        let bytes = self.protect(&header, &answer.authentication, (protocol::MOBILITY, &bytes));
        match (answer.dsmip, answer.udp6) {
            (Some(dsmip), _) => self.transmit_dsmip(dsmip.observed.source, &bytes, out),
            (None, Some(end)) => self.transmit_udp6(end, &bytes, out),
            (None, None) => out.transmit(Transmit { via: answer.via, bytes }),
        }
    }

    /// Sends a Binding Refresh Request for a binding that expires soon (RFC 6275 §9.5.5, RFC 5648 §6.4).
    pub(super) fn send_refresh_request(&mut self, home: HomeAddress, care_of: CareOf, via: Via, out: &mut Outbox) {
        let CareOf { bid, priority, simultaneous_home: at_home, .. } = care_of;
        let echo = BidStatus { bid, priority, simultaneous_home: at_home, status: Status::ACCEPTED };
        let bid = (care_of.bid != Bid(0)).then(|| MobilityOption::BindingIdentifier(echo.to_option(Status::ACCEPTED)));
        let message = Message::BindingRefreshRequest { options: bid.into_iter().collect() };
        let ipv4_end = Ipv4Endpoint::from_ipv6(care_of.address);
        let is_encapsulated = ipv4_end.is_some() || care_of.udp.is_some();
        let to = if is_encapsulated { home.0 } else { care_of.address };
        let header = self.header(to, home, !care_of.simultaneous_home && !is_encapsulated);
        let bytes = message.emit(header.real_source(), header.real_destination());
        let authentication = self.prefix_table_row(home).map_or(Authentication::None, |row| row.authentication.clone());
        let bytes = self.protect(&header, &authentication, (protocol::MOBILITY, &bytes));
        match (ipv4_end, care_of.udp_end()) {
            (Some(end), _) => self.transmit_dsmip(end, &bytes, out),
            (None, Some(end)) => self.transmit_udp6(end, &bytes, out),
            (None, None) => out.transmit(Transmit { via, bytes }),
        }
    }

    /// Sends a Binding Error about a Home Address option or a mobility header.
    pub(super) fn send_binding_error(
        &self,
        to: Ipv6Addr,
        status: ErrorStatus,
        home: Option<Ipv6Addr>,
        out: &mut Outbox,
    ) {
        let message = Message::BindingError { status, home_address: home.unwrap_or(Ipv6Addr::UNSPECIFIED) };
        let header = Header::new(self.config.address, to);
        let bytes = message.emit(header.source, header.destination);
        out.transmit(Transmit { via: Via::Route, bytes: ip6::emit(&header, protocol::MOBILITY, &bytes) });
    }

    /// Emits a message to a mobile router, in ESP if the two use IPsec, behind the given header.
    pub(super) fn protect(
        &mut self,
        header: &Header,
        authentication: &Authentication,
        (protocol, message): (u8, &[u8]),
    ) -> Vec<u8> {
        let Authentication::Ipsec(pair) = authentication else {
            return ip6::emit(header, protocol, message);
        };
        self.esp_sequence = self.esp_sequence.wrapping_add(1);
        ip6::emit(header, protocol::ESP, &pair.to_mobile_router.seal(self.esp_sequence, protocol, message))
    }

    fn header(&self, to: Ipv6Addr, home: HomeAddress, routed: bool) -> Header {
        let header = Header::new(self.config.address, to);
        if routed { header.with_routing_home(home.0) } else { header }
    }
}

impl BidStatus {
    /// The option of the acknowledgement; its status is 0 where that of the message covers it (RFC 5648 §6.2).
    fn to_option(self, whole: Status) -> BindingIdentifier {
        BindingIdentifier {
            bid: self.bid,
            status: if whole == Status::MCOA_NOT_COMPLETE { self.status } else { Status::ACCEPTED },
            simultaneous_home: self.simultaneous_home,
            priority: self.priority,
            care_of: CareOfField::None,
        }
    }
}

fn lifetime_units(lifetime: Duration) -> u16 {
    u16::try_from(lifetime.as_secs() / u64::from(LIFETIME_UNIT_SECONDS)).unwrap_or(u16::MAX)
}
