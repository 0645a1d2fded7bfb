//! The Services Announcement Message: ETSI EN 302 890-1 V1.2.1, TS 104 091 V2.1.1 (SAEM). Its body is the Sam of
//! ISO 16460, which is the SrvAdvMsg of IEEE Std 1609.3: the applications that a station serves, their channels, and
//! access to the Internet through the station.

use super::asn1::asn1;
use super::common::Header;
use super::extension::{Extension, Value};
use super::number::Number;
use crate::malformed::{Malformed, Why};
use rasn::prelude::*;

/// Protocol version of the Sam (c-rsvAdvPrtVersionNo).
pub const VERSION: u8 = 3;
/// Services, channels or extensions accepted in one list.
pub const MAX_LIST: usize = 32;

asn1! {
    /// A Services Announcement Message.
    sequence Saem {
        /// ITS PDU header.
        header: Header,
        /// Service announcement.
        sam: Sam,
    }

    /// Sam, SrvAdvMsg.
    sequence Sam {
        /// Version.
        version: Version,
        /// Body.
        body: Body,
    }

    /// SrvAdvPrtVersion.
    #[derive(Copy)]
    sequence Version {
        /// 0: announcement, 1: response.
        message_id: u8 [value("0..=1")],
        /// Protocol version; see [`VERSION`].
        version: u8 [value("0..=7")],
    }

    /// SrvAdvBody.
    sequence Body {
        /// Change count.
        change_count: ChangeCount,
        /// Extensions of the announcement.
        extensions: Option<SequenceOf<Extension>>,
        /// Services; an empty list if only routing is announced.
        services: Option<SequenceOf<Service>>,
        /// Channels of the services.
        channels: Option<SequenceOf<Channel>>,
        /// Routing advertisement.
        routing: Option<Routing>,
    }

    /// SrvAdvChangeCount.
    #[derive(Copy)]
    sequence ChangeCount {
        /// Identifier of the announcement.
        announcement: u8 [value("0..=15")],
        /// Content count, incremented with each change.
        content: u8 [value("0..=15")],
    }

    /// ServiceInfo.
    sequence Service {
        /// Application (ITS-AID).
        application: Number,
        /// Index of the channel, counted from 1; 0: none.
        channel: u8 [value("0..=31")],
        /// Options.
        options: ServiceOptions,
    }

    /// ChannelOptions.
    #[derive(Default)]
    sequence ServiceOptions {
        /// mandApp: unused.
        mandatory: Option<()>,
        /// serviceProviderPort: unused.
        reply_to: Option<()>,
        /// Extensions: address, port, context.
        extensions: Option<SequenceOf<Extension>>,
    }

    /// ChannelInfo.
    sequence Channel {
        /// Operating class (IEEE Std 802.11 annex E).
        operating_class: u8 [value("0..=255")],
        /// Channel number.
        number: u8 [value("0..=255")],
        /// Maximum transmit power, dBm.
        power: i8 [value("-128..=127")],
        /// Data rate.
        rate: Rate,
        /// Options.
        options: ChannelOptions,
    }

    /// WsaChInfoDataRate.
    sequence Rate {
        /// Whether the rate is the minimum instead of the only one.
        adaptable: BitString [size("1")],
        /// Rate, 500 kbit/s.
        rate: u8 [value("0..=127")],
    }

    /// ChInfoOptions: seven options without use, and the extensions.
    #[derive(Default)]
    #[allow(missing_docs, reason = "the options are not defined yet")]
    sequence ChannelOptions {
        option1: Option<()>,
        option2: Option<()>,
        option3: Option<()>,
        option4: Option<()>,
        option5: Option<()>,
        option6: Option<()>,
        option7: Option<()>,
        /// Extensions.
        extensions: Option<SequenceOf<Extension>>,
    }

    /// RoutingAdvertisement: the contents of a Router Advertisement (RFC 4861).
    sequence Routing {
        /// Router lifetime, seconds.
        lifetime: u16 [value("0..=65535")],
        /// Prefix of the link.
        prefix: Address,
        /// Prefix length, bits.
        prefix_length: u8 [value("0..=255")],
        /// Default gateway.
        gateway: Address,
        /// Primary DNS server; `::` if there is none.
        dns: Address,
        /// Options.
        extensions: SequenceOf<Extension>,
    }

    /// IPv6Address.
    #[derive(Copy)]
    type Address(FixedOctetString<16>);
}

impl Saem {
    /// Checks what the types leave open: versions, prefix length, extensions, and the length of each list.
    pub(super) fn check(&self) -> Result<(), Malformed> {
        let wrong = |what, value: u8| Err(Malformed { what, at: 0, why: Why::Value(value.into()) });
        let Sam { version, body } = &self.sam;
        match (version.message_id, version.version) {
            (0, VERSION) => {}
            (0, other) => return wrong("version of a service announcement", other),
            (kind, _) => return wrong("kind of a service announcement", kind),
        }
        if let Some(routing) = body.routing.as_ref().filter(|routing| routing.prefix_length > 128) {
            return wrong("prefix length of a service announcement", routing.prefix_length);
        }
        let services = body.services.as_deref().unwrap_or_default();
        let channels = body.channels.as_deref().unwrap_or_default();
        check_count(services.len())?;
        check_count(channels.len())?;
        services.iter().try_for_each(Service::check)?;
        channels.iter().try_for_each(|channel| check_extensions(channel.options.extensions.as_deref()))?;
        check_extensions(body.routing.as_ref().map(|routing| &routing.extensions[..]))?;
        check_extensions(body.extensions.as_deref())
    }
}

impl Service {
    /// Refuses the fields of ISO 16460 that IEEE Std 1609.3 lacks.
    fn check(&self) -> Result<(), Malformed> {
        let ServiceOptions { mandatory, reply_to, extensions } = &self.options;
        if mandatory.is_some() || reply_to.is_some() {
            return Err(Malformed { what: "options of a service announcement", at: 0, why: Why::Misplaced });
        }
        check_extensions(extensions.as_deref())
    }
}

fn check_count(length: usize) -> Result<(), Malformed> {
    let why = Why::TooMany(MAX_LIST);
    if length <= MAX_LIST { Ok(()) } else { Err(Malformed { what: "list of a service announcement", at: 0, why }) }
}

fn check_extensions(extensions: Option<&[Extension]>) -> Result<(), Malformed> {
    let extensions = extensions.unwrap_or_default();
    check_count(extensions.len())?;
    extensions.iter().try_for_each(|extension| extension.read().map(drop))
}

/// The values of a list of extensions that was checked when it was parsed.
pub fn values(extensions: Option<&[Extension]>) -> impl Iterator<Item = Value> + '_ {
    extensions.unwrap_or_default().iter().filter_map(|extension| extension.read().ok())
}
