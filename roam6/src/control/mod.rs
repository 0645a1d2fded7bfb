//! The protocol of the control socket: a request is one line of JSON, and so is each response (docs/control.md).

pub(crate) mod client;
pub(crate) mod part;
#[cfg(feature = "bpf")]
pub(crate) mod path_keys;

use crate::daemon::handover_meter::MoveCounts;
use core::time::Duration;
use part::Part;
#[cfg(feature = "bpf")]
use path_keys::PathKeys;
use roam6_linux::firewall::Firewall;
use roam6_linux::mptcp::diag::{Connection, Connections};
use roam6_proto::View;
use roam6_proto::base::fields::{self, Fields, FromFields};
use roam6_proto::base::ids::AddressPair;
use roam6_proto::base::vec_map::VecMap;
use roam6_proto::contract::config::facilities::DenmRequest;
use roam6_proto::contract::config::geo::{EchoRequest, GeoDestination};
use roam6_proto::contract::report::Report;
use roam6_proto::contract::view::{Counters, LdmView};
use roam6_wire::HomeAddress;
use serde::{Deserialize, Deserializer, Serialize};
use std::net::Ipv6Addr;

/// Largest request, octets.
pub(crate) const MAX_REQUEST: usize = 4096;
/// Largest response that a client reads, octets.
pub(crate) const MAX_ANSWER: u64 = 1 << 30;

/// A client's request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Request {
    /// The whole state of the node.
    View,
    /// One part of the state; the others are empty.
    Part(Part),
    /// The state, one line for each row, and then every event as it happens.
    Watch,
    /// The kernel's MPTCP connections.
    Subflows,
    /// The devices of encrypted paths and their sessions.
    #[cfg(feature = "bpf")]
    Keys,
    /// Makes new keys for encrypted paths.
    #[cfg(feature = "bpf")]
    RenewKeys,
    /// The metrics page.
    Metrics,
    /// Ends the binding of a home address.
    Unbind(HomeAddress),
    /// Exchanges the key of the mobile router; an event reports the result.
    Rekey,
    /// Switches one Shim6 context, or all that have it, to this locator pair.
    UsePath {
        /// The ULIDs.
        context: Option<AddressPair>,
        /// Only for packets of sockets with this mark (SO_MARK), not 0.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mark: Option<u32>,
        /// The locator pair.
        path: AddressPair,
    },
    /// Removes a Shim6 context.
    EndContext(AddressPair),
    /// Sends an echo request to a GeoNetworking station, or to all in an area; the replies are events.
    Ask(Box<EchoRequest>),
    /// Maps an IPv6 address to a destination area.
    PutArea(GeoDestination),
    /// Removes the mapping of an IPv6 address.
    DropArea(Ipv6Addr),
    /// Sends, updates or cancels an event notification.
    Denm(Box<DenmRequest>),
    /// Changes the pseudonym of the GeoNetworking station.
    ChangePseudonym,
    /// Keeps the pseudonym for so long; zero ends that.
    LockPseudonym(Duration),
    /// Has this member of a fleet hand over to the others, or serve again.
    #[cfg(feature = "fleet")]
    Fleet(roam6_proto::contract::command::FleetCommand),
}

/// The daemon's response to all requests but [`Request::Watch`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Response {
    /// The state of the node.
    State(Box<NodeState>),
    /// The kernel's MPTCP connections.
    Subflows(Box<Connections>),
    /// The keys of encrypted paths.
    #[cfg(feature = "bpf")]
    Keys(Vec<PathKeys>),
    /// The metrics page.
    Metrics(String),
    /// The request was executed.
    Done,
    /// The request failed, with the reason.
    Error(String),
}

/// The state of the node.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct NodeState {
    /// Name of the node.
    pub(crate) name: String,
    /// Version of the daemon.
    pub(crate) version: String,
    /// Microseconds since 1970-01-01T00:00Z.
    pub(crate) unix_micros: u64,
    /// Microseconds since the daemon started.
    pub(crate) at: u64,
    /// When the configuration in use was read, seconds since 1970-01-01T00:00Z.
    pub(crate) config_loaded_unix: u64,
    /// Packets by their fate in the data plane.
    pub(crate) packets: VecMap<String, u64>,
    /// The firewall on the path of tunnelled packets, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) firewall: Option<Firewall>,
    /// Handovers of the mobile router, for the metrics.
    #[serde(skip)]
    pub(crate) moves: MoveCounts,
    /// The state of the roles.
    #[serde(flatten)]
    pub(crate) view: View,
}

impl<'de> Deserialize<'de> for NodeState {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<NodeState, D::Error> {
        fields::deserialize(deserializer)
    }
}

