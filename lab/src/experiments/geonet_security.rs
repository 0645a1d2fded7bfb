//! Secured packets: signatures a second, the cost of forwarding packets of others, octets added, and a flood of forged packets
//! beside a neighbour that signs.

use crate::bed::{Daemon, Host, binary, run_command};
use crate::experiments::geonet_forwarding::{self, Frames};
use crate::experiments::prelude::*;
use crate::load::geo_stations::FORWARDER;
use crate::load::signed_stations::{Forgery, Lab, SignedStation, added_octets};
use roam6_proto::contract::view::{StationView, Trust};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

/// Forged frames a second.
const FLOOD: u64 = 50_000;
/// More frames of this size than a radio channel of 6 Mbit/s carries in a second.
const CHANNEL: u64 = 2_000;
/// Octets of the frames that are forwarded.
const FRAME: usize = 300;
/// Neighbours of the forwarder.
const NEIGHBOURS: u16 = 10;
/// Rounds of a comparison.
const ROUNDS: usize = 8;
/// How long a CAM may take until the position in it is known.
const PATIENCE: Duration = Duration::from_secs(2);
/// Time for queues to drain after a flood, and for budgets to refill.
const SETTLING: Duration = Duration::from_secs(1);
/// Pause between two CAMs.
const PAUSE: Duration = Duration::from_millis(50);

pub(super) fn run(run: &mut Run) -> Result<()> {
    run.set_steps(5);
    run.step("signatures a second");
    let output = run_command(Command::new(binary()?).args(["geo", "cert", "speed", "--json"]))?;
    let speed: Value = serde_json::from_str(&output)?;
    for key in ["sign_per_s", "verify_per_s"] {
        run.summarise(key, speed.get(key).and_then(Value::as_f64).context("no speed")?);
    }
    run.step("forwarding with and without envelopes");
    forward(run)?;
    let bed = Bed::build()?;
    let (digest, certificate) = added_octets(&bed.lab)?;
    run.summarise("octets_added_digest", digest);
    run.summarise("octets_added_certificate", certificate);
    flood(run, &bed)
}

/// Floods of forged packets beside two neighbours that sign.
fn flood(run: &mut Run, bed: &Bed) -> Result<()> {
    let cams = if run.quick { 30 } else { 150 };
    run.step("a flood of forged packets");
    let quiet = bed.measure(None, cams)?;
    let strangers = bed.measure(Some((Forgery::Strangers, FLOOD)), cams)?;
    run.step("a flood in the name of a neighbour");
    // Each lost CAM takes the time of a loss.
    let impersonation = bed.measure(Some((Forgery::Impersonation, FLOOD)), cams / 3)?;
    run.step("the same on a full channel");
    let channel = bed.measure(Some((Forgery::Impersonation, CHANNEL)), cams)?;
    run.summarise("legitimate", strangers.cams * 2);
    run.summarise(
        "legitimate_lost",
        [quiet, strangers].iter().map(|result| result.lost + result.bystander_lost).sum::<u32>(),
    );
    run.summarise("flood_per_s", round(strangers.flood_per_s));
    run.summarise("flood_cpu_share", round(strangers.cpu_share.max(impersonation.cpu_share)));
    run.summarise("memory_growth_kb", strangers.memory_growth_kb.max(impersonation.memory_growth_kb));
    run.summarise("bystander_lost", impersonation.bystander_lost + channel.bystander_lost);
    run.summarise("impersonated_lost", channel.lost);
    run.summarise("impersonated_lost_share", round(f64::from(impersonation.lost) / f64::from(impersonation.cams)));
    let results = [
        ("none", quiet),
        ("strangers", strangers),
        ("impersonation", impersonation),
        ("impersonation on a channel", channel),
    ];
    for (name, result) in results {
        run.require(name == "none" || result.frames > 0, || format!("{name}: no forged packet was sent"));
        run.rows.push(json!({
            "flood": name, "cams": result.cams, "lost": result.lost, "bystander_lost": result.bystander_lost,
            "cpu_share": round(result.cpu_share), "flood_per_s": round(result.flood_per_s),
            "memory_growth_kb": result.memory_growth_kb,
        }));
    }
    Ok(())
}

/// Compares frames of one size, in turn.
fn forward(run: &mut Run) -> Result<()> {
    let (mut plain, mut secured) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let mut turn = [(Frames::Unsecured, &mut plain), (Frames::Secured, &mut secured)];
        turn.rotate_left(round % 2);
        for (frames, rates) in turn {
            let result = geonet_forwarding::measure(NEIGHBOURS, run.quick, (FRAME, frames))?;
            run.require(result.is_correct, || "not every packet was forwarded to the right next hop".to_owned());
            rates.push(result.pps);
        }
    }
    run.summarise("unsigned_pps", percentile(&plain, 0.5).map(f64::round));
    run.summarise("signed_pps", percentile(&secured, 0.5).map(f64::round));
    run.estimate("signed_over_unsigned_forwarding", median(&ratios(&secured, &plain), LEVEL));
    Ok(())
}

