//! Flow bindings: the Flow Identification option and its traffic selectors.
//! RFC 6089 §4.2, RFC 6088 §3.
//!
//! See <https://www.rfc-editor.org/rfc/rfc6089#section-4>, <https://www.rfc-editor.org/rfc/rfc6088#section-3>.

use crate::address::{Bid, Fid};
use crate::malformed::{Malformed, Why};
use crate::reader::Reader;
use crate::writer::{Alignment, Writer, low};
use alloc::vec::Vec;
use core::net::{Ipv4Addr, Ipv6Addr};

/// Longest accepted Flow Identification body, octets: emitting may need one octet of padding more.
pub const MAX_BODY: usize = 254;

const PAD1: u8 = 0;
const BINDING_REFERENCE: u8 = 2;
const TRAFFIC_SELECTOR: u8 = 3;
const FORMAT_IPV4: u8 = 1;
const FORMAT_IPV6: u8 = 2;

/// The Flow Identification option.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlowIdentification {
    /// Flow identifier; 0 is not allowed.
    pub fid: Fid,
    /// FID-PRI: lower is matched first; 0 is not allowed.
    pub priority: u16,
    /// In an acknowledgement: 0 if the flow binding was accepted, otherwise one of the constants here.
    pub status: u8,
    /// Binding identifiers of the flow; with several, each gets a copy of the packets.
    pub bids: Vec<Bid>,
    /// Traffic selector.
    pub selector: Option<TrafficSelector>,
}

/// A traffic selector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TrafficSelector {
    /// IPv4 packets (RFC 6088 §3.1).
    V4(Selector<Ipv4Addr>),
    /// IPv6 packets (RFC 6088 §3.2).
    V6(Selector<Ipv6Addr>),
    /// Unknown format.
    Unknown {
        /// TS Format.
        format: u8,
        /// What follows the reserved octet.
        body: Vec<u8>,
    },
}

/// Fields to compare, each a range; a field that is `None` always matches. The packets are those towards the mobile
/// node: the source is the correspondent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Selector<A> {
    /// Source address.
    pub source: Option<FieldRange<A>>,
    /// Destination address.
    pub destination: Option<FieldRange<A>>,
    /// Security Parameter Index of ESP or AH.
    pub spi: Option<FieldRange<u32>>,
    /// Flow label; IPv4 has none.
    pub flow_label: Option<FieldRange<u32>>,
    /// Source port.
    pub source_port: Option<FieldRange<u16>>,
    /// Destination port.
    pub destination_port: Option<FieldRange<u16>>,
    /// Traffic class, or differentiated services field; the two lowest bits do not count.
    pub traffic_class: Option<FieldRange<u8>>,
    /// Protocol, or next header behind the extension headers.
    pub protocol: Option<FieldRange<u8>>,
}

/// A range of values, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FieldRange<T> {
    /// The lowest.
    pub first: T,
    /// The highest.
    pub last: T,
}

impl<T: Copy + PartialOrd> FieldRange<T> {
    /// One value.
    pub fn single(value: T) -> FieldRange<T> {
        FieldRange { first: value, last: value }
    }

    /// Whether `value` is in it.
    pub fn contains(&self, value: T) -> bool {
        self.first <= value && value <= self.last
    }
}

impl<A> Default for Selector<A> {
    fn default() -> Self {
        Self {
            source: None,
            destination: None,
            spi: None,
            flow_label: None,
            source_port: None,
            destination_port: None,
            traffic_class: None,
            protocol: None,
        }
    }
}

impl FlowIdentification {
    /// Status: prohibited.
    pub const PROHIBITED: u8 = 128;
    /// Status: rejected, reason unspecified.
    pub const REJECTED: u8 = 129;
    /// Status: the option is malformed.
    pub const MALFORMED: u8 = 130;
    /// Status: BID not found.
    pub const BID_NOT_FOUND: u8 = 131;
    /// Status: FID not found.
    pub const FID_NOT_FOUND: u8 = 132;
    /// Status: traffic selector format not supported.
    pub const SELECTOR_NOT_SUPPORTED: u8 = 133;

    pub(super) fn read(body: &mut Reader<'_>) -> Result<Self, Malformed> {
        if body.len() > MAX_BODY {
            return Err(body.malformed(Why::Length { has: body.len(), needs: MAX_BODY }));
        }
        let fid = Fid(body.u16()?);
        let priority = body.u16()?;
        body.skip(1)?;
        let status = body.u8()?;
        let mut flow = Self { fid, priority, status, bids: Vec::new(), selector: None };
        while !body.is_empty() {
            flow.read_sub_option(body)?;
        }
        Ok(flow)
    }

    fn read_sub_option(&mut self, body: &mut Reader<'_>) -> Result<(), Malformed> {
        let again = body.malformed(Why::Misplaced);
        let kind = body.u8()?;
        if kind == PAD1 {
            return Ok(());
        }
        let length = body.u8()?;
        let mut sub_option = body.part("flow identification sub-option", length.into())?;
        match kind {
            BINDING_REFERENCE if self.bids.is_empty() => {
                self.bids = sub_option.list(usize::MAX, |reader| reader.u16().map(Bid))?;
            }
            TRAFFIC_SELECTOR if self.selector.is_none() => {
                self.selector = Some(TrafficSelector::read(&mut sub_option)?)
            }
            BINDING_REFERENCE | TRAFFIC_SELECTOR => return Err(again),
            _ => {}
        }
        Ok(())
    }

