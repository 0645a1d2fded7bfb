//! A packet generator at the speed of a network card and a counter at the other end, both in the kernel
//! (`lab/bpf/packet_generator.bpf.c`), so that the generator is not part of the measured code. The measure is CPU time, because the
//! cores are shared.

use crate::bed::{Host, sandbox};
use crate::clock;
use crate::sys;
use anyhow::{Context, Result};
use aya::Ebpf;
use aya::maps::{Array, PerCpuArray};
use aya::programs::tc::{self, NlOptions, SchedClassifierLink, TcAttachOptions};
use aya::programs::{
    LinkOrder, ProgramError, SchedClassifier, TcAttachType, TestRun, TestRunAttrs, TestRunOptions, Xdp, XdpMode,
};
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use std::iter;
use std::ops::AddAssign;
use std::thread::sleep;
use std::time::Duration;

static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/packet_generator.bpf.o"));

/// TCP segments with this port are counted and dropped; they belong to no connection.
pub(crate) const BURST_PORT: u16 = 9601;
/// Octets of a frame that the generator writes for each packet.
const HEADER_OCTETS: usize = 104;
/// Octets of a map entry: the headers, the interface index, the number of entries.
const SLOT_OCTETS: usize = HEADER_OCTETS + 8;
/// Frames of one batch of the test run.
const BATCH: u32 = 64;

/// A burst of which a smaller share arrives is reported as lossy.
const MIN_SHARE: f64 = 0.99;
/// A frame that has not arrived this long after the last one is lost.
const QUIET_TIME: Duration = Duration::from_millis(100);
/// How often arrivals are polled.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// The loaded BPF programs.
pub(crate) struct PacketGenerator {
    ebpf: Ebpf,
}

/// Counts packets at an interface until dropped.
#[must_use]
pub(crate) struct PacketCounter {
    host: Host,
    /// The attachment to traffic control or to the driver.
    link: Option<Box<dyn Send>>,
}

impl Drop for PacketCounter {
    fn drop(&mut self) {
        // A filter is identified by interface index, which is only valid in the network namespace of its host.
        let link = self.link.take();
        self.host.in_namespace(|| drop(link)).ok();
    }
}

/// The result of a burst.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Burst {
    /// Frames sent.
    pub(crate) sent: u32,
    /// Frames counted at the other end.
    pub(crate) arrived: u64,
    /// CPU time of generator, forwarding and counter.
    pub(crate) cpu_time: Duration,
}

impl AddAssign for Burst {
    fn add_assign(&mut self, other: Burst) {
        self.sent += other.sent;
        self.arrived += other.arrived;
        self.cpu_time += other.cpu_time;
    }
}

impl Burst {
    /// Thousands of packets per second of CPU time.
    pub(crate) fn kpps(&self) -> f64 {
        self.arrived as f64 / self.cpu_time.as_secs_f64() / 1000.0
    }

    /// The counted share of the sent frames, 0 to 1.
    pub(crate) fn delivered_share(&self) -> f64 {
        self.arrived as f64 / f64::from(self.sent)
    }
}

/// Descriptions of the lossy bursts, by round.
pub(crate) fn describe_losses(bursts: &[Burst]) -> impl Iterator<Item = String> {
    let lossy = (1..).zip(bursts).filter(|(_, burst)| burst.delivered_share() < MIN_SHARE);
    lossy.map(|(round, Burst { sent, arrived, .. })| format!("round {round}: only {arrived} of {sent} packets arrived"))
}

impl PacketGenerator {
    /// Loads the BPF programs.
    pub(crate) fn new() -> Result<PacketGenerator> {
        let mut ebpf = Ebpf::load(OBJECT).context("the BPF object of the packet generator")?;
        for name in ["generate", "redirect", "count_driver"] {
            xdp(&mut ebpf, name)?.load()?;
        }
        counter_program(&mut ebpf)?.load()?;
        Ok(PacketGenerator { ebpf })
    }

    /// Counts and drops all UDP and IPv6-in-IPv6 packets and the TCP segments of bursts that arrive at this interface, before any
    /// other program.
    pub(crate) fn count_at(&mut self, host: &Host, interface: &str) -> Result<PacketCounter> {
        let program = counter_program(&mut self.ebpf)?;
        let link = host.in_namespace(|| attach_first(program, interface))?;
        let link = link.with_context(|| format!("a counter at {interface}"))?;
        Ok(PacketCounter { host: host.clone(), link: Some(Box::new(link)) })
    }

    /// [`PacketGenerator::count_at`] at the driver, before the kernel allocates socket buffers.
    pub(crate) fn count_at_driver(&mut self, host: &Host, interface: &str) -> Result<PacketCounter> {
        let program = xdp(&mut self.ebpf, "count_driver")?;
        let link = host.in_namespace(|| {
            let id = program.attach(interface, XdpMode::Driver)?;
            program.take_link(id)
        })?;
        let link = link.with_context(|| format!("a counter of frames at {interface}"))?;
        Ok(PacketCounter { host: host.clone(), link: Some(Box::new(link)) })
    }

    /// Redirects every frame that arrives at one interface of a host to another, without a lookup.
    pub(crate) fn redirect(&mut self, host: &Host, from: &str, to: &str) -> Result<()> {
        self.set_frames(&[Vec::new()], host.interface_index(to)?)?;
        let program = xdp(&mut self.ebpf, "redirect")?;
        host.in_namespace(|| program.attach(from, XdpMode::Driver))??;
        Ok(())
    }

