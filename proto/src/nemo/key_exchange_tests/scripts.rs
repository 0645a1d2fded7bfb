//! One thing at a time.

use super::world::*;
use crate::contract::config::nemo::{Authentication, PrefixTableRow, RowInvitation, SecurityAssociationPair};
use crate::contract::item::JournalKey;
use crate::contract::report::NemoReport;
use crate::contract::view::FaultKind;
use crate::crypto::esp::{Integrity, SecurityAssociation};
use core::time::Duration;

/// A home agent and a mobile router that has its invitation.
fn invited() -> World {
    World::new(1, row(file_key(1), Some(invitation(1))), &[router_config(file_key(1), Some(1))])
}

fn two_devices() -> World {
    let device = router_config(file_key(1), Some(1));
    World::new(1, row(file_key(1), Some(invitation(1))), &[device.clone(), device])
}

/// The row after `roam6 invite --again`.
fn invited_again() -> PrefixTableRow {
    row(file_key(2), Some(RowInvitation { first: Some(invitation(1).id), ..invitation(2) }))
}

fn enrolled() -> World {
    World::new(1, row(file_key(1), None), &[router_config(file_key(1), None)])
}

fn unbound(world: &World, end: usize) -> usize {
    world.count(end, |report| matches!(report, NemoReport::Unbound { .. }))
}

#[test]
fn first_registration_exchanges_key_of_invitation() {
    let mut world = invited();
    world.seconds(2);
    assert!(world.is_exchanged(1));
    assert_eq!((world.exchanges(AGENT), world.exchanges(1), world.former_keys()), (1, 1, 0));
    let updates = world.count(1, |report| matches!(report, NemoReport::UpdateSent { .. }));
    assert!(updates <= 3, "{updates}");
    let shown = world.view(AGENT).invitations;
    assert!(matches!(&shown[..], [one] if one.exchanged && one.id == "0101010101010101"), "{shown:?}");
    world.seconds(600);
    assert!(world.is_exchanged(1) && unbound(&world, 1) == 0 && world.exchanges(1) == 1);
}

#[test]
fn second_device_with_same_text_is_refused() {
    let mut world = two_devices();
    world.seconds(60);
    let (winner, other) = if world.is_exchanged(1) { (1, 2) } else { (2, 1) };
    assert!(world.is_exchanged(winner) && !world.is_bound(other) && world.keys(other)[1].is_none());
    assert!(world.former_keys() > 0);
    let fault = &world.view(other).bindings[0];
    assert_eq!((&fault.fault, fault.fault_status), (&Some(FaultKind::FormerKey), Some(146)), "{fault:?}");
    assert!(fault.last_error.as_ref().unwrap().contains("used before, has expired or was revoked"));
    // The binding of the winner is undisturbed by the other's attempts, also after restarts of all.
    world.seconds(600);
    [AGENT, other, winner].into_iter().for_each(|end| world.crash(end, 0));
    world.seconds(60);
    assert!(world.is_exchanged(winner) && !world.is_bound(other));
    world.crash(winner, 0);
    world.seconds(1);
    assert!(world.is_exchanged(winner), "a restart costs no round more than before");
}

#[test]
fn lost_answers_are_repeated() {
    let mut world = invited();
    world.lost_answers = 3;
    world.seconds(40);
    assert!(world.is_exchanged(1) && world.lost_answers == 0);
    assert_eq!(world.exchanges(AGENT), 1);
}

#[test]
fn exchange_goes_on_after_restart_at_any_step() {
    for ends in [&[1][..], &[AGENT], &[AGENT, 1]] {
        for written in [0, 1, 9] {
            for steps in 0..60 {
                let mut world = invited();
                let end = world.now + Duration::from_secs(3);
                for _ in 0..steps {
                    world.step(end);
                }
                ends.iter().for_each(|end| world.crash(*end, written));
                world.seconds(60);
                assert!(world.is_exchanged(1), "{ends:?}, {written} written, after {steps} steps");
            }
        }
    }
}

#[test]
fn expired_invitation_is_refused() {
    let late = RowInvitation { expires_unix: START_UNIX + 10, ..invitation(1) };
    let device = router_config(file_key(1), Some(1));
    let mut world = World::new(1, row(file_key(1), Some(late.clone())), &[device]);
    world.seconds(5);
    assert!(world.is_exchanged(1), "used in time");
    world.seconds(600);
    assert!(world.is_exchanged(1), "the new key does not expire");
    let mut world = World::new(1, row(file_key(1), Some(late)), &[router_config(file_key(1), Some(1))]);
    world.ends[1].router_config.as_mut().unwrap().home_agents.clear();
    world.start(1);
    world.seconds(11);
    world.ends[1].router_config = Some(router_config(file_key(1), Some(1)));
    world.start(1);
    world.seconds(60);
    assert!(!world.is_bound(1) && world.served().is_none() && world.former_keys() > 0);
    assert!(world.agent_fault().contains("has expired"), "{}", world.agent_fault());
}

