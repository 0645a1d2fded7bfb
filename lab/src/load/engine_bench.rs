//! The Shim6 engine alone, in virtual time, with a host that grants every request at once.

use roam6_proto::base::ids::ContextId;
use roam6_proto::contract::config::shim::ShimConfig;
use roam6_proto::contract::input::{Activity, AddressEvent, AddressState, LinkEvent, Packet, TrafficCount};
use roam6_proto::shim::Shim;
use roam6_proto::{Engine, Entropy, Input, LinkId, Outbox, Output, Time};
use std::net::Ipv6Addr;
use std::time::Duration;

/// The only uplink.
const LINK: LinkId = LinkId(1);
const NAME: &str = "u0";
/// Time after which the engine considers its addresses stable.
const SETTLED: Duration = Duration::from_secs(1);

/// The engine and its time.
pub(crate) struct EngineBench {
    /// The engine.
    pub(crate) shim: Shim,
    /// Its time.
    pub(crate) now: Time,
}

impl EngineBench {
    /// A host with these addresses on one uplink; the uplinks in `config` are ignored.
    pub(crate) fn new(config: ShimConfig, addresses: &[Ipv6Addr]) -> EngineBench {
        let config = ShimConfig { interfaces: [NAME.to_owned()].into(), ..config };
        let shim = Shim::new(config, Entropy::seed_from_u64(1));
        let mut bench = EngineBench { shim, now: Time::ZERO };
        bench.feed(&Input::Link(LinkEvent { link: LINK, name: NAME.to_owned(), address: None, up: true, mtu: 1500 }));
        for address in addresses {
            let event = AddressEvent { link: LINK, address: *address, state: AddressState::Preferred };
            bench.feed(&Input::Address(event));
        }
        bench.now = bench.now + SETTLED;
        bench.feed(&Input::Tick);
        bench
    }

    /// The packets that the engine sends after an input; contexts are reported as idle.
    pub(crate) fn feed(&mut self, input: &Input) -> Vec<Vec<u8>> {
        let mut out = Outbox::new();
        self.shim.handle(self.now, input, &mut out);
        self.advance(out)
    }

    /// Answers the engine's requests to its host; the packets it sends.
    pub(crate) fn advance(&mut self, mut out: Outbox) -> Vec<Vec<u8>> {
        let mut packets = Vec::new();
        loop {
            let outputs: Vec<Output> = out.drain().collect();
            if outputs.is_empty() {
                return packets;
            }
            for output in outputs {
                let answer = match output {
                    Output::Transmit(transmit) => {
                        packets.push(transmit.bytes);
                        continue;
                    }
                    Output::Put(put) => Input::Outcome(put.outcome(None)),
                    Output::ActivityQuery(sample) => Input::Activity(idle_activity(sample.context)),
                    _ => continue,
                };
                self.shim.handle(self.now, &answer, &mut out);
            }
        }
    }

    /// The packets that the engine sends after it has received a packet.
    pub(crate) fn receive(&mut self, bytes: Vec<u8>) -> Vec<Vec<u8>> {
        self.feed(&packet(bytes))
    }
}

/// A packet received by the uplink.
pub(crate) fn packet(bytes: Vec<u8>) -> Input {
    Input::Packet(Packet { link: LINK, sender: None, bytes })
}

fn idle_activity(context: ContextId) -> Activity {
    let (last_sent, last_received, none) = (None, None, TrafficCount::default());
    Activity { context, last_sent, last_received, unanswered_since: None, unreturned_since: None, tx: none, rx: none }
}
