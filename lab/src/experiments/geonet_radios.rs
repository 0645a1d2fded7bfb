//! Datagrams over GeoNetworking between two stations with radios of 802.11 outside the context of a BSS (OCB), which the
//! distribution's kernel simulates (mac80211_hwsim), at the rates of the CarGeo6 paper's Fig 10. The kernel's 802.11 code makes
//! and reads each frame; frames take no air time. It runs itself in a virtual machine (`scripts/radios-vm`).

use crate::bed::{Daemon, Host};
use crate::experiments::prelude::*;
use crate::experiments::virtual_machine;
use crate::load::datagrams::DatagramLoad;
use std::net::Ipv6Addr;
use std::process::Command;

/// Starts the virtual machine; prints the result.
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../scripts/radios-vm");
/// Set inside of the virtual machine.
const INSIDE_VARIABLE: &str = "ROAM6_LAB_RADIOS";
/// The paper's rates, kbit/s, and payloads that are not fragmented.
const RATES: [u64; 6] = [250, 500, 1000, 1250, 1750, 2000];
const SIZES: [usize; 2] = [700, 1300];
const TIMEOUT: Duration = Duration::from_secs(60);
/// The control channel of ITS-G5 (EN 302 663): 5900 MHz, 10 MHz wide.
const JOIN: &str = "set -e; device=$(iw dev | awk '$1 == \"Interface\" { print $2; exit }')
    ip link set $device down; ip link set $device name radio0
    echo 1 > /proc/sys/net/ipv6/conf/radio0/disable_ipv6
    iw dev radio0 set type ocb; ip link set radio0 up; iw dev radio0 ocb join 5900 10MHZ";

pub(super) fn run(run: &mut Run) -> Result<()> {
    if std::env::var_os(INSIDE_VARIABLE).is_some() { measure(run) } else { run_in_virtual_machine(run) }
}

fn run_in_virtual_machine(run: &mut Run) -> Result<()> {
    run.set_steps(1);
    run.step("in a virtual machine");
    let mut script = Command::new(SCRIPT);
    script.arg(std::env::current_exe()?).args(run.quick.then_some("--quick"));
    match virtual_machine::result_of(&mut script)? {
        Ok(result) => virtual_machine::take_over(run, &result),
        Err(why) => run.summarise("absent", why),
    }
    Ok(())
}

fn measure(run: &mut Run) -> Result<()> {
    let span = if run.quick { Duration::from_secs(1) } else { Duration::from_secs(4) };
    run.set_steps(RATES.len() * SIZES.len());
    let radios = clock::wait_for(TIMEOUT, radios).context("no two simulated radios were moved here")?;
    let stations =
        (1..).zip(&radios).map(|(number, radio)| Station::build(number, radio)).collect::<Result<Vec<_>>>()?;
    let [near, far] = stations.as_slice() else { bail!("not two stations") };
    let target = far.address.to_string();
    let ping = || near.host.output("ping", &["-6", "-n", "-c", "1", "-W", "2", &target]).ok();
    clock::wait_for(TIMEOUT, ping)
        .with_context(|| format!("the far station does not answer\n{}", near.daemon.log_tail()))?;
    let mut least = 1.0_f64;
    for rate in RATES {
        for octets in SIZES {
            run.step(&format!("{rate} kbit/s, {octets} octets"));
            let load = DatagramLoad::at_rate(rate, octets, span);
            let count = load.send([near.endpoint(), far.endpoint()])?;
            least = least.min(count.delivery());
            run.rows.push(json!({
                "channel": "802.11 OCB", "kbit_s": rate, "octets": octets, "sent": count.sent, "received": count.received,
                "delivery": round(count.delivery()), "kbit_s_received": round(count.kbit_s(&load)),
            }));
        }
    }
    run.summarise("delivery_min", round(least));
    Ok(())
}

/// The radios in this network namespace, once there are two; by number, since sysfs shows the names of another namespace.
fn radios() -> Option<[String; 2]> {
    let listed = crate::bed::host::run_command(Command::new("iw").arg("phy")).ok()?;
    let mut names =
        listed.lines().filter_map(|line| Some(format!("phy#{}", line.trim().strip_prefix("wiphy index: ")?)));
    Some([names.next()?, names.next()?])
}

/// A station with a simulated radio.
struct Station {
    host: Host,
    daemon: Daemon,
    address: Ipv6Addr,
}

impl Station {
    fn build(number: u16, radio: &str) -> Result<Station> {
        let host = Host::new(&format!("station{number}"))?;
        crate::bed::host::run_command(Command::new("iw").args([radio, "set", "netns", "name", host.name()]))?;
        host.output("sh", &["-c", JOIN]).context("the radio joins no channel")?;
        let config = format!(
            "[geo]\ninterfaces = [\"radio0\"]\nbeacon = \"1s\"\npacket_data_rate = 4000000000\ncongestion_control = \"off\"\n\
             position = {{ latitude = 48.0, longitude = 11.00{number} }}\n[[geo.links]]\nname = \"gn0\"\naround = 1500\n"
        );
        let daemon = Daemon::start(&host, &config)?;
        let address = Ipv6Addr::new(0x2001, 0xdb8, 9, 0, 0, 0, 0, number);
        let add = || host.ip(&[&format!("address replace {address}/64 dev gn0 nodad")]).ok();
        clock::wait_for(TIMEOUT, add).context("gn0 takes no address")?;
        Ok(Station { host, daemon, address })
    }

    fn endpoint(&self) -> Endpoint<'_> {
        Endpoint { host: &self.host, address: self.address }
    }
}
