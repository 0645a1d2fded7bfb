//! Radio interfaces: their modes by nl80211 (linux/nl80211.h), and the switches that turn radios off (linux/rfkill.h).

use super::interfaces::WifiMode;
use crate::netlink::attribute::{find, u32_of};
use crate::netlink::generic::Family;
use netlink_packet_core::NLM_F_DUMP;
use nix::libc;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;

const NL80211_CMD_GET_INTERFACE: u8 = 5;
const NL80211_ATTR_IFINDEX: u16 = 3;
const NL80211_ATTR_IFTYPE: u16 = 5;
const NL80211_IFTYPE_STATION: u32 = 2;
const NL80211_IFTYPE_AP: u32 = 3;

/// Octets of `struct rfkill_event`: index, type, operation, two switches.
const RFKILL_EVENT: usize = 8;
/// Most switches read.
const MAX_SWITCHES: usize = 64;
/// The type of a Wi-Fi switch.
pub(super) const RFKILL_TYPE_WLAN: u8 = 1;

/// The modes of Wi-Fi interfaces, by their indexes; none without nl80211.
pub fn nl80211_modes() -> Vec<(u32, WifiMode)> {
    let Ok(Some((mut family, _))) = Family::open(b"nl80211\0") else { return Vec::new() };
    let replies = family.request(NL80211_CMD_GET_INTERFACE, NLM_F_DUMP, &[]).unwrap_or_default();
    replies.iter().filter_map(|reply| read_mode(reply)).collect()
}

fn read_mode(reply: &[u8]) -> Option<(u32, WifiMode)> {
    let mode = match u32_of(find(reply, NL80211_ATTR_IFTYPE)?)? {
        NL80211_IFTYPE_STATION => WifiMode::Client,
        NL80211_IFTYPE_AP => WifiMode::AccessPoint,
        _ => WifiMode::Other,
    };
    Some((u32_of(find(reply, NL80211_ATTR_IFINDEX)?)?, mode))
}

/// Whether a switch turns off Wi-Fi.
pub fn is_radio_blocked() -> bool {
    let open = File::options().read(true).custom_flags(libc::O_NONBLOCK).open("/dev/rfkill");
    open.is_ok_and(|mut device| {
        // One event for each switch, then the device would block.
        let mut event = [0; RFKILL_EVENT];
        (0..MAX_SWITCHES).any(|_| device.read(&mut event).is_ok_and(|size| size > 0) && is_off(&event))
    })
}

fn is_off(event: &[u8; RFKILL_EVENT]) -> bool {
    let [_, _, _, _, kind, _, soft, hard] = *event;
    kind == RFKILL_TYPE_WLAN && (soft | hard) != 0
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails at the assertion")]
mod tests {
    use super::*;
    use crate::netlink::attribute::attribute;

    #[test]
    fn modes_and_switches_are_read() {
        let reply = |mode: u32| {
            [attribute(NL80211_ATTR_IFINDEX, &7_u32.to_ne_bytes()), attribute(NL80211_ATTR_IFTYPE, &mode.to_ne_bytes())]
                .concat()
        };
        assert_eq!(read_mode(&reply(2)), Some((7, WifiMode::Client)));
        assert_eq!(read_mode(&reply(3)), Some((7, WifiMode::AccessPoint)));
        assert_eq!(read_mode(&reply(6)), Some((7, WifiMode::Other)));
        for length in 0..16 {
            assert_eq!(read_mode(reply(2).get(..length.min(11)).unwrap()), None, "{length}");
        }
        assert!(is_off(&[0, 0, 0, 0, 1, 0, 1, 0]) && is_off(&[0, 0, 0, 0, 1, 0, 0, 1]));
        assert!(!is_off(&[0, 0, 0, 0, 1, 0, 0, 0]) && !is_off(&[0, 0, 0, 0, 2, 0, 1, 0]), "Bluetooth");
    }
}