    /// Writes the body; the option is aligned to 8 octets, and so are the addresses of a selector.
    pub(super) fn write<'w>(&self, body: &'w mut Writer) -> &'w mut Writer {
        body.u16(self.fid.0).u16(self.priority).u8(0).u8(self.status);
        if let Some(selector) = &self.selector {
            let mut octets = Writer::new();
            selector.write(&mut octets);
            let octets = octets.finish();
            body.u8(TRAFFIC_SELECTOR).u8(low(octets.len())).bytes(&octets);
        }
        if !self.bids.is_empty() {
            body.align(Alignment::new(2, 0)).u8(BINDING_REFERENCE).u8(low(self.bids.len() * 2));
        }
        body.list(&self.bids, |body, bid| body.u16(bid.0))
    }
}

impl TrafficSelector {
    fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let format = reader.u8()?;
        reader.skip(1)?;
        let selector = match format {
            FORMAT_IPV4 => TrafficSelector::V4(read_selector(reader)?),
            FORMAT_IPV6 => TrafficSelector::V6(read_selector(reader)?),
            _ => TrafficSelector::Unknown { format, body: reader.rest().to_vec() },
        };
        reader.end()?;
        Ok(selector)
    }

    fn write(&self, writer: &mut Writer) {
        match self {
            TrafficSelector::V4(selector) => write_selector(selector, writer.u8(FORMAT_IPV4).u8(0)),
            TrafficSelector::V6(selector) => write_selector(selector, writer.u8(FORMAT_IPV6).u8(0)),
            TrafficSelector::Unknown { format, body } => {
                writer.u8(*format).u8(0).bytes(body);
            }
        }
    }
}

fn read_selector<A: Address>(reader: &mut Reader<'_>) -> Result<Selector<A>, Malformed> {
    let mut mask = PresenceBits(reader.u32()?);
    Ok(Selector {
        source: mask.read(reader)?,
        destination: mask.read(reader)?,
        spi: mask.read(reader)?,
        flow_label: if A::HAS_FLOW_LABEL { mask.read(reader)? } else { None },
        source_port: mask.read(reader)?,
        destination_port: mask.read(reader)?,
        traffic_class: mask.read(reader)?,
        protocol: mask.read(reader)?,
    })
}

fn write_selector<A: Address>(selector: &Selector<A>, writer: &mut Writer) {
    let mut fields = FieldWriter::default();
    fields.write(selector.source);
    fields.write(selector.destination);
    fields.write(selector.spi);
    if A::HAS_FLOW_LABEL {
        fields.write(selector.flow_label);
    }
    fields.write(selector.source_port);
    fields.write(selector.destination_port);
    fields.write(selector.traffic_class);
    fields.write(selector.protocol);
    writer.u32(fields.mask).bytes(&fields.octets.finish());
}

/// The presence bits not yet used, the next one highest.
struct PresenceBits(u32);

impl PresenceBits {
    fn read<T: Field>(&mut self, reader: &mut Reader<'_>) -> Result<Option<FieldRange<T>>, Malformed> {
        let (has_first, has_last) = (self.take(), self.take());
        if has_last && !has_first {
            return Err(reader.malformed(Why::Misplaced));
        }
        if !has_first {
            return Ok(None);
        }
        let first = T::read(reader)?;
        let last = if has_last { T::read(reader)? } else { first };
        Ok(Some(FieldRange { first, last }))
    }

    fn take(&mut self) -> bool {
        let set = self.0 >> 31 == 1;
        self.0 <<= 1;
        set
    }
}

/// The fields written so far, and their presence bits.
#[derive(Default)]
struct FieldWriter {
    mask: u32,
    bits: u32,
    octets: Writer,
}

impl FieldWriter {
    fn write<T: Field>(&mut self, span: Option<FieldRange<T>>) {
        let (first, last) = (span.is_some(), span.is_some_and(|span| span.last != span.first));
        self.mask |= (u32::from(first) << 31 | u32::from(last) << 30) >> self.bits;
        self.bits += 2;
        let Some(span) = span else { return };
        span.first.write(&mut self.octets);
        if last {
            span.last.write(&mut self.octets);
        }
    }
}

/// A type of a selector field.
trait Field: Copy + PartialEq {
    fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed>;
    fn write(self, writer: &mut Writer);
}

/// An address of either family.
trait Address: Field {
    const HAS_FLOW_LABEL: bool;
}

impl Address for Ipv4Addr {
    const HAS_FLOW_LABEL: bool = false;
}

impl Address for Ipv6Addr {
    const HAS_FLOW_LABEL: bool = true;
}

/// Implements [`Field`] with the methods of reader and writer that have the same name.
macro_rules! fields {
    ($($type:ty: $method:ident,)*) => {
        $(impl Field for $type {
            fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
                reader.$method()
            }

            fn write(self, writer: &mut Writer) {
                writer.$method(self);
            }
        })*
    };
}

fields! {
    u8: u8,
    u16: u16,
    u32: u32,
    Ipv4Addr: address4,
    Ipv6Addr: address,
}
