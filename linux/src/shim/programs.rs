//! The Shim6 programs and maps: loaded, attached to uplinks, and removed with the daemon (TCX from Linux 6.6 on, clsact
//! before).

use super::abi::{
    ContextIndex, ContextKey, ContextValue, Event, SettingsValue, TaggedValue, TrafficValue, decode_event,
};
use crate::bpf::entries::Entries;
use crate::bpf::load::classifier;
use crate::error::{Context as _, Error};
use aya::maps::{Array, MapData, RingBuf};
use aya::programs::tc::{NlOptions, SchedClassifierLink, TcAttachOptions, TcHandle};
use aya::programs::{LinkOrder, SchedClassifier, TcAttachType, tc};
use aya::{Ebpf, EbpfLoader};

static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/shim.bpf.o"));

/// Before the filters of the tunnels, after which no other filter runs.
const PRIORITY: u16 = 105;
const HANDLE: TcHandle = TcHandle::new(0, 1);

/// One of the programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Program {
    /// On the egress of an uplink, with Ethernet headers or none.
    Egress { ethernet: bool },
    /// On the ingress of an uplink.
    Ingress { ethernet: bool },
    /// On the segments of large packets.
    Segmented,
}

impl Program {
    fn name(self) -> &'static str {
        match self {
            Program::Egress { ethernet: true } => "leave_ethernet",
            Program::Egress { ethernet: false } => "leave_bare",
            Program::Ingress { ethernet: true } => "arrive_ethernet",
            Program::Ingress { ethernet: false } => "arrive_bare",
            Program::Segmented => "cut",
        }
    }

    fn direction(self) -> TcAttachType {
        match self {
            Program::Ingress { .. } => TcAttachType::Ingress,
            Program::Egress { .. } | Program::Segmented => TcAttachType::Egress,
        }
    }
}

/// The loaded programs and their maps.
pub(super) struct Programs {
    ebpf: Ebpf,
    pub(super) contexts: Entries<ContextKey, ContextValue>,
    pub(super) tags: Entries<u64, TaggedValue>,
    settings: Array<MapData, SettingsValue>,
    traffic: Array<MapData, TrafficValue>,
    notify_requests: Array<MapData, u32>,
    events: RingBuf<MapData>,
}

impl Programs {
    /// Loads the programs, with maps for so many contexts.
    ///
    /// # Errors
    /// The kernel's, with the verifier's message.
    pub(super) fn load(contexts: u32) -> Result<Programs, Error> {
        let mut loader = EbpfLoader::new();
        // The programs use no types of the kernel, which are megabytes.
        loader.btf(None);
        for map in ["contexts", "tags", "carried", "asked"] {
            loader.map_max_entries(map, contexts.max(1));
        }
        let mut ebpf = loader.load(OBJECT).context("load the Shim6 BPF object")?;
        let mut take = |name| ebpf.take_map(name).ok_or_else(|| Error::new(name, "no such map in the BPF object"));
        Ok(Programs {
            contexts: Entries::new("contexts", take("contexts")?)?,
            tags: Entries::new("tags", take("tags")?)?,
            settings: Array::try_from(take("shim_settings")?).context("map settings")?,
            traffic: Array::try_from(take("carried")?).context("map carried")?,
            notify_requests: Array::try_from(take("asked")?).context("map asked")?,
            events: RingBuf::try_from(take("events")?).context("map events")?,
            ebpf,
        })
    }

    /// Attaches a program to an interface, for as long as the returned link lives.
    ///
    /// # Errors
    /// The kernel's.
    pub(super) fn attach(&mut self, which: Program, interface: &str) -> Result<SchedClassifierLink, Error> {
        let what = format_args!("attach BPF program {} to {interface}", which.name());
        let program = self.program(which)?;
        let first = TcAttachOptions::TcxOrder(LinkOrder::first());
        let id = match program.attach_with_options(interface, which.direction(), first) {
            Ok(id) => id,
            Err(_) => {
                // Fails if the qdisc exists already, which is no error.
                let _ = tc::qdisc_add_clsact(interface);
                let options = NlOptions { priority: PRIORITY, handle: HANDLE, ..NlOptions::default() };
                program
                    .attach_with_options(interface, which.direction(), TcAttachOptions::Netlink(options))
                    .context(what)?
            }
        };
        program.take_link(id).context(what)
    }

    /// A program, loaded when it is first needed.
    pub(super) fn program(&mut self, which: Program) -> Result<&mut SchedClassifier, Error> {
        classifier(&mut self.ebpf, which.name())
    }

    pub(super) fn set_settings(&mut self, value: SettingsValue) -> Result<(), Error> {
        self.settings.set(0, value, 0).context("map settings")
    }

    /// The traffic since the index was last [cleared](Programs::clear).
    ///
    /// # Errors
    /// The kernel's.
    pub(super) fn traffic(&self, slot: ContextIndex) -> Result<TrafficValue, Error> {
        self.traffic.get(&slot.0, 0).context("map carried")
    }

    /// Resets the traffic and the requested notifications.
    ///
    /// # Errors
    /// The kernel's.
    pub(super) fn clear(&mut self, slot: ContextIndex) -> Result<(), Error> {
        self.request_notification(slot, 0)?;
        self.traffic.set(slot.0, [0; size_of::<TrafficValue>()], 0).context("map carried")
    }

    /// Requests a notification of the next packet of each kind.
    ///
    /// # Errors
    /// The kernel's.
    pub(super) fn request_notification(&mut self, slot: ContextIndex, what: u32) -> Result<(), Error> {
        self.notify_requests.set(slot.0, what, 0).context("map asked")
    }

    /// The next event.
    pub(super) fn read_event(&mut self) -> Option<Event> {
        while let Some(item) = self.events.next() {
            if let Some(event) = decode_event(&item) {
                return Some(event);
            }
        }
        None
    }
}

crate::sys::impl_as_fd!(Programs, events);