    /// Sends `count` copies of these frames in turn by an interface of a host. All have the length of the first; their
    /// number is a power of two up to 64.
    pub(crate) fn send_burst(&mut self, host: &Host, interface: &str, frames: &[Vec<u8>], count: u32) -> Result<Burst> {
        let frame = frames.first().context("no frames")?;
        self.set_frames(frames, host.interface_index(interface)?)?;
        let before = self.arrived()?;
        let program = &*xdp(&mut self.ebpf, "generate")?;
        let (own, softirq) = host.in_namespace(|| {
            pin_to_last_cpu()?;
            // The kernel defers excess work to a softirq thread. Until that thread has caught up, more frames would
            // only overrun the queues (256 frames between two veth drivers).
            sys::set_idle_priority()?;
            let began = (clock::thread_cpu_time(), sandbox::softirq_cpu_time());
            let attrs = TestRunAttrs::new().xdp_live_frames(BATCH);
            program.test_run(TestRunOptions { data_in: Some(frame), repeat: count, attrs, ..TestRunOptions::new() })?;
            anyhow::Ok((clock::thread_cpu_time() - began.0, began.1))
        })??;
        let arrived = self.wait_for_arrivals(before, count)?;
        let took = own + sandbox::softirq_cpu_time().saturating_sub(softirq);
        Ok(Burst { sent: count, arrived, cpu_time: took })
    }

    /// Waits until all frames have arrived, or no more arrive: a softirq thread may have to wait for a CPU before it
    /// processes the remaining queues.
    fn wait_for_arrivals(&self, before: u64, sent: u32) -> Result<u64> {
        let (mut arrived, mut quiet) = (self.arrived()? - before, Duration::ZERO);
        while arrived < sent.into() && quiet < QUIET_TIME {
            sleep(POLL_INTERVAL);
            let now = self.arrived()? - before;
            quiet = if now == arrived { quiet + POLL_INTERVAL } else { Duration::ZERO };
            arrived = now;
        }
        Ok(arrived)
    }

    fn set_frames(&mut self, frames: &[Vec<u8>], link: u32) -> Result<()> {
        let mut slots: Array<_, [u8; SLOT_OCTETS]> =
            self.ebpf.map_mut("slots").context("no map of slots")?.try_into()?;
        let tail = [link, u32::try_from(frames.len())?].map(u32::to_ne_bytes).concat();
        for (place, frame) in (0..).zip(frames) {
            let mut slot = [0; SLOT_OCTETS];
            let octets = frame.iter().copied().chain(iter::repeat(0)).take(HEADER_OCTETS).chain(tail.iter().copied());
            slot.iter_mut().zip(octets).for_each(|(to, from)| *to = from);
            slots.set(place, slot, 0)?;
        }
        Ok(())
    }

    fn arrived(&self) -> Result<u64> {
        let arrived: PerCpuArray<_, u64> = self.ebpf.map("arrived").context("no map of counters")?.try_into()?;
        Ok(arrived.get(&0, 0)?.iter().sum())
    }
}

fn xdp<'a>(ebpf: &'a mut Ebpf, name: &str) -> Result<&'a mut Xdp> {
    Ok(ebpf.program_mut(name).with_context(|| format!("no program {name}"))?.try_into()?)
}

fn counter_program(ebpf: &mut Ebpf) -> Result<&mut SchedClassifier> {
    Ok(ebpf.program_mut("count").context("no counter")?.try_into()?)
}

/// Attaches before all other programs of the interface: by TCX if the kernel has it (6.6), otherwise by a clsact
/// filter, as roam6 does.
fn attach_first(program: &mut SchedClassifier, interface: &str) -> Result<SchedClassifierLink, ProgramError> {
    let by = TcAttachOptions::TcxOrder(LinkOrder::first());
    let id = program.attach_with_options(interface, TcAttachType::Ingress, by).or_else(|_| {
        // Fails if the qdisc exists, which is fine.
        let _ = tc::qdisc_add_clsact(interface);
        let by = TcAttachOptions::Netlink(NlOptions { priority: 1, ..NlOptions::default() });
        program.attach_with_options(interface, TcAttachType::Ingress, by)
    })?;
    program.take_link(id)
}

/// Runs `work`, which starts programs, with the CPU affinity of the generator, which they inherit. A packet sent from
/// another CPU would make that CPU process the interface's queue for as long as frames come; the generator would then
/// only pay for itself and overrun the queue.
pub(crate) fn on_generator_cpu<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    let allowed = sched_getaffinity(Pid::from_raw(0))?;
    pin_to_last_cpu()?;
    let made = work();
    sched_setaffinity(Pid::from_raw(0), &allowed)?;
    made
}

/// Pins this thread, and the softirq work it raises, to the last allowed CPU.
fn pin_to_last_cpu() -> Result<()> {
    let allowed = sched_getaffinity(Pid::from_raw(0))?;
    let last = (0..CpuSet::count()).rev().find(|cpu| allowed.is_set(*cpu).unwrap_or(false));
    let mut one = CpuSet::new();
    one.set(last.context("no CPU")?)?;
    Ok(sched_setaffinity(Pid::from_raw(0), &one)?)
}
