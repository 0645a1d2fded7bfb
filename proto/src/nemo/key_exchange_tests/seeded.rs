//! Anything at any time: whatever a seed does, both ends have the same key in the end, and one device has it.

use super::world::*;
use crate::Entropy;

const SEEDS: u64 = 300;

/// Something that happens to a world.
fn mishap(world: &mut World, dice: &mut Entropy) {
    let end = usize::try_from(dice.below(world.ends.len() as u64)).unwrap();
    match dice.below(8) {
        0 | 1 => world.crash(end, usize::try_from(dice.below(4)).unwrap()),
        2 => world.ends[end].is_full = !world.ends[end].is_full,
        3 if end != AGENT => world.rekey(end),
        4 => world.lost_answers = u32::try_from(dice.below(3)).unwrap(),
        _ => world.weather.jitter = dice.below(3) * 700,
    }
}

fn run(seed: u64) {
    let mut dice = Entropy::seed_from_u64(seed);
    let device = router_config(file_key(1), Some(1));
    let devices = if dice.below(3) == 0 { vec![device.clone(), device] } else { vec![device] };
    let mut world = World::new(seed, row(file_key(1), Some(invitation(1))), &devices);
    world.weather = Weather { loss: dice.below(300), copies: dice.below(300), jitter: dice.below(2000) };
    for _ in 0..dice.below(30) {
        let until = world.now + core::time::Duration::from_millis(dice.below(6000));
        for _ in 0..dice.below(40) {
            world.step(until);
        }
        mishap(&mut world, &mut dice);
    }
    world.weather = Weather::default();
    world.lost_answers = 0;
    world.ends.iter_mut().for_each(|end| end.is_full = false);
    world.seconds(400);
    let exchanged: Vec<usize> = (1..world.ends.len()).filter(|end| world.is_exchanged(*end)).collect();
    assert_eq!(exchanged.len(), 1, "seed {seed}: {:?}, served {:?}", world.keys(1), world.served());
    let before = world.keys(exchanged[0]);
    (0..world.ends.len()).for_each(|end| world.crash(end, 9));
    world.seconds(400);
    assert!(world.is_exchanged(exchanged[0]) && world.keys(exchanged[0]) == before, "seed {seed}, after restarts");
}

#[test]
fn both_ends_agree_after_any_mishaps() {
    (0..SEEDS).for_each(run);
}
