//! Rounds of an experiment: a fixed number, or more until every bound is decided or the time is spent. "Until decided" would be
//! wrong with intervals of 95 %, since each look is another chance of an error: looks are few, each of 99 %, so that the sum of
//! the errors is 5 % at most.

use crate::clock;
use crate::judge::{Bound, Disturbance, Estimate, NamedEstimate, Verdict, Watch, counted, median, ratios};
use crate::run::Run;
use serde_json::json;
use std::time::{Duration, Instant};

/// The confidence of a single look.
const SINGLE: f64 = 0.95;
/// The confidence of each of several looks.
const REPEATED: f64 = 0.99;
/// The most rounds of a quick run, which has time for a single look at its end.
const QUICK: usize = 12;
/// The numbers of rounds after which growing experiments look at their figures in a full run.
const LOOKS: [usize; 5] = [8, 12, 18, 27, 40];
/// The rounds that an interval needs; a busy machine has half as much time again for these.
const ENOUGH: usize = 6;
/// Rounds with a clock that counts instructions, in a full run.
const COUNTED: usize = 3;

/// The rounds of an experiment.
pub(crate) struct Rounds {
    experiment: String,
    looks: Vec<usize>,
    level: f64,
    is_counted: bool,
    budget: Duration,
    began: Instant,
    watch: Option<Watch>,
    tried: usize,
    kept: usize,
    repeated: usize,
    disturbed: usize,
    stopped: Option<&'static str>,
}

impl Rounds {
    /// So many rounds, and one look.
    pub(crate) fn fixed(run: &Run, rounds: usize) -> Rounds {
        Rounds::new(run, vec![rounds], SINGLE, Duration::MAX)
    }

    /// Rounds within this time in a quick and in a full run: at most twelve in a quick one; in a full one at most forty, until the
    /// bounds are decided.
    pub(crate) fn growing(run: &Run, [quick, full]: [Duration; 2]) -> Rounds {
        let budget = if run.quick { quick } else { full };
        if clock::counts_instructions() {
            return Rounds::new(run, vec![if run.quick { 1 } else { COUNTED }], SINGLE, Duration::MAX);
        }
        if run.quick {
            return Rounds::new(run, vec![QUICK], SINGLE, budget);
        }
        Rounds::new(run, LOOKS.to_vec(), REPEATED, budget)
    }

    fn new(run: &Run, looks: Vec<usize>, level: f64, budget: Duration) -> Rounds {
        Rounds {
            experiment: run.experiment.clone(),
            looks,
            level,
            is_counted: clock::counts_instructions(),
            budget,
            began: clock::now(),
            watch: None,
            tried: 0,
            kept: 0,
            repeated: 0,
            disturbed: 0,
            stopped: None,
        }
    }

    /// The number of rounds at the first look.
    pub(crate) fn expected(&self) -> usize {
        self.looks.first().copied().unwrap_or_default()
    }

    /// The number of the next round, from 0 on; `None` if there is none.
    pub(crate) fn next(&mut self) -> Option<usize> {
        let number = self.next_at(self.began.elapsed());
        self.watch = number.map(|_| Watch::begin());
        number
    }

    fn next_at(&mut self, elapsed: Duration) -> Option<usize> {
        if self.stopped.is_none() {
            let mean = elapsed / u32::try_from(self.tried.max(1)).unwrap_or(u32::MAX);
            let budget = if self.kept < ENOUGH { self.budget.saturating_mul(3) / 2 } else { self.budget };
            if self.kept >= self.looks.last().copied().unwrap_or_default() {
                self.stopped = Some("looks");
            } else if self.tried > 0 && elapsed + mean * 6 / 5 > budget {
                self.stopped = Some("time");
            }
        }
        self.stopped.is_none().then_some(self.tried)
    }

    /// Ends a round. `false`: the machine was disturbed, and there is time to repeat the round, whose values do not count.
    /// Values have no influence on this.
    pub(crate) fn keep(&mut self) -> bool {
        let disturbance = self.watch.take().map(|watch| watch.end());
        self.keep_at(disturbance.filter(|_| !self.is_counted), self.began.elapsed())
    }

    fn keep_at(&mut self, disturbance: Option<Disturbance>, elapsed: Duration) -> bool {
        self.tried += 1;
        let is_disturbed = disturbance.is_some_and(|one| one.is_disturbed());
        let first = self.looks.first().copied().unwrap_or_default();
        let mean = elapsed / u32::try_from(self.tried).unwrap_or(u32::MAX);
        let missing = u32::try_from(first.saturating_sub(self.kept) + 1).unwrap_or(u32::MAX);
        let has_time = self.budget < Duration::MAX && elapsed + mean * missing < self.budget;
        if is_disturbed && has_time && self.repeated < first / 2 {
            self.repeated += 1;
            return false;
        }
        self.disturbed += usize::from(is_disturbed);
        self.kept += 1;
        true
    }