impl FromFields for NodeState {
    fn from_fields(fields: &mut Fields) -> Result<NodeState, serde_json::Error> {
        Ok(NodeState {
            name: fields.take("name")?,
            version: fields.take("version")?,
            unix_micros: fields.take("unix_micros")?,
            at: fields.take("at")?,
            config_loaded_unix: fields.take::<Option<_>>("config_loaded_unix")?.unwrap_or_default(),
            packets: fields.take("packets")?,
            firewall: fields.take("firewall")?,
            moves: MoveCounts::default(),
            view: View::from_fields(fields)?,
        })
    }
}

/// One line of [`Request::Watch`] for an event; `event` names its kind.
#[derive(Debug, Clone)]
pub(crate) struct WatchLine<'a> {
    /// Microseconds since 1970-01-01T00:00Z.
    pub(crate) unix_micros: u64,
    /// Microseconds since the daemon started.
    pub(crate) at: u64,
    /// Name of the interface whose index is the event's `link`.
    pub(crate) link_name: Option<&'a str>,
    /// Name of the mobile router with the event's home address.
    pub(crate) mobile_router: Option<&'a str>,
    /// The event.
    pub(crate) report: &'a Report,
}

impl WatchLine<'_> {
    /// The line, without its end.
    pub(crate) fn to_json(&self) -> String {
        let mut text = head(self.unix_micros, self.at);
        for (name, value) in [("link_name", self.link_name), ("mobile_router", self.mobile_router)] {
            if let Some(value) = value {
                text.push_str(&format!(",\"{name}\":{}", serde_json::json!(value)));
            }
        }
        join(text, serde_json::to_string(self.report))
    }
}

/// The begin of each line of [`Request::Watch`], which ends in a field. `#[serde(flatten)]` would cost ten kilobytes of code.
fn head(unix_micros: u64, at: u64) -> String {
    format!("{{\"unix_micros\":{unix_micros},\"at\":{at}")
}

/// An object that has been begun, with the fields of another one.
fn join(mut begun: String, object: serde_json::Result<String>) -> String {
    let object = object.unwrap_or_default();
    match object.strip_prefix('{') {
        Some("}") | None => begun.push('}'),
        Some(fields) => {
            begun.push(',');
            begun.push_str(fields);
        }
    }
    begun
}

/// The one row of all counters.
#[derive(Serialize)]
struct CounterRow<'a> {
    events: &'a Counters,
    packets: &'a VecMap<String, u64>,
}

impl NodeState {
    /// The rows of the state and of the MPTCP connections, as lines of the event stream.
    pub(crate) fn watch_lines(&self, connections: &[Connection]) -> Vec<u8> {
        // Every field is named: a new part of the state does not compile without its line.
        let View {
            bindings,
            invitations,
            links,
            tunnels,
            endpoints,
            prefixes,
            addresses,
            contexts,
            stations,
            position,
            areas,
            groups,
            #[cfg(feature = "dcc")]
            channels,
            networks,
            ldm:
                LdmView {
                    station: _,
                    stations: ldm_stations,
                    events: ldm_events,
                    #[cfg(feature = "facilities")]
                        messages: ldm_messages,
                },
            services,
            #[cfg(feature = "fleet")]
            fleet,
            timers,
            counters,
        } = &self.view;
        let mut lines = Vec::new();
        self.append_rows(&mut lines, "state_binding", bindings);
        self.append_rows(&mut lines, "state_link", links);
        self.append_rows(&mut lines, "state_tunnel", tunnels);
        self.append_rows(&mut lines, "state_prefix", prefixes);
        self.append_rows(&mut lines, "state_endpoint", endpoints);
        self.append_rows(&mut lines, "state_connection", connections);
        self.append_rows(&mut lines, "state_address", addresses);
        self.append_rows(&mut lines, "state_context", contexts);
        self.append_rows(&mut lines, "state_station", stations);
        self.append_rows(&mut lines, "state_position", position.as_slice());
        self.append_rows(&mut lines, "state_area", areas);
        self.append_rows(&mut lines, "state_group", groups);
        #[cfg(feature = "dcc")]
        self.append_rows(&mut lines, "state_channel", channels);
        self.append_rows(&mut lines, "state_ldm_station", ldm_stations);
        self.append_rows(&mut lines, "state_ldm_event", ldm_events);
        #[cfg(feature = "facilities")]
        self.append_rows(&mut lines, "state_ldm_message", ldm_messages);
        self.append_rows(&mut lines, "state_service", services);
        self.append_rows(&mut lines, "state_network", networks);
        self.append_rows(&mut lines, "state_invitation", invitations);
        #[cfg(feature = "fleet")]
        self.append_rows(&mut lines, "state_fleet", fleet.as_slice());
        self.append_rows(&mut lines, "state_timer", timers);
        self.append_rows(&mut lines, "state_counters", &[CounterRow { events: counters, packets: &self.packets }]);
        lines
    }

