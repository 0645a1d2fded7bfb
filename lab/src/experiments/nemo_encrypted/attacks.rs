//! Somebody on the visited link without the key: an update that never reached the home agent is sent with the option of its
//! WireGuard key removed, then as it was (which shows that the removal alone was refused), and once more after the mobile router
//! has moved back.

use super::testbed::{Observed, is_second};
use crate::bed::tap::Tap;
use crate::experiments::prelude::*;
use crate::load::handover::replug;
use crate::topology::nemo::CORRESPONDENT;
use roam6_proto::contract::view::BindingView;
use roam6_sim::LinkSpec;
use roam6_wire::ip6::{self, Datagram, Header, protocol};
use roam6_wire::mobility::{Message, MobilityOption};

/// Steps of the progress.
pub(super) const STEPS: usize = 3;
const TIMEOUT: Duration = Duration::from_secs(20);
/// How long an update that is accepted takes to become a binding.
const SETTLE_TIME: Duration = Duration::from_secs(2);

pub(super) fn measure(run: &mut Run) -> Result<()> {
    run.step("attacks: an update that does not arrive");
    let observed = Observed::build(true, &["up0"], "")?;
    observed.plug_all()?;
    let mut attacker = Tap::open(&observed.network.ha, "evil0")?;
    let [first, second] = &observed.network.visited;
    let uplink = observed.vehicle.uplink(0)?;
    observed.network.emulator.shape(second.cable, LinkSpec { loss: 1.0, ..LinkSpec::default() });
    let seen = observed.sightings.lock().updates.len();
    replug(&observed.network, uplink, second.link)?;
    let update =
        clock::wait_for(TIMEOUT, || held_back(&observed, seen)).context("no update from the second network")?;
    // The mobile router must not register by itself.
    observed.network.emulator.unplug(uplink)?;
    run.step("attacks: downgrade");
    attacker.send(&rewritten(&update, true).context("the update has no WireGuard key")?)?;
    sleep(SETTLE_TIME);
    run.summarise("downgraded", u8::from(is_bound_there(&observed)?));
    attacker.send(&rewritten(&update, false).context("the update is not readable")?)?;
    sleep(SETTLE_TIME);
    let is_accepted = is_bound_there(&observed)?;
    run.require(is_accepted, || {
        "the update is refused although nothing was removed: the downgrade is not tested".to_owned()
    });
    run.step("attacks: replay");
    let up = observed.network.emulator.plug(uplink, first.link)?;
    observed.vehicle.wait_registered(up, 1)?;
    observed.vehicle.wait_until_connected(CORRESPONDENT)?;
    let is_back = !is_bound_there(&observed)?;
    run.require(is_back, || "the mobile router is not registered by the first network again".to_owned());
    attacker.send(&update)?;
    sleep(SETTLE_TIME);
    run.summarise("replayed_accepted", u8::from(is_bound_there(&observed)?));
    Ok(())
}

/// An update from the second network that was sent after the first `seen` ones.
fn held_back(observed: &Observed, seen: usize) -> Option<Vec<u8>> {
    let sightings = observed.sightings.lock();
    let mut later = sightings.updates.iter().skip(seen);
    later.find(|packet| Datagram::parse(packet).is_ok_and(|datagram| is_second(datagram.source))).cloned()
}

/// The update, encoded again with its original authenticator; `removes_key`: without its WireGuard Key option.
fn rewritten(packet: &[u8], removes_key: bool) -> Option<Vec<u8>> {
    let datagram = Datagram::parse(packet).ok()?;
    let (home, agent) = (datagram.real_source(), datagram.real_destination());
    let Message::BindingUpdate(mut update) = Message::parse(datagram.payload, home, agent).ok()? else { return None };
    let before = update.options.len();
    if removes_key {
        update.options.retain(|option| !matches!(option, MobilityOption::WireguardKey(_)));
        if update.options.len() == before {
            return None;
        }
    }
    let header = Header::new(datagram.source, datagram.destination).with_home_address(home);
    Some(ip6::emit(&header, protocol::MOBILITY, &Message::BindingUpdate(update).emit(home, agent)))
}

/// Whether the home agent has a care-of address of the second network.
fn is_bound_there(observed: &Observed) -> Result<bool> {
    let bindings: Vec<BindingView> = observed.network.home_agent.show("bindings")?;
    Ok(bindings.iter().any(|binding| binding.care_of.is_some_and(is_second)))
}
