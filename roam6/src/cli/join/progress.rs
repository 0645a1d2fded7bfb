//! From the start of the daemon to the first packet through the tunnel, or the first thing that is wrong.

use crate::cli::prompt::Prompt;
use crate::config::duration::format_duration;
use crate::config::mobile_router::SHARED_IDENTIFIER;
use crate::control::client;
use crate::control::part::Part;
use crate::exit::Failure;
use crate::invitation::Invitation;
use crate::service::{LOOK, control_socket};
use core::time::Duration;
use roam6_linux::probe::{Answer, EchoRequest, echo};
use roam6_proto::contract::view::{BindingState, BindingView, LinkRole, LinkView};
use roam6_wire::Prefix;
use std::path::Path;
use std::thread::sleep;
use std::time::Instant;

/// How long it took.
pub(crate) struct Joined {
    /// Until the first registration.
    pub(crate) bound: Duration,
    /// Until the first reply through the tunnel.
    pub(crate) first_packet: Duration,
    /// The round trip of that.
    pub(crate) round_trip: Duration,
}

/// Waits until a packet has been through the tunnel and back, for `limit` since the daemon was started at `begun` with the
/// configuration file `config`.
///
/// # Errors
/// Nothing came in time: the first fault on its path.
pub(crate) fn first_packet(
    invitation: &Invitation,
    (config, inside): (&Path, &[(String, Prefix)]),
    (begun, limit): (Instant, Duration),
    prompt: Prompt,
) -> Result<Joined, Failure> {
    let mut bound = None;
    loop {
        let bindings = client::view(Part::Bindings, &control_socket())?.view.bindings;
        let registered = bindings.iter().find(|binding| binding.state == BindingState::Bound);
        if let (Some(binding), None) = (registered, bound) {
            bound = Some(begun.elapsed());
            let by = by_which_uplink(binding).map(|by| format!(" by {by}")).unwrap_or_default();
            prompt.say(format!("bound after {}{by}", format_duration(begun.elapsed())));
        }
        if let Some(bound) = bound
            && let Answer::Reply(round_trip) = probe(invitation, inside)
        {
            let first_packet = begun.elapsed();
            let [after, trip] = [first_packet, round_trip].map(format_duration);
            prompt.say(format!("first packet through the tunnel after {after}, {trip} round trip"));
            return Ok(Joined { bound, first_packet, round_trip });
        }
        if begun.elapsed() > limit {
            return Err(Failure::Other(fault(bound.is_some(), (config, invitation), &bindings, limit)?));
        }
        sleep(LOOK);
    }
}

/// The state of the uplink that is registered.
fn by_which_uplink(binding: &BindingView) -> Option<String> {
    let links = client::view(Part::Links, &control_socket()).ok()?.view.links;
    let link = links.iter().find(|link| binding.care_of.is_some_and(|address| link.addresses.contains(&address)));
    Some(match link {
        Some(link) => format!("{} ({})", link.name, link.state),
        None => binding.care_of?.to_canonical().to_string(),
    })
}

/// An echo request from the home address, so by the tunnel, to the home agent.
fn probe(invitation: &Invitation, inside: &[(String, Prefix)]) -> Answer {
    let identifier = |prefix: Prefix| if prefix.contains(invitation.home_agent) { SHARED_IDENTIFIER } else { 1 };
    let own = inside.first().and_then(|(_, prefix)| prefix.with_identifier(identifier(*prefix)));
    let from = [Some(invitation.home_address), own];
    let requests = from.into_iter().flatten();
    let answers =
        requests.map(|source| echo(&EchoRequest { source: Some(source), ..EchoRequest::to(invitation.home_agent) }));
    let mut last = Answer::Silence;
    for answer in answers {
        if answer.is_reply() {
            return answer;
        }
        last = answer;
    }
    last
}

/// The first thing that is wrong, by the doctor if this program has it.
fn fault(
    bound: bool,
    (config, invitation): (&Path, &Invitation),
    bindings: &[BindingView],
    limit: Duration,
) -> Result<String, Failure> {
    let waited = format_duration(limit);
    if let Some((first, cure)) = first_fault(config) {
        let what = if bound { "registered, but no packet passed the tunnel" } else { "not registered" };
        return Ok(format!(
            "{what} within {waited}: {first}\nCure: {cure}\nThe service keeps trying; look again with: roam6 doctor"
        ));
    }
    if bound {
        return Ok(format!(
            "registered, but within {waited} the home agent {} did not answer through the tunnel: do firewalls on the way \
             let the IPv6 protocol 41 pass, or UDP port 4191, and ICMPv6 at the home agent?",
            invitation.home_agent
        ));
    }
    let links = client::view(Part::Links, &control_socket())?.view.links;
    let said = bindings.iter().find_map(|binding| binding.last_error.clone());
    let why = said.unwrap_or_else(|| of_uplinks(&links));
    Ok(format!(
        "not registered within {waited}: {why}. The service keeps trying; look at: roam6 show links, roam6 watch"
    ))
}

/// The first fault of the path, and its cure.
#[cfg(feature = "doctor")]
fn first_fault(config: &Path) -> Option<(String, String)> {
    use crate::doctor::{Scope, diagnose, gather};
    let scope = Scope { config: config.to_owned(), run_dir: None, quick: false, target: None };
    diagnose(&gather(&scope)).first_fault().map(|first| (first.text.clone(), first.cure.clone()))
}

/// The first fault is not known without the doctor.
#[cfg(not(feature = "doctor"))]
fn first_fault(_config: &Path) -> Option<(String, String)> {
    None
}

/// What each uplink lacks.
fn of_uplinks(links: &[LinkView]) -> String {
    let uplinks = links.iter().filter(|link| link.role == LinkRole::Uplink);
    let words = uplinks.map(|link| {
        let why = link.last_error.iter().chain(&link.hints).cloned().collect::<Vec<_>>().join(", ");
        if why.is_empty() {
            format!("{}: {}", link.name, link.state)
        } else {
            format!("{}: {}, {why}", link.name, link.state)
        }
    });
    words.collect::<Vec<_>>().join("; ")
}