#[test]
fn exchange_that_has_begun_outlives_its_invitation() {
    let late = RowInvitation { expires_unix: START_UNIX + 5, ..invitation(1) };
    let mut world = World::new(1, row(file_key(1), Some(late)), &[router_config(file_key(1), Some(1))]);
    world.lost_answers = 4;
    world.seconds(60);
    assert!(world.is_exchanged(1));
}

#[test]
fn no_invitation_is_accepted_without_a_clock() {
    let device = router_config(file_key(1), Some(1));
    let mut world = World::without_clock(1, row(file_key(1), Some(invitation(1))), &[device]);
    [AGENT, 1].into_iter().for_each(|end| world.start(end));
    world.seconds(60);
    assert!(!world.is_bound(1));
    assert!(world.former_keys() == 0 || world.agent_fault().contains("set the clock"), "{}", world.agent_fault());
    world.has_no_clock = false;
    world.crash(AGENT, 0);
    world.seconds(60);
    assert!(world.is_exchanged(1));
}

#[test]
fn revoked_router_is_refused_for_ever() {
    let mut world = invited();
    world.seconds(5);
    let old = world.keys(1)[0].clone().unwrap();
    world.reload(Vec::new());
    assert!(!world.ends[AGENT].journal.contains_key(&JournalKey::RowKeys(home())));
    world.seconds(100);
    assert!(world.served().is_none());
    // The same home address is given to another one.
    let another = row(file_key(3), Some(invitation(3)));
    world.reload(vec![another.clone()]);
    world.seconds(100);
    assert!(world.served().is_none() && world.keys(1)[1] == Some(old));
    // The same, if both changes were made while the home agent did not run.
    let mut world = invited();
    world.seconds(5);
    world.ends[AGENT].agent_config = Some(agent_config(another));
    world.crash(AGENT, 0);
    assert!(!world.ends[AGENT].journal.contains_key(&JournalKey::RowKeys(home())));
    world.seconds(200);
    assert!(world.served().is_none());
}

#[test]
fn keys_survive_a_row_that_is_faulty_for_a_while() {
    let mut world = invited();
    world.seconds(5);
    let mut empty = agent_config(row(file_key(1), Some(invitation(1))));
    empty.prefix_table = std::sync::Arc::default();
    world.ends[AGENT].agent_config = Some(empty);
    world.crash(AGENT, 0);
    world.seconds(20);
    world.reload(vec![row(file_key(1), Some(invitation(1)))]);
    world.seconds(100);
    assert!(world.is_exchanged(1));
}

#[test]
fn full_disk_of_mobile_router_delays_the_exchange() {
    let mut world = invited();
    world.ends[1].is_full = true;
    world.crash(1, 0);
    world.seconds(30);
    assert!(world.is_bound(1) && world.keys(1) == [None, None], "the invitation stays in use");
    assert_eq!(world.failures(1).len(), 1, "{:?}", world.failures(1));
    world.ends[1].is_full = false;
    world.seconds(70);
    assert!(world.is_exchanged(1) && unbound(&world, 1) == 0);
}

#[test]
fn full_disk_of_home_agent_spends_nothing() {
    let mut world = invited();
    world.ends[AGENT].is_full = true;
    world.seconds(30);
    assert!(!world.is_bound(1));
    world.crash(AGENT, 0);
    world.ends[AGENT].is_full = false;
    world.seconds(60);
    assert!(world.is_exchanged(1));
}

#[test]
fn invitation_stays_in_use_at_a_home_agent_that_does_not_exchange() {
    let mut world = invited();
    world.ends[AGENT].agent_config.as_mut().unwrap().key_exchange = false;
    world.crash(AGENT, 0);
    world.crash(1, 0);
    world.seconds(300);
    assert!(world.is_bound(1) && world.keys(1) == [None, None] && unbound(&world, 1) == 0);
    assert!(matches!(&world.failures(1)[..], [why] if why.contains("is older")), "{:?}", world.failures(1));
    world.ends[AGENT].agent_config.as_mut().unwrap().key_exchange = true;
    world.crash(AGENT, 0);
    world.seconds(60);
    assert!(world.is_exchanged(1), "a newer home agent completes it");
}

#[test]
fn router_without_exchange_is_served_until_the_invitation_expires() {
    let soon = RowInvitation { expires_unix: START_UNIX + 100, ..invitation(1) };
    let mut world = World::new(1, row(file_key(1), Some(soon)), &[router_config(file_key(1), None)]);
    world.seconds(90);
    assert!(world.is_bound(1) && world.keys(1) == [None, None]);
    world.seconds(200);
    assert!(!world.is_bound(1) && world.served().is_none());
}

