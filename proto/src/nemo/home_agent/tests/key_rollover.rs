//! A mobile router changes to its next key while it is bound.

use super::bench::*;
use crate::contract::command::HomeAgentCommand;
use crate::contract::config::nemo::{Authentication, HomeAgentConfig, PrefixTable, SharedKey};
use crate::contract::report::HostReport;
use crate::{Command, DropReason, Input, Output, Report};
use roam6_wire::ip6::Datagram;
use roam6_wire::mobility::option::AUTHENTICATION_MN_HA;
use roam6_wire::mobility::{Message, MobilityOption};
use std::sync::Arc;

const CARE_OF: &str = "2001:db8:1::100";

fn next_key(spi: u32) -> SharedKey {
    SharedKey { spi, secret: (100..116).collect() }
}

/// The usual table; the first row has this key, and this one beside it.
fn with_keys(key: SharedKey, next: Option<SharedKey>) -> HomeAgentConfig {
    let mut config = config();
    let mut rows = config.prefix_table.rows.clone();
    rows[0].authentication = Authentication::SharedKey(key);
    rows[0].next_key = next;
    config.prefix_table = Arc::new(PrefixTable { rows });
    config
}

fn signed(sequence: u16, key: &SharedKey) -> Update {
    Update { key: Some(key.clone()), ..Update::new(sequence, CARE_OF) }
}

/// The SPI that the acknowledgement among these outputs is signed with.
fn signed_with(outputs: &[Output]) -> Option<u32> {
    outputs.iter().find_map(|output| {
        let Output::Transmit(transmit) = output else { return None };
        let datagram = Datagram::parse(&transmit.bytes).ok()?;
        let message = Message::parse(datagram.payload, datagram.real_source(), datagram.real_destination()).ok()?;
        let Message::BindingAcknowledgement(acknowledgement) = message else { return None };
        acknowledgement.options.iter().find_map(|option| match option {
            MobilityOption::Authentication { subtype: AUTHENTICATION_MN_HA, spi, .. } => Some(*spi),
            _ => None,
        })
    })
}

#[test]
fn both_keys_authenticate_and_acknowledgement_uses_key_of_update() {
    let mut bench = TestBed::new(with_keys(key(), Some(next_key(257))));
    for (sequence, key) in [(1, key()), (2, next_key(257)), (3, key())] {
        let outputs = bench.send(&signed(sequence, &key));
        assert_eq!((status(&outputs), signed_with(&outputs)), (0, Some(key.spi)));
    }
    let stale = bench.send(&signed(2, &next_key(257)));
    assert_eq!((status(&stale), signed_with(&stale)), (135, Some(257)));
}

#[test]
fn two_keys_may_share_one_spi() {
    let mut bench = TestBed::new(with_keys(key(), Some(next_key(key().spi))));
    assert_eq!(status(&bench.send(&signed(1, &key()))), 0);
    assert_eq!(status(&bench.send(&signed(2, &next_key(key().spi)))), 0);
    let wrong = SharedKey { secret: vec![9; 16], ..key() };
    assert_eq!(status(&bench.send(&signed(3, &wrong))), 146);
}

#[test]
fn binding_survives_key_rollover() {
    let mut bench = TestBed::new(config());
    assert_eq!(status(&bench.send(&signed(1, &key()))), 0);
    let held = bench.installed();
    let steps =
        [(with_keys(key(), Some(next_key(257))), next_key(257)), (with_keys(next_key(257), None), next_key(257))];
    for (sequence, (config, key)) in (2..).zip(steps) {
        bench.feed(Input::Command(Command::HomeAgent(HomeAgentCommand::ReloadPrefixTable(config.prefix_table))));
        assert_eq!(bench.installed(), held, "a change of keys ends no binding");
        assert_eq!(status(&bench.send(&signed(sequence, &key))), 0);
    }
    let old = bench.send(&signed(9, &key()));
    let dropped = |output: &Output| {
        matches!(output, Output::Report(Report::Host(HostReport::Dropped { reason: DropReason::NoAssociation, .. })))
    };
    assert!(old.iter().any(dropped), "the former key is not accepted any more");
    assert_eq!(bench.installed(), held);
}
