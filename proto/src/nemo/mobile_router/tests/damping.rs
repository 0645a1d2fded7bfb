//! Flapping paths: how often traffic moves, and when it returns.

use super::mcoa::{ON_CELL, ON_WIFI, both, sharing};
use super::*;

/// The number of times that traffic moves within ten minutes in which the preferred path answers for `alive` and is silent
/// for `dead` milliseconds in turn, while the other always answers.
fn moves(alive: u64, dead: u64) -> usize {
    let mut bench =
        both(MobileRouterConfig { probe: Some(config::ProbeConfig::default()), ..sharing(LoadSharing::Standby) });
    bench.probe(4000, &[1, 2]);
    let (mut moves, mut now, mut on) = (0, 4000, ip(ON_WIFI));
    for phase in 0.. {
        let answering: &[u16] = if phase % 2 == 0 { &[1, 2] } else { &[2] };
        let until = now + if phase % 2 == 0 { alive } else { dead };
        while now < until {
            now = until.min(now + 200);
            bench.probe(now, answering);
            let carries = bench.paths()[0].0;
            moves += usize::from(carries != on);
            on = carries;
        }
        if now > 604_000 {
            break;
        }
    }
    moves
}

#[test]
fn flapping_path_is_damped() {
    assert_eq!(moves(2000, 2000), 5, "away, back after 1 s, away, back after 2 s, away for good");
    assert_eq!(moves(5000, 1000), 7);
    assert_eq!(moves(30_000, 1000), 11);
    assert_eq!(moves(500, 500), 1, "left at the first silence and never trusted again");
    assert!(moves(61_000, 1000) <= 2 * 10, "after a minute without fault the damping ends");
}

#[test]
fn path_is_up_after_consecutive_probe_replies() {
    let mut bench =
        both(MobileRouterConfig { probe: Some(config::ProbeConfig::default()), ..sharing(LoadSharing::Standby) });
    bench.probe(4000, &[1, 2]);
    let state = |bench: &TestBed| {
        let mut view = View::default();
        bench.router.view(bench.now, &mut view);
        view.links[0].state.to_string()
    };
    let mut back = Vec::new();
    let mut now = 4000;
    for _ in 0..4 {
        now += 1000;
        bench.probe(now, &[2]);
        assert_eq!((bench.paths()[0].0, state(&bench).as_str()), (ip(ON_CELL), "silent"));
        let begin = now;
        while bench.paths()[0].0 != ip(ON_WIFI) {
            now += 200;
            bench.probe(now, &[1, 2]);
            let recovers = bench.paths()[0].0 == ip(ON_WIFI) || state(&bench) == "recovering";
            assert!(recovers, "{}", state(&bench));
        }
        assert_eq!(state(&bench), "visited");
        back.push(now - begin);
    }
    assert_eq!(back, [1000, 2000, 4000, 8000]);
}
