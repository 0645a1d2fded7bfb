//! A packet summarised in one line, for logs and case files.

use core::fmt::Write;
use roam6_proto::case::Line;
use roam6_proto::{Input, Output};
use roam6_wire::icmp6::{self, NeighbourOption};
use roam6_wire::ip4::Encapsulated;
use roam6_wire::ip6::{Datagram, protocol};
use roam6_wire::mobility::{
    self, BindingAcknowledgement, BindingIdentifier, BindingUpdate, CareOfField, MobilityOption,
};
use roam6_wire::shim6::{self, ShimOption};

/// Summarises a packet: message, source and destination.
pub fn summary(bytes: &[u8]) -> String {
    if let Ok(Encapsulated { source, destination, inner, .. }) = Encapsulated::parse(bytes) {
        return format!("[{}]  {source} -> {destination}", summary(inner));
    }
    let datagram = match Datagram::parse(bytes) {
        Ok(datagram) => datagram,
        Err(error) => return format!("no packet ({error})"),
    };
    let what = match datagram.protocol {
        protocol::IPV6 => format!("[{}]", summary(datagram.payload)),
        protocol::MOBILITY => mobility(&datagram),
        protocol::ICMPV6 => icmp6(&datagram),
        protocol::UDP => format!("data {}", datagram.payload.last().copied().unwrap_or(0)),
        shim6::PROTOCOL => shim(datagram.payload),
        other => format!("protocol {other}, {} octets", datagram.payload.len()),
    };
    let mut line = format!("{what}  {} -> {}", datagram.source, datagram.destination);
    if let Some(home) = datagram.home_address {
        let _ = write!(line, " for {home}");
    }
    if let Some(home) = datagram.routing_home {
        let _ = write!(line, " to {home}");
    }
    line
}

/// The comment above a line of a case file: the summary of its packet.
pub fn case_line(line: Line<'_>) -> Option<String> {
    match line {
        Line::Input(Input::Packet(received)) => Some(summary(&received.bytes)),
        Line::Output(Output::Transmit(sent)) => Some(summary(&sent.bytes)),
        _ => None,
    }
}

fn shim(payload: &[u8]) -> String {
    use shim6::Message as M;
    if let Some(header) = shim6::PayloadHeader::parse(payload) {
        return format!("shim tag {} [protocol {}]", header.tag, header.next_header);
    }
    let message = match M::parse(payload) {
        Ok(message) => message,
        Err(error) => return format!("broken shim ({error})"),
    };
    let mut text = match &message {
        M::I1 { tag, .. } => format!("I1 tag {tag}"),
        M::R1 { .. } => "R1".to_owned(),
        M::I2 { tag, .. } => format!("I2 tag {tag}"),
        M::R2 { tag, .. } => format!("R2 tag {tag}"),
        M::R1bis { packet_tag, .. } => format!("R1bis tag {packet_tag} is not known"),
        M::I2bis { tag, packet_tag, .. } => format!("I2bis tag {tag} instead of {packet_tag}"),
        M::UpdateRequest { tag, .. } => format!("UR tag {tag}"),
        M::UpdateAck { tag, .. } => format!("UA tag {tag}"),
        M::Keepalive { tag, .. } => format!("keepalive tag {tag}"),
        M::Probe(probe) => {
            let (sent, received) = (probe.sent.len(), probe.received.len());
            format!("probe {:?} tag {} sent {sent} received {received}", probe.state, probe.tag)
        }
        M::Error(error) => format!("error {} at {}", error.code.0, error.pointer),
        M::Unknown { kind, .. } => format!("shim message {kind}"),
    };
    for option in message.options() {
        let _ = match option {
            ShimOption::Locators(list) => write!(text, " {} locators", list.locators.len()),
            ShimOption::Ulids { sender, receiver } => write!(text, " ulids {sender} {receiver}"),
            ShimOption::Fork(fork) => write!(text, " fork {fork}"),
            _ => Ok(()),
        };
    }
    text
}

