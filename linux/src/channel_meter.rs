//! How busy the channels of radios are: the survey of nl80211 (linux/nl80211.h).

use crate::error::{Context, Error};
use crate::netlink::attribute::{attribute, find, u32_of, u64_of};
use crate::netlink::generic::Family;
use netlink_packet_core::{NLM_F_ACK, NLM_F_DUMP};
use nix::sys::eventfd::{EfdFlags, EventFd};
use roam6_proto::LinkId;
use roam6_proto::contract::input::{ChannelTimes, ChannelUse};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::Builder;

const NL80211_CMD_GET_INTERFACE: u8 = 5;
const NL80211_CMD_GET_SURVEY: u8 = 50;
const NL80211_ATTR_IFINDEX: u16 = 3;
const NL80211_ATTR_IFTYPE: u16 = 5;
const NL80211_ATTR_SURVEY_INFO: u16 = 84;
const NL80211_SURVEY_INFO_IN_USE: u16 = 3;
const NL80211_SURVEY_INFO_TIME: u16 = 4;
const NL80211_SURVEY_INFO_TIME_BUSY: u16 = 5;
const NL80211_IFTYPE_OCB: u32 = 11;

/// Measures the channels of radios, on a thread of its own: the kernel answers once it has the lock of the radio, which a scan
/// or a reset of the driver may hold for long.
pub(crate) struct ChannelMeter {
    queries: Sender<LinkId>,
    readings: Receiver<ChannelUse>,
    /// Readable while there are readings.
    ready: Arc<EventFd>,
}

impl ChannelMeter {
    /// Starts the thread, which ends with this.
    ///
    /// # Errors
    /// The kernel's, if it refuses a thread or a descriptor.
    pub(crate) fn start() -> Result<ChannelMeter, Error> {
        let what = "channel measurement";
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        let ready = Arc::new(EventFd::from_value_and_flags(0, flags).context(what)?);
        let ((queries, asked), (answers, readings)) = (channel(), channel());
        let nudge = Arc::clone(&ready);
        let work = move || {
            let mut survey = Survey::default();
            for link in asked {
                if answers.send(survey.read(link)).is_err() || nudge.write(1).is_err() {
                    return;
                }
            }
        };
        Builder::new().name("channels".to_owned()).spawn(work).context(what)?;
        Ok(ChannelMeter { queries, readings, ready })
    }

    /// Has a channel measured.
    pub(crate) fn query(&self, link: LinkId) {
        // The thread receives until this sender is dropped.
        let _ = self.queries.send(link);
    }

    /// The readings so far.
    pub(crate) fn take(&self) -> Vec<ChannelUse> {
        let _ = self.ready.read();
        self.readings.try_iter().collect()
    }
}

impl AsFd for ChannelMeter {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.ready.as_fd()
    }
}

/// The reading of an interface that cannot be measured.
pub(crate) fn not_measured(link: LinkId) -> ChannelUse {
    ChannelUse { link, is_ocb: false, times: None }
}

/// Reads channels; opened with the first reading.
#[derive(Default)]
struct Survey {
    family: Option<Family>,
}

impl Survey {
    /// How busy the channel of an interface is. A query that the kernel refuses counts as not measured.
    fn read(&mut self, link: LinkId) -> ChannelUse {
        self.try_read(link).unwrap_or(not_measured(link))
    }

    fn try_read(&mut self, link: LinkId) -> Option<ChannelUse> {
        if self.family.is_none() {
            self.family = Family::open(b"nl80211\0").ok().flatten().map(|(family, _)| family);
        }
        let family = self.family.as_mut()?;
        let interface = attribute(NL80211_ATTR_IFINDEX, &link.0.to_ne_bytes());
        let replies = family.request(NL80211_CMD_GET_INTERFACE, NLM_F_ACK, &interface).ok()?;
        let is_ocb = replies.iter().any(|reply| is_ocb(reply));
        let surveys = family.request(NL80211_CMD_GET_SURVEY, NLM_F_DUMP, &interface).unwrap_or_default();
        Some(ChannelUse { link, is_ocb, times: surveys.iter().find_map(|survey| read_times(survey)) })
    }
}

fn is_ocb(reply: &[u8]) -> bool {
    find(reply, NL80211_ATTR_IFTYPE).and_then(u32_of) == Some(NL80211_IFTYPE_OCB)
}

/// The times of the channel in use; `None` for other channels.
fn read_times(survey: &[u8]) -> Option<ChannelTimes> {
    let info = find(survey, NL80211_ATTR_SURVEY_INFO)?;
    find(info, NL80211_SURVEY_INFO_IN_USE)?;
    let observed = u64_of(find(info, NL80211_SURVEY_INFO_TIME)?)?;
    Some(ChannelTimes { observed, busy: u64_of(find(info, NL80211_SURVEY_INFO_TIME_BUSY)?)? })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails at the assertion")]
mod tests {
    use super::*;
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

    fn survey(in_use: bool, times: &[(u16, u64)]) -> Vec<u8> {
        let mut info = attribute(1, &5900_u32.to_ne_bytes());
        if in_use {
            info.extend(attribute(NL80211_SURVEY_INFO_IN_USE, &[]));
        }
        info.extend(times.iter().flat_map(|(kind, time)| attribute(*kind, &time.to_ne_bytes())));
        [attribute(NL80211_ATTR_IFINDEX, &7_u32.to_ne_bytes()), attribute(NL80211_ATTR_SURVEY_INFO, &info)].concat()
    }

    #[test]
    fn the_times_of_the_channel_in_use_are_read() {
        let both = [(NL80211_SURVEY_INFO_TIME, 1000), (NL80211_SURVEY_INFO_TIME_BUSY, 450)];
        assert_eq!(read_times(&survey(true, &both)), Some(ChannelTimes { observed: 1000, busy: 450 }));
        assert_eq!(read_times(&survey(false, &both)), None, "another channel");
        assert_eq!(read_times(&survey(true, both.get(..1).unwrap())), None, "busy time is not counted");
        let octets = survey(true, &both);
        for length in 0..octets.len() {
            let _ = read_times(octets.get(..length).unwrap());
        }
        assert!(is_ocb(&attribute(NL80211_ATTR_IFTYPE, &11_u32.to_ne_bytes())));
        assert!(!is_ocb(&attribute(NL80211_ATTR_IFTYPE, &2_u32.to_ne_bytes())) && !is_ocb(&[]));
    }

    #[test]
    fn an_interface_that_is_no_radio_is_not_measured() {
        let meter = ChannelMeter::start().unwrap();
        assert!(meter.take().is_empty());
        // The loopback device, and one that does not exist.
        for link in [LinkId(1), LinkId(0x7fff_fff0)] {
            meter.query(link);
            let mut readable = [PollFd::new(meter.as_fd(), PollFlags::POLLIN)];
            assert_eq!(poll(&mut readable, PollTimeout::from(5_000_u16)), Ok(1), "no reading of {link:?}");
            assert_eq!(meter.take(), [not_measured(link)]);
        }
    }
}
