//! Properties of a radio medium: range, loss, rate, and how stations share the channel (IEEE 802.11).

use core::time::Duration;

/// Octets that 802.11 adds to an Ethernet frame: a data frame's header, LLC/SNAP and frame check sequence, less the header of
/// Ethernet; 2 more with QoS, which OCB requires.
const MAC_OCTETS: usize = 24 + 8 + 4 - 14;
/// SERVICE field and tail of an OFDM frame, octets (22 bits).
const OFDM_OCTETS: usize = 3;

/// How stations share the channel (IEEE 802.11-2020 §10.3, §10.22). The default costs no time but a random backoff of at most 15
/// slots after a busy channel, and has no collisions.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ChannelAccess {
    /// Length of a slot.
    pub slot: Duration,
    /// Slots from which a backoff is drawn: of the first attempt, and at most. It doubles with each retransmission.
    pub window: (u64, u64),
    /// Time after a unicast frame in which its acknowledgement is sent, or awaited.
    pub acknowledgement: Duration,
    /// Octets added to each Ethernet frame.
    pub overhead: usize,
    /// Whether frames that overlap at a receiver are lost.
    pub collisions: bool,
}

impl Default for ChannelAccess {
    fn default() -> ChannelAccess {
        let slot = Duration::from_micros(13); // OFDM in 10 MHz
        ChannelAccess { slot, window: (16, 16), acknowledgement: Duration::ZERO, overhead: 0, collisions: false }
    }
}

/// Properties of the medium. The default has no loss within 300 m and no airtime.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RadioSpec {
    /// Communication range in metres.
    pub range: f64,
    /// Distance in metres from which the loss increases, up to 1 at `range`.
    pub lossless_range: f64,
    /// Loss of each receiver within `sure`, 0 to 1.
    pub loss: f64,
    /// Probability that a unicast frame is received twice, since its acknowledgement was lost, 0 to 1.
    pub duplicate: f64,
    /// Bits per second; `None`: frames take no airtime and the channel is never busy.
    pub rate_bps: Option<u64>,
    /// Airtime of preamble and physical header of each frame.
    pub preamble: Duration,
    /// Octets of the queue of each station; a frame that does not fit is dropped.
    pub queue_bytes: usize,
    /// Retransmissions of a unicast frame.
    pub retries: u8,
    /// How stations share the channel.
    pub access: ChannelAccess,
}

impl Default for RadioSpec {
    fn default() -> RadioSpec {
        RadioSpec {
            range: 300.0,
            lossless_range: 300.0,
            loss: 0.0,
            duplicate: 0.0,
            rate_bps: None,
            preamble: Duration::ZERO,
            queue_bytes: 64 * 1024,
            retries: 6,
            access: ChannelAccess::default(),
        }
    }
}

impl RadioSpec {
    /// 802.11 OCB as used by vehicles: 6 Mbit/s in a channel of 10 MHz.
    pub fn its_g5(range: f64) -> RadioSpec {
        let preamble = Duration::from_micros(40 + 58); // PLCP preamble and SIGNAL; AIFS of the best-effort class
        RadioSpec { range, lossless_range: range * 0.8, rate_bps: Some(6_000_000), preamble, ..RadioSpec::default() }
    }

    /// 802.11p, now 802.11 OCB, with the air time of acknowledgements, and collisions: 6 Mbit/s in a channel of 10 MHz
    /// (IEEE 802.11-2020 §17.4.4), the access category of best effort outside of a BSS (AIFSN 6).
    pub fn ieee80211p(range: f64) -> RadioSpec {
        let (slot, sifs, preamble) = (13, 32, 40);
        let access = ChannelAccess {
            slot: Duration::from_micros(slot),
            window: (16, 1024),
            // Preamble, and 14 octets with SERVICE and tail in three symbols of 8 µs.
            acknowledgement: Duration::from_micros(sifs + preamble + 24),
            overhead: MAC_OCTETS + 2 + OFDM_OCTETS,
            collisions: true,
        };
        let preamble = Duration::from_micros(sifs + 6 * slot + preamble);
        RadioSpec { range, lossless_range: range, rate_bps: Some(6_000_000), preamble, access, ..RadioSpec::default() }
    }

    /// 802.11g in ad hoc mode, the channel of the CarGeo6 paper, without stations of 802.11b: 54 Mbit/s, acknowledgements at
    /// 24 Mbit/s (IEEE 802.11-2020 §18.4.4: slots of 20 µs).
    pub fn ieee80211g(range: f64) -> RadioSpec {
        let (slot, sifs, preamble, extension) = (20, 10, 20, 6);
        let access = ChannelAccess {
            slot: Duration::from_micros(slot),
            window: (16, 1024),
            // Preamble, and 14 octets with SERVICE and tail in two symbols of 4 µs.
            acknowledgement: Duration::from_micros(sifs + preamble + 8 + extension),
            overhead: MAC_OCTETS + OFDM_OCTETS,
            collisions: true,
        };
        let preamble = Duration::from_micros(sifs + 2 * slot + preamble + extension);
        RadioSpec { range, lossless_range: range, rate_bps: Some(54_000_000), preamble, access, ..RadioSpec::default() }
    }

    /// The time that a frame of `size` octets uses the channel, with its preamble and the space before it.
    pub fn airtime(&self, size: usize) -> Duration {
        let bits = u64::try_from(size.saturating_add(self.access.overhead)).unwrap_or(u64::MAX).saturating_mul(8);
        let micros = self.rate_bps.map_or(0, |rate| bits.saturating_mul(1_000_000).div_ceil(rate.max(1)));
        self.preamble + Duration::from_micros(micros)
    }

    /// The mean time from one unicast frame of `size` octets to the next, of a station that is alone and always has one to send.
    pub fn unicast_interval(&self, size: usize) -> Duration {
        let (window, _) = self.access.window;
        let backoff = self.access.slot.mul_f64(window.saturating_sub(1) as f64 / 2.0);
        self.airtime(size) + self.access.acknowledgement + backoff
    }
}