    /// Looks at the figures if it is time to: without an undecided bound there is no further round.
    pub(crate) fn look(&mut self, estimates: impl FnOnce(&Rounds) -> Vec<NamedEstimate>) {
        if self.looks.len() < 2 || !self.looks.contains(&self.kept) {
            return;
        }
        let is_undecided = |(key, estimate): &NamedEstimate| {
            let Some(estimate) = estimate else { return false };
            let bound = Bound::of(&self.experiment, key);
            bound.is_some_and(|bound| bound.judge(Some(estimate.value), Some(estimate)) == Verdict::Undecided)
        };
        if !estimates(self).iter().any(is_undecided) {
            self.stopped = Some("decided");
        }
    }

    /// The confidence of an interval. If the time was spent before the first look, there is one look only, at the end.
    fn level(&self) -> f64 {
        if self.kept < self.expected() { SINGLE } else { self.level }
    }

    /// The median of a value of each round.
    pub(crate) fn median(&self, values: &[f64]) -> Option<Estimate> {
        if self.is_counted { counted(values) } else { median(values, self.level()) }
    }

    /// The median of the ratio of two values of each round.
    pub(crate) fn ratio(&self, ours: &[f64], theirs: &[f64]) -> Option<Estimate> {
        self.median(&ratios(ours, theirs))
    }

    /// Ends the rounds: how many there were becomes part of the result.
    pub(crate) fn finish(self, run: &mut Run) {
        run.rounds.push(json!({
            "kept": self.kept,
            "repeated": self.repeated,
            "disturbed": self.disturbed,
            "seconds": self.began.elapsed().as_secs(),
            "stopped": self.stopped.unwrap_or("looks"),
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn growing(budget: u32) -> Rounds {
        let run = Run::begin("nemo/throughput", true, None);
        Rounds::new(&run, LOOKS.to_vec(), REPEATED, SECOND * budget)
    }

    /// Plays rounds of a second each with these ratios; the number of rounds and why they ended.
    fn play(mut rounds: Rounds, ratio: impl Fn(usize) -> f64) -> (usize, &'static str) {
        let mut ratios = Vec::new();
        let mut elapsed = Duration::ZERO;
        while let Some(number) = rounds.next_at(elapsed) {
            elapsed += SECOND;
            assert!(rounds.keep_at(None, elapsed));
            ratios.push(ratio(number));
            rounds.look(|rounds| vec![("roam6_over_plain_250".to_owned(), rounds.median(&ratios))]);
        }
        (rounds.kept, rounds.stopped.unwrap_or_default())
    }

    #[test]
    fn rounds_end_once_decided_or_when_the_time_is_spent_or_after_forty() {
        assert_eq!(play(growing(1000), |_| 1.4), (8, "decided"));
        assert_eq!(play(growing(1000), |_| 1.0), (8, "decided"), "missed is decided");
        let crossing = |number: usize| if number.is_multiple_of(2) { 1.1 } else { 1.3 };
        assert_eq!(play(growing(1000), crossing), (40, "looks"));
        assert_eq!(play(growing(19), crossing), (18, "time"));
        assert_eq!(play(growing(5), crossing), (6, "time"), "half as much time again for six rounds");
        assert_eq!(play(growing(3), crossing), (4, "time"));
        let mut few = growing(6);
        (1..=6).for_each(|number| assert!(few.keep_at(None, SECOND * number)));
        assert_eq!(few.median(&[1.0; 6]).map(|estimate| (estimate.level, estimate.low)), Some((SINGLE, Some(1.0))));
        let outlier = |number: usize| if number == 3 { 1.1 } else { 1.3 };
        assert_eq!(play(growing(1000), outlier), (12, "decided"));
    }

    #[test]
    fn disturbed_rounds_are_repeated_while_there_is_time() {
        let disturbed = Disturbance::of_foreign_cores(0.9);
        let mut rounds = growing(1000);
        let kept: Vec<bool> = (1..=6).map(|number| rounds.keep_at(Some(disturbed), SECOND * number)).collect();
        assert_eq!(kept, [false, false, false, false, true, true]);
        assert_eq!((rounds.repeated, rounds.disturbed, rounds.kept), (4, 2, 2));
        assert!(growing(5).keep_at(Some(disturbed), SECOND), "no time");
        let mut fixed = Rounds::fixed(&Run::begin("nemo/throughput", true, None), 6);
        assert!(fixed.keep_at(Some(disturbed), SECOND));
    }
}