#[test]
fn router_without_exchange_loses_to_the_one_with() {
    let row = row(file_key(1), Some(invitation(1)));
    let mut world = World::new(1, row, &[router_config(file_key(1), None), router_config(file_key(1), Some(1))]);
    world.seconds(300);
    assert!(world.is_exchanged(2) && !world.is_bound(1));
}

#[test]
fn second_invitation_replaces_the_router_without_a_gap() {
    for enrolled in [false, true] {
        let (first, first_row) = match enrolled {
            true => (router_config(file_key(1), None), row(file_key(1), None)),
            false => (router_config(file_key(1), Some(1)), row(file_key(1), Some(invitation(1)))),
        };
        let again = match enrolled {
            true => row(file_key(1), Some(RowInvitation { key: Some(file_key(2)), ..invitation(2) })),
            false => invited_again(),
        };
        let mut world = World::new(1, first_row, &[first, router_config(file_key(2), Some(2))]);
        // The second one has no network yet.
        world.seconds(5);
        assert_eq!(world.served(), Some(1));
        world.ends[2].router_config.as_mut().unwrap().home_agents = vec!["2001:db8::9".parse().unwrap()];
        world.start(2);
        world.reload(vec![again]);
        world.crash(AGENT, 0);
        world.seconds(200);
        assert!(world.is_bound(1) && world.served() == Some(1), "the former key stays in force, {enrolled}");
        world.ends[2].router_config = Some(router_config(file_key(2), Some(2)));
        world.start(2);
        world.seconds(5);
        assert!(world.is_exchanged(2), "{enrolled}");
        world.seconds(300);
        assert!(world.is_exchanged(2) && !world.is_bound(1), "the former router is refused, {enrolled}");
    }
}

#[test]
fn operator_exchanges_key_under_way() {
    let mut world = enrolled();
    world.seconds(5);
    assert!(world.is_bound(1) && world.keys(1) == [None, None]);
    world.rekey(1);
    world.seconds(1);
    assert!(world.is_exchanged(1) && world.exchanges(1) == 1 && unbound(&world, 1) == 0);
    let first = world.keys(1)[0].clone();
    world.rekey(1);
    world.seconds(5);
    assert_eq!(world.keys(1), [first.clone(), first.clone()]);
    assert!(world.failures(1)[0].contains("less than a minute"), "{:?}", world.failures(1));
    world.seconds(60);
    world.rekey(1);
    world.seconds(5);
    assert!(world.is_exchanged(1) && world.keys(1)[0] != first && unbound(&world, 1) == 0);
    // Who has the former key file is refused.
    let copy = router_config(file_key(1), None);
    world.ends[1].journal.clear();
    world.ends[1].router_config = Some(copy);
    world.crash(1, 0);
    world.seconds(100);
    assert!(!world.is_bound(1) && world.agent_fault().contains("was exchanged"), "{}", world.agent_fault());
    // Another key in the file wins.
    world.reload(vec![row(file_key(2), None)]);
    world.ends[1].router_config = Some(router_config(file_key(2), None));
    world.crash(1, 0);
    world.seconds(60);
    assert!(world.is_bound(1) && world.keys(1) == [None, None]);
}

#[test]
fn rekey_needs_a_binding_a_shared_key_and_one_home_agent() {
    let mut world = enrolled();
    world.rekey(1);
    assert!(world.failures(1)[0].contains("not bound"));
    world.seconds(5);
    world.ends[1].router_config.as_mut().unwrap().home_agents.push("2001:db8::2".parse().unwrap());
    world.crash(1, 9);
    world.seconds(5);
    world.rekey(1);
    world.seconds(5);
    assert!(world.failures(1)[1].contains("several home agents") && world.keys(1) == [None, None]);

    let association = |spi| SecurityAssociation { spi, integrity: Integrity::HmacSha256, key: vec![7; 32] };
    let pair = SecurityAssociationPair { to_home_agent: association(300), to_mobile_router: association(301) };
    let esp = Authentication::Ipsec(Box::new(pair));
    let mut device = router_config(file_key(1), None);
    device.authentication = esp.clone();
    let mut world = World::new(1, PrefixTableRow { authentication: esp, ..row(file_key(1), None) }, &[device]);
    world.seconds(5);
    world.rekey(1);
    world.seconds(60);
    assert!(world.failures(1)[0].contains("no shared key"));
}

#[test]
fn next_key_of_the_row_wins_over_an_exchanged_one() {
    let mut world = enrolled();
    world.seconds(5);
    world.rekey(1);
    world.seconds(5);
    world.reload(vec![PrefixTableRow { next_key: Some(file_key(2)), ..row(file_key(1), None) }]);
    world.seconds(60);
    assert!(world.is_exchanged(1));
    world.ends[1].router_config = Some(router_config(file_key(2), None));
    world.crash(1, 0);
    world.seconds(60);
    assert!(world.is_bound(1) && world.served() == Some(1));
}
