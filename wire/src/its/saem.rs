//! The Services Announcement Message: ETSI EN 302 890-1 V1.2.1, TS 104 091 V2.1.1 (SAEM). What it holds is the Sam of
//! ISO 16460, which is the SrvAdvMsg of IEEE Std 1609.3: which applications a station serves, on which channels, and how
//! to reach the Internet through it.

use super::common::Header;
use super::extension::{Extension, Value};
use super::number::Number;
use crate::malformed::{Malformed, Why};
use rasn::prelude::*;

/// Version of the announcement within (c-rsvAdvPrtVersionNo).
pub const VERSION: u8 = 3;
/// Services, channels, or extensions of one kind that are read of one announcement: more than a frame wants.
pub const MAX_LIST: usize = 32;

/// A Services Announcement Message.
#[derive(AsnType, Encode, Decode, Debug, Clone, PartialEq, Eq)]
#[rasn(automatic_tags)]
pub struct Saem {
    /// Of whom.
    pub header: Header,
    /// What it says.
    pub sam: Sam,
}

/// Sam, SrvAdvMsg.
#[derive(AsnType, Encode, Decode, Debug, Clone, PartialEq, Eq)]
#[rasn(automatic_tags)]
pub struct Sam {
    /// How to read the rest.
    pub version: Version,
    /// The rest.
    pub body: Body,
}

/// SrvAdvPrtVersion.
#[derive(AsnType, Encode, Decode, Debug, Clone, Copy, PartialEq, Eq)]
#[rasn(automatic_tags)]
pub struct Version {
    /// 0: an announcement; 1: an answer to one.
    #[rasn(value("0..=1"))]
    pub message_id: u8,
    /// See [`VERSION`].
    #[rasn(value("0..=7"))]
    pub version: u8,
}

/// SrvAdvBody.
#[derive(AsnType, Encode, Decode, Debug, Clone, PartialEq, Eq)]
#[rasn(automatic_tags)]
pub struct Body {
    /// Whether it has changed.
    pub change_count: ChangeCount,
    /// Of the whole.
    pub extensions: Option<SequenceOf<Extension>>,
    /// What is served; an empty list where only the way to the Internet is announced.
    pub services: Option<SequenceOf<Service>>,
    /// Where that is.
    pub channels: Option<SequenceOf<Channel>>,
    /// The way to the Internet.
    pub routing: Option<Routing>,
}

/// SrvAdvChangeCount.
#[derive(AsnType, Encode, Decode, Debug, Clone, Copy, PartialEq, Eq)]
#[rasn(automatic_tags)]
pub struct ChangeCount {
    /// Which announcement of this station.
    #[rasn(value("0..=15"))]
    pub announcement: u8,
    /// Another one each time it changes.
    #[rasn(value("0..=15"))]
    pub content: u8,
}

/// ServiceInfo.
#[derive(AsnType, Encode, Decode, Debug, Clone, PartialEq, Eq)]
#[rasn(automatic_tags)]
pub struct Service {
    /// Which application.
    pub application: Number,
    /// Which of the channels, counted from 1; 0 none.
    #[rasn(value("0..=31"))]
    pub channel: u8,
    /// More of it.
    pub options: ServiceOptions,
}

/// ChannelOptions.
#[derive(AsnType, Encode, Decode, Debug, Clone, Default, PartialEq, Eq)]
#[rasn(automatic_tags)]
pub struct ServiceOptions {
    /// Never there (mandApp).
    pub mandatory: Option<()>,
    /// Never there (serviceProviderPort).
    pub reply_to: Option<()>,
    /// Where it is, and what it says.
    pub extensions: Option<SequenceOf<Extension>>,
}

/// ChannelInfo.
#[derive(AsnType, Encode, Decode, Debug, Clone, PartialEq, Eq)]
#[rasn(automatic_tags)]
pub struct Channel {
    /// Operating class (IEEE Std 802.11 annex E).
    #[rasn(value("0..=255"))]
    pub operating_class: u8,
    /// Its number.
    #[rasn(value("0..=255"))]
    pub number: u8,
    /// Most power, dBm.
    #[rasn(value("-128..=127"))]
    pub power: i8,
    /// How fast.
    pub rate: Rate,
    /// More of it.
    pub options: ChannelOptions,
}

/// WsaChInfoDataRate.
#[derive(AsnType, Encode, Decode, Debug, Clone, PartialEq, Eq)]
#[rasn(automatic_tags)]
pub struct Rate {
    /// Whether it is the least, not the only one.
    #[rasn(size("1"))]
    pub adaptable: BitString,
    /// 500 kbit/s each.
    #[rasn(value("0..=127"))]
    pub rate: u8,
}

/// ChInfoOptions: the octet that says what follows, of which one bit is in use.
#[derive(AsnType, Encode, Decode, Debug, Clone, Default, PartialEq, Eq)]
#[rasn(automatic_tags)]
#[allow(missing_docs, reason = "they mean nothing yet")]
pub struct ChannelOptions {
    pub option1: Option<()>,
    pub option2: Option<()>,
    pub option3: Option<()>,
    pub option4: Option<()>,
    pub option5: Option<()>,
    pub option6: Option<()>,
    pub option7: Option<()>,
    /// How it is shared.
    pub extensions: Option<SequenceOf<Extension>>,
}

/// RoutingAdvertisement: what a router would advertise on the link (RFC 4861), without a link.
#[derive(AsnType, Encode, Decode, Debug, Clone, PartialEq, Eq)]
#[rasn(automatic_tags)]
pub struct Routing {
    /// Seconds.
    #[rasn(value("0..=65535"))]
    pub lifetime: u16,
    /// Of addresses here.
    pub prefix: Address,
    /// Bits of that.
    #[rasn(value("0..=255"))]
    pub prefix_length: u8,
    /// Who forwards.
    pub gateway: Address,
    /// A server of the domain name system; `::` where there is none.
    pub dns: Address,
    /// More of it.
    pub extensions: SequenceOf<Extension>,
}

/// IPv6Address.
#[derive(AsnType, Encode, Decode, Debug, Clone, Copy, PartialEq, Eq)]
#[rasn(delegate)]
pub struct Address(pub FixedOctetString<16>);

impl Saem {
    /// What types do not say: versions, prefixes, extensions, and that no list is endless.
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
    /// Where ISO has more than IEEE, there is something that is not known how to read.
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

/// The values in a list of extensions that has been checked.
pub fn values(extensions: Option<&[Extension]>) -> impl Iterator<Item = Value> + '_ {
    extensions.unwrap_or_default().iter().filter_map(|extension| extension.read().ok())
}
