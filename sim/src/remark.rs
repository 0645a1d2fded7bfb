//! A packet in one line, for people who read logs and case files.

use core::fmt::Write;
use roam6_proto::case::Line;
use roam6_proto::{Input, Output};
use roam6_wire::icmp6::{self, NeighbourOption};
use roam6_wire::ip6::{Datagram, protocol};
use roam6_wire::mobility::{
    self, BindingAcknowledgement, BindingIdentifier, BindingUpdate, CareOfField, MobilityOption,
};

/// What `bytes` is, from whom and to whom.
pub fn packet(bytes: &[u8]) -> String {
    let datagram = match Datagram::parse(bytes) {
        Ok(datagram) => datagram,
        Err(error) => return format!("no packet ({error})"),
    };
    let what = match datagram.protocol {
        protocol::IPV6 => format!("[{}]", packet(datagram.payload)),
        protocol::MOBILITY => signal(&datagram),
        protocol::ICMPV6 => control(&datagram),
        protocol::UDP => format!("data {}", datagram.payload.last().copied().unwrap_or(0)),
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

/// What stands above a line of a case file: what the packet in it says.
pub fn line(line: Line<'_>) -> Option<String> {
    match line {
        Line::Input(Input::Packet(heard)) => Some(packet(&heard.bytes)),
        Line::Output(Output::Transmit(sent)) => Some(packet(&sent.bytes)),
        _ => None,
    }
}

fn signal(datagram: &Datagram<'_>) -> String {
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

fn control(datagram: &Datagram<'_>) -> String {
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