fn mobility(datagram: &Datagram<'_>) -> String {
    match mobility::Message::parse(datagram.payload, datagram.real_source(), datagram.real_destination()) {
        Ok(mobility::Message::BindingUpdate(update)) => binding_update(&update),
        Ok(mobility::Message::BindingAcknowledgement(ack)) => acknowledgement(&ack),
        Ok(mobility::Message::BindingRefreshRequest { .. }) => "BRR".to_owned(),
        Ok(mobility::Message::BindingError { status, .. }) => format!("BE {status}"),
        Ok(other) => format!("MH {}", other.kind()),
        Err(error) => format!("broken MH ({error})"),
    }
}

fn binding_update(update: &BindingUpdate) -> String {
    let mut text = format!("BU seq {} lifetime {} s ", update.sequence, update.lifetime_seconds());
    let flags = [(0x8000, 'A'), (0x4000, 'H'), (0x2000, 'L'), (0x1000, 'K'), (0x0400, 'R'), (0x0040, 'O')];
    text.extend(flags.iter().filter(|(bit, _)| update.flags.0 & bit != 0).map(|(_, letter)| letter));
    options(&mut text, &update.options);
    text
}

fn acknowledgement(ack: &BindingAcknowledgement) -> String {
    let router = if ack.flags.router() { " R" } else { "" };
    let lifetime = ack.lifetime_seconds();
    let mut text = format!("BA status {} seq {} lifetime {lifetime} s{router}", ack.status.0, ack.sequence);
    options(&mut text, &ack.options);
    text
}

fn options(text: &mut String, options: &[MobilityOption]) {
    for option in options {
        let _ = match option {
            MobilityOption::AlternateCareOf(address) => write!(text, " coa {address}"),
            MobilityOption::MobileNetworkPrefix(prefix) => write!(text, " mnp {prefix}"),
            MobilityOption::BindingIdentifier(BindingIdentifier { bid, status, care_of, priority, .. }) => {
                let _ = write!(text, " bid {bid} priority {priority}");
                match care_of {
                    CareOfField::V6(address) => write!(text, " coa {address}"),
                    _ if status.0 != 0 => write!(text, " status {}", status.0),
                    _ => Ok(()),
                }
            }
            MobilityOption::BindingRefreshAdvice(units) => write!(text, " refresh {} s", u32::from(*units) * 4),
            MobilityOption::Authentication { spi, .. } => write!(text, " auth {spi}"),
            MobilityOption::ReplayProtection(stamp) => write!(text, " stamp {}", stamp >> 32),
            other => write!(text, " {other:?}"),
        };
    }
}

fn icmp6(datagram: &Datagram<'_>) -> String {
    match icmp6::Message::parse(datagram) {
        Ok(icmp6::Message::RouterSolicitation(_)) => "RS".to_owned(),
        Ok(icmp6::Message::RouterAdvertisement(advertisement)) => {
            let mut text = format!("RA lifetime {} s", advertisement.lifetime);
            for option in &advertisement.options {
                if let NeighbourOption::PrefixInformation { prefix, valid, preferred, .. } = option {
                    let _ = write!(text, " prefix {prefix} valid {valid} s preferred {preferred} s");
                }
            }
            text
        }
        Ok(icmp6::Message::NeighbourSolicitation(solicitation)) => format!("NS {}", solicitation.target),
        Ok(icmp6::Message::NeighbourAdvertisement(advertisement)) => format!("NA {}", advertisement.target),
        Ok(icmp6::Message::EchoRequest(echo)) => format!("echo {} ?", echo.sequence),
        Ok(icmp6::Message::EchoReply(echo)) => format!("echo {} !", echo.sequence),
        Ok(icmp6::Message::HomeAgentRequest { .. }) => "which home agents?".to_owned(),
        Ok(icmp6::Message::HomeAgentReply { addresses, .. }) => format!("home agents {addresses:?}"),
        Ok(icmp6::Message::PacketTooBig { mtu, .. }) => format!("too big, {mtu} octets at most"),
        Ok(other) => {
            let text = format!("{other:?}");
            text.split([' ', '(', '{']).next().unwrap_or_default().to_owned()
        }
        Err(error) => format!("broken ICMPv6 ({error})"),
    }
}
