//! Updates that must not count: such as were recorded and are replayed at other members, and such as reach two members at once.

use super::require_common_table;
use crate::experiments::prelude::*;
use crate::load::fleet_updates::{Answer, FleetUpdates, Update};
use crate::topology::fleet::{FleetNetwork, MEMBERS};
use std::collections::BTreeMap;

/// Mobile routers whose updates are replayed.
const REPLAYED: (u32, u32) = (60, 1000);
/// Pairs of updates at two members at once.
const RIVALS: (u32, u32) = (600, 10_000);
/// Pairs at the same time.
const PAIRS: u32 = 50;
/// How long answers are waited for.
const ANSWERED: Duration = Duration::from_millis(500);
/// The same of pairs of which none has an answer by then.
const LATEST: Duration = Duration::from_secs(4);

/// Every update is replayed at every other member, at once and a second later, and again after the mobile router has moved.
pub(super) fn measure_replays(run: &mut Run, updates: &mut FleetUpdates) -> Result<()> {
    run.step("replays");
    let count = if run.quick { REPLAYED.0 } else { REPLAYED.1 };
    let (mut accepted, mut replayed, mut recorded) = (0, 0, Vec::new());
    for router in 0..count {
        let first = router as usize % MEMBERS;
        for (place, member) in [(2, first), (3, (first + 1) % MEMBERS)] {
            let update = updates.update(router, place, false)?;
            updates.send(member, &update.packet)?;
            wait_accepted(updates, &update)?;
            accepted += replay(updates, &update, member)?;
            replayed += MEMBERS - 1;
            recorded.push((update, member));
        }
    }
    accepted += accepted_replays(&updates.answers_within(ANSWERED), &recorded);
    sleep(Duration::from_secs(1));
    for (update, member) in &recorded {
        accepted += replay(updates, update, *member)?;
        replayed += MEMBERS - 1;
    }
    accepted += accepted_replays(&updates.answers_within(ANSWERED), &recorded);
    run.rows.push(json!({ "replayed": replayed, "accepted": accepted }));
    run.summarise("replays_accepted", accepted);
    run.require_bound("replays_accepted");
    Ok(())
}

/// Sends an update to all members but this one, which has accepted it; answers that have come by now count.
fn replay(updates: &mut FleetUpdates, update: &Update, accepted_by: usize) -> Result<usize> {
    for member in (0..MEMBERS).filter(|member| *member != accepted_by) {
        updates.send(member, &update.packet)?;
    }
    Ok(accepted_replays(&updates.answers(), &[(update.clone(), accepted_by)]))
}

/// Answers that accept an update of which another member has accepted the original.
fn accepted_replays(answers: &[Answer], recorded: &[(Update, usize)]) -> usize {
    let is_replay = |answer: &&Answer| {
        let of = |(update, member): &&(Update, usize)| {
            update.router == answer.router && update.sequence == answer.sequence && *member != answer.member
        };
        answer.accepts() && recorded.iter().any(|one| of(&one))
    };
    answers.iter().filter(is_replay).count()
}

fn wait_accepted(updates: &mut FleetUpdates, update: &Update) -> Result<()> {
    let end = clock::now() + Duration::from_secs(5);
    while clock::now() < end {
        let answers = updates.answers_within(Duration::from_millis(2));
        if answers.iter().any(|one| one.router == update.router && one.sequence == update.sequence && one.accepts()) {
            return Ok(());
        }
    }
    bail!("an update of router {} has no acknowledgement", update.router)
}

/// Mobile routers send to two members at once: one update each, and two with the same sequence number.
pub(super) fn measure_rivals(run: &mut Run, network: &FleetNetwork, updates: &mut FleetUpdates) -> Result<()> {
    run.step("updates at two members at once");
    let pairs = if run.quick { RIVALS.0 } else { RIVALS.1 };
    let (mut twice, mut refused) = (0, 0);
    for round in 0..pairs / PAIRS {
        let routers = (0..PAIRS).map(|number| number * 2);
        let mut sent = Vec::new();
        for router in routers {
            let (one, other) = (router as usize % MEMBERS, (router as usize + 1 + round as usize % 2) % MEMBERS);
            let first = updates.update(router, 4, false)?;
            let second = if round % 2 == 0 { updates.update(router, 5, false)? } else { updates.rival(&first, 5) };
            updates.send(one, &first.packet)?;
            updates.send(other, &second.packet)?;
            sent.push(second);
        }
        let mut answers = updates.answers_within(ANSWERED);
        // A busy machine answers later.
        let end = clock::now() + LATEST;
        while judge(&answers, &sent).1 > 0 && clock::now() < end {
            answers.extend(updates.answers_within(ANSWERED));
        }
        let (double, without) = judge(&answers, &sent);
        twice += double;
        refused += without;
    }
    run.rows.push(json!({ "pairs": pairs, "answered_twice": twice, "without_winner": refused }));
    run.summarise("rivals_answered_twice", twice);
    run.summarise("rivals_without_winner", refused);
    run.require_bound("rivals_answered_twice");
    require_common_table(run, network, "rivals_divergent")
}

/// Sequence numbers that were accepted twice, and pairs of which none was accepted.
pub(super) fn judge(answers: &[Answer], sent: &[Update]) -> (usize, usize) {
    let mut accepted = BTreeMap::<(u32, u16), usize>::new();
    for answer in answers.iter().filter(|answer| answer.accepts()) {
        *accepted.entry((answer.router, answer.sequence.0)).or_default() += 1;
    }
    let of_router = |router: u32| accepted.range((router, 0)..=(router, u16::MAX)).count();
    let without = sent.iter().filter(|update| of_router(update.router) == 0).count();
    (accepted.values().filter(|count| **count > 1).count(), without)
}
