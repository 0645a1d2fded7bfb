//! DHCP unique identifiers: RFC 8415 §11. A DUID is opaque to all but its owner.
//!
//! See <https://www.rfc-editor.org/rfc/rfc8415#section-11>.

use crate::address::LinkAddress;
use crate::malformed::{Malformed, Why};
use crate::reader::Reader;
use crate::writer::Writer;
use alloc::vec::Vec;

/// Octets of a DUID: its type, and 1 to 128 more (RFC 8415 §11.1).
pub const DUID_LENGTH: core::ops::RangeInclusive<usize> = 3..=130;

const LINK_LAYER_AND_TIME: u16 = 1;
const LINK_LAYER: u16 = 3;
const UUID: u16 = 4;
const HARDWARE_ETHERNET: u16 = 1;

/// A DHCP unique identifier.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Duid(Vec<u8>);

impl Duid {
    /// DUID-LL from a link-layer address: the same after every start without storage.
    pub fn from_link_address(address: LinkAddress) -> Duid {
        let mut writer = Writer::new();
        writer.u16(LINK_LAYER).u16(HARDWARE_ETHERNET).bytes(&address.0);
        Duid(writer.finish())
    }

    /// DUID-LLT from a link-layer address and seconds since 2000-01-01T00:00Z, to be stored permanently.
    pub fn from_link_address_and_time(address: LinkAddress, seconds: u32) -> Duid {
        let mut writer = Writer::new();
        writer.u16(LINK_LAYER_AND_TIME).u16(HARDWARE_ETHERNET).u32(seconds).bytes(&address.0);
        Duid(writer.finish())
    }

    /// DUID-UUID from a UUID, such as the machine's.
    pub fn from_uuid(uuid: [u8; 16]) -> Duid {
        let mut writer = Writer::new();
        writer.u16(UUID).bytes(&uuid);
        Duid(writer.finish())
    }

    /// Its octets.
    pub fn octets(&self) -> &[u8] {
        &self.0
    }

    pub(super) fn read(body: &mut Reader<'_>) -> Result<Duid, Malformed> {
        let (has, longest) = (body.len(), *DUID_LENGTH.end());
        if has > longest {
            return Err(body.malformed(Why::Length { has, needs: longest }));
        }
        Ok(Duid(body.rest().to_vec()))
    }
}