/// A station that verifies, and the air around it: a neighbour whose name forged packets have, and another one.
struct Bed {
    lab: Lab,
    network: Host,
    daemon: Daemon,
    neighbour: SignedStation,
    bystander: SignedStation,
}

/// What a flood did.
#[derive(Debug, Clone, Copy)]
struct FloodResult {
    /// CAMs of each neighbour, and those whose position is not known.
    cams: u32,
    lost: u32,
    bystander_lost: u32,
    /// Forged frames.
    frames: u64,
    flood_per_s: f64,
    cpu_share: f64,
    memory_growth_kb: u64,
}

impl Bed {
    fn build() -> Result<Bed> {
        let (station, network) = (Host::new("station")?, Host::new("network")?);
        station.ip(&[&format!("link add radio0 address {FORWARDER} type veth peer name air0 netns network")])?;
        for (host, name) in [(&station, "radio0"), (&network, "air0")] {
            host.set_sysctl(&format!("ipv6/conf/{name}/disable_ipv6"), "1")?;
            host.ip(&[&format!("link set {name} up")])?;
        }
        let lab = Lab::make(station.folder().join("certificates"), 2)?;
        let config = format!(
            "[geo]\ninterfaces = [\"radio0\"]\nposition = {{ latitude = 48.0, longitude = 11.0 }}\nfacilities = {{}}\n{}",
            lab.table("strict")
        );
        let daemon = Daemon::start(&station, &config)?;
        let neighbour = SignedStation::open(&network, "air0", &lab, 1)?;
        let bystander = SignedStation::open(&network, "air0", &lab, 2)?;
        Ok(Bed { lab, network, daemon, neighbour, bystander })
    }

    /// The neighbours send CAMs, and somebody else forged packets beside them.
    fn measure(&self, forgery: Option<(Forgery, u64)>, cams: u32) -> Result<FloodResult> {
        sleep(SETTLING);
        let forger = SignedStation::open(&self.network, "air0", &self.lab, 1)?;
        let goes_on = AtomicBool::new(true);
        std::thread::scope(|scope| {
            // The station knows the neighbours before the flood.
            let mut lost = [u32::from(!self.exchange(&self.neighbour, u32::MAX)?), 0];
            lost[1] = u32::from(!self.exchange(&self.bystander, u32::MAX)?);
            let before = self.daemon.usage()?;
            let begin = clock::now();
            let (forger, until) = (&forger, &goes_on);
            let flood = forgery.map(|(forgery, rate)| {
                scope.spawn(move || forger.flood(forgery, rate, || until.load(Ordering::Relaxed)))
            });
            let exchanged = self.exchange_all(cams);
            goes_on.store(false, Ordering::Relaxed);
            let frames = match flood.map(|flood| flood.join()) {
                Some(joined) => joined.map_err(|_| anyhow!("the flood has panicked"))??,
                None => 0,
            };
            let span = begin.elapsed().as_secs_f64();
            let after = self.daemon.usage()?;
            lost.iter_mut().zip(exchanged?).for_each(|(all, more)| *all += more);
            let [lost, bystander_lost] = lost;
            Ok(FloodResult {
                cams: cams + 1,
                lost,
                bystander_lost,
                frames,
                flood_per_s: frames as f64 / span,
                cpu_share: after.cpu_time.saturating_sub(before.cpu_time).as_secs_f64() / span,
                memory_growth_kb: after.resident_kb.saturating_sub(before.resident_kb),
            })
        })
    }

    /// CAMs of both neighbours in turn; how many of each are lost.
    fn exchange_all(&self, cams: u32) -> Result<[u32; 2]> {
        let mut lost = [0, 0];
        for number in 0..cams {
            for (station, lost) in [&self.neighbour, &self.bystander].into_iter().zip(&mut lost) {
                *lost += u32::from(!self.exchange(station, number)?);
            }
        }
        Ok(lost)
    }

    /// Sends one CAM of a station; whether its position is soon known as verified.
    fn exchange(&self, station: &SignedStation, number: u32) -> Result<bool> {
        let place = SignedStation::place(number);
        station.send(&station.cam(number)?)?;
        let is_known = || {
            let stations: Vec<StationView> = self.daemon.show("stations").ok()?;
            let found = stations.iter().find(|shown| shown.mid == station.address)?;
            (found.place == place && found.trust == Trust::Verified).then_some(())
        };
        let seen = clock::wait_for(PATIENCE, is_known).is_some();
        sleep(PAUSE);
        Ok(seen)
    }
}
