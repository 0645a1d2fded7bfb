//! The paper's delay equations and measured delays: processing terms are measured on the same networks without link
//! delay, path terms are the configured link delays (document P2, equations 1 to 5).

use crate::experiments::prelude::*;
use crate::mptcp::model::Scenario;
use crate::mptcp::{AttachmentPoint, LinkShape, MptcpTestbed};
use std::collections::BTreeMap;

/// Links without delay.
const NEAR: LinkShape = LinkShape { delay: Duration::ZERO, extra_delay: Duration::ZERO, ..LinkShape::PAPER };

/// Round trips of one scenario, milliseconds.
#[derive(Debug, Default)]
struct RoundTrips {
    near: Vec<f64>,
    far: Vec<f64>,
}

pub(super) fn run(run: &mut Run) -> Result<()> {
    let repetitions = if run.quick { 6 } else { 10 };
    run.set_steps(Scenario::ALL.len() * repetitions * 2);
    let shape = LinkShape::PAPER.lossless();
    let testbed = MptcpTestbed::build(shape)?;
    testbed.plug(0, AttachmentPoint::Home)?;
    testbed.wait_home_path()?;
    let mut all: BTreeMap<Scenario, RoundTrips> = BTreeMap::new();
    for place in [
        &[Scenario::Ns0][..],
        &[Scenario::Classical(0), Scenario::Direct(0)],
        &[Scenario::Classical(1), Scenario::Direct(1)],
    ] {
        if let Some(Scenario::Classical(number)) = place.first() {
            testbed.unplug(0)?;
            testbed.visit(*number)?;
        }
        for _ in 0..repetitions {
            for far in [false, true] {
                testbed.set_link_shape(if far { shape } else { NEAR.lossless() });
                for scenario in place {
                    run.step(&scenario.name());
                    let time = testbed.round_trip(scenario.direct(), 20)?;
                    let times = all.entry(*scenario).or_default();
                    if far { times.far.push(time) } else { times.near.push(time) }
                }
            }
        }
    }
    let mut errors = Vec::new();
    for (number, scenario) in Scenario::ALL.iter().enumerate() {
        let times = all.get(scenario).context("not measured")?;
        let middle = |times: &[f64]| percentile(times, 0.5).context("no echo was answered");
        let (processing, measured) = (middle(&times.near)?, middle(&times.far)?);
        let path = scenario.link_delay(shape).as_secs_f64() * 1000.0;
        let error_of = |measured: f64, processing: f64| (measured - path - processing) / measured * 100.0;
        let error = error_of(measured, processing);
        let each = times.far.iter().zip(&times.near).map(|(far, near)| error_of(*far, *near).abs());
        errors.extend(median(&each.collect::<Vec<_>>(), LEVEL));
        run.rows.push(json!({
            "equation": number + 1,
            "scenario": scenario.name(),
            "terms": scenario.equation(),
            "path_ms": round(path),
            "processing_ms": round(processing),
            "model_ms": round(path + processing),
            "measured_ms": distribution(&times.far),
            "error_percent": round(error),
        }));
    }
    let processing = |scenario| all.get(&scenario).and_then(|times| percentile(&times.near, 0.5));
    for number in 0..2 {
        let tunnel = processing(Scenario::Classical(number)).zip(processing(Scenario::Direct(number)));
        run.summarise(&format!("tunnel_ms_fn{}", number + 1), tunnel.map(|(with, without)| round(with - without)));
    }
    // The remaining error is the latency of the testbed's timers.
    run.estimate("model_error_percent_max", Estimate::most(errors));
    run.require_bound("model_error_percent_max");
    Ok(())
}