    fn append_rows<T: Serialize>(&self, lines: &mut Vec<u8>, event: &str, rows: &[T]) {
        let head = format!("{},\"event\":\"{event}\"", head(self.unix_micros, self.at));
        for row in rows {
            lines.extend(join(head.clone(), serde_json::to_string(row)).into_bytes());
            lines.push(b'\n');
        }
    }

    /// This state with one part only.
    pub(crate) fn only(&self, part: Part) -> NodeState {
        let (all, mut view) = (&self.view, View::default());
        match part {
            Part::Bindings => view.bindings.clone_from(&all.bindings),
            Part::Invitations => view.invitations.clone_from(&all.invitations),
            Part::Links => view.links.clone_from(&all.links),
            Part::Tunnels => view.tunnels.clone_from(&all.tunnels),
            Part::Endpoints => view.endpoints.clone_from(&all.endpoints),
            // The kernel has these: see [`Request::Subflows`] and `Request::Keys`.
            Part::Subflows => {}
            #[cfg(feature = "bpf")]
            Part::Keys => {}
            // The relay tells them.
            #[cfg(feature = "relay")]
            Part::Flows => {}
            Part::Prefixes => view.prefixes.clone_from(&all.prefixes),
            Part::Addresses => view.addresses.clone_from(&all.addresses),
            Part::Contexts => view.contexts.clone_from(&all.contexts),
            Part::Stations => view.stations.clone_from(&all.stations),
            Part::Position => view.position.clone_from(&all.position),
            Part::Areas => view.areas.clone_from(&all.areas),
            Part::Groups => view.groups.clone_from(&all.groups),
            #[cfg(feature = "dcc")]
            Part::Channels => view.channels.clone_from(&all.channels),
            Part::Networks => view.networks.clone_from(&all.networks),
            Part::Ldm => view.ldm.clone_from(&all.ldm),
            Part::Services => view.services.clone_from(&all.services),
            #[cfg(feature = "fleet")]
            Part::Fleet => view.fleet.clone_from(&all.fleet),
            Part::Timers => view.timers.clone_from(&all.timers),
            Part::Counters => view.counters.clone_from(&all.counters),
        }
        NodeState {
            name: self.name.clone(),
            version: self.version.clone(),
            unix_micros: self.unix_micros,
            at: self.at,
            config_loaded_unix: self.config_loaded_unix,
            packets: if part == Part::Counters { self.packets.clone() } else { VecMap::new() },
            firewall: self.firewall.clone().filter(|_| part == Part::Tunnels),
            moves: MoveCounts::default(),
            view,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::sample;
    use clap::ValueEnum;

    #[test]
    fn a_part_request_names_a_field_of_the_state_and_the_others_are_empty() {
        let whole = serde_json::to_value(sample::state()).unwrap();
        let empty = serde_json::to_value(sample::state().only(Part::Subflows)).unwrap();
        let parts = [Part::Areas, Part::Groups];
        for part in Part::value_variants().iter().chain(&parts) {
            if is_of_others(*part) {
                continue;
            }
            let name = serde_json::to_value(part).unwrap();
            let name = name.as_str().unwrap();
            let only = serde_json::to_value(sample::state().only(*part)).unwrap();
            assert_eq!(only[name], whole[name], "{name}");
            for (field, value) in only.as_object().unwrap().iter().filter(|(field, _)| *field != name) {
                let belongs = matches!((name, field.as_str()), ("counters", "packets") | ("tunnels", "firewall"));
                assert!(belongs || *value == empty[field], "{name} has {field}: {value}");
            }
            let request = serde_json::json!({ "part": name }).to_string();
            assert_eq!(serde_json::from_str::<Request>(&request).unwrap(), Request::Part(*part));
        }
    }

    /// Whether another than the daemon has the part.
    fn is_of_others(part: Part) -> bool {
        #[cfg(feature = "relay")]
        if part == Part::Flows {
            return true;
        }
        #[cfg(feature = "bpf")]
        if part == Part::Keys {
            return true;
        }
        part == Part::Subflows
    }

    #[test]
    fn older_clients_still_request_the_whole_state() {
        for (request, parsed) in [("\"view\"", Request::View), ("\"watch\"", Request::Watch)] {
            assert_eq!(serde_json::from_str::<Request>(request).unwrap(), parsed);
        }
    }
}
