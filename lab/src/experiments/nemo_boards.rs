//! P1 Figs 4 to 8: a router forwards from one network interface to the other, plainly, and as a mobile router. The routers are
//! emulated boards (scripts/measure-boards) whose clock counts instructions, so the figures do not depend on the load of
//! this machine. An instruction is not a cycle: nothing here is the speed of a device.

use crate::experiments::prelude::*;
use std::process::{Command, Stdio};

/// Measures boards; one JSON object in each line of its output.
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../scripts/measure-boards");
/// Its exit status where a program is missing.
const MISSING: i32 = 77;
/// What forwards.
const BY: [&str; 3] = ["plain", "ip6tnl", "bpf"];
/// Octets of the headers of IPv6 and UDP.
const HEADERS: u64 = 48;
/// The instructions for which packets and octets are shown.
const INSTRUCTIONS: f64 = 125e6;
/// The smallest packets of P1, octets.
const SMALLEST: u64 = 250;

/// The instructions of one packet, in the direction that takes more.
struct Cost<'a> {
    board: &'a str,
    by: &'static str,
    octets: u64,
    /// One value for each block: the board is switched on for each.
    blocks: Vec<f64>,
    /// Medians by direction: towards the mobile network, and from it.
    down_and_up: [f64; 2],
}

pub(super) fn run(run: &mut Run) -> Result<()> {
    let (boards, blocks): (&[&str], usize) =
        if run.quick { (&["mipsel", "x86_64"], 1) } else { (&["mipsel", "arm64", "x86_64"], 3) };
    run.set_steps(boards.len());
    let (mut costs, mut absent) = (Vec::new(), Vec::new());
    for board in boards {
        run.step(board);
        match measure(board, blocks, run.quick)? {
            Ok(lines) => {
                costs.extend(costs_of(board, &lines));
                run.rows.extend(lines.into_iter().filter(|line| line.get("flash_kb").is_some()));
            }
            Err(why) => absent.push(why),
        }
    }
    run.rows.extend(costs.iter().filter_map(|cost| cost.row(&costs)));
    summarise(run, &costs);
    summarise_sizes(run);
    if !absent.is_empty() {
        run.summarise("absent", absent);
    }
    Ok(())
}

/// The lines of a board; why there are none if this machine lacks something.
fn measure(board: &str, blocks: usize, quick: bool) -> Result<Result<Vec<Value>, String>> {
    let roam6 = std::env::current_exe()?.with_file_name("roam6");
    let mut script = Command::new(SCRIPT);
    script.args(quick.then_some("-q")).args(["-n", &blocks.to_string(), board]).env("ROAM6", roam6);
    let output = script.stdin(Stdio::null()).output().context(SCRIPT)?;
    let (text, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if output.status.code() == Some(MISSING) {
        return Ok(Err(format!("{board}: {}", errors.lines().last().unwrap_or_default())));
    }
    ensure!(output.status.success(), "{board}: {}{text}", errors);
    let lines = text.lines().map(serde_json::from_str).collect::<Result<_, _>>();
    Ok(Ok(lines.with_context(|| format!("{board}: not JSON: {text}"))?))
}

fn costs_of<'a>(board: &'a str, lines: &[Value]) -> Vec<Cost<'a>> {
    let number = |line: &Value, key: &str| line.get(key).and_then(Value::as_f64);
    let of = |by: &str, octets: u64, upward: bool| -> Vec<f64> {
        let wanted = [("by", json!(by)), ("octets", json!(octets)), ("upward", json!(upward))];
        let fits = |line: &&Value| wanted.iter().all(|(key, value)| line.get(*key) == Some(value));
        lines.iter().filter(fits).filter_map(|line| number(line, "instructions")).collect()
    };
    let mut sizes: Vec<u64> = lines.iter().filter_map(|line| line.get("octets")?.as_u64()).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let mut costs = Vec::new();
    for (by, octets) in BY.iter().flat_map(|by| sizes.iter().map(move |octets| (*by, *octets))) {
        let directions = [of(by, octets, false), of(by, octets, true)];
        let [Some(down), Some(up)] = directions.each_ref().map(|values| percentile(values, 0.5)) else { continue };
        let [down_blocks, up_blocks] = directions;
        let blocks = if down > up { down_blocks } else { up_blocks };
        costs.push(Cost { board, by, octets, blocks, down_and_up: [down, up] });
    }
    costs
}

impl Cost<'_> {
    /// Instructions a packet.
    fn instructions(&self) -> f64 {
        let [down, up] = self.down_and_up;
        down.max(up)
    }

    /// Packets of the same board and size for the same instructions, over those that this one takes.
    fn packets_over(&self, by: &str, all: &[Cost<'_>]) -> Option<f64> {
        let is_other = |other: &&Cost<'_>| (other.board, other.by, other.octets) == (self.board, by, self.octets);
        Some(all.iter().find(is_other)?.instructions() / self.instructions())
    }

    /// Mbit of UDP payload for so many instructions.
    fn payload_mbit(&self) -> f64 {
        INSTRUCTIONS / self.instructions() * (self.octets.saturating_sub(HEADERS) * 8) as f64 / 1e6
    }

    /// The widest range of the blocks over their median, percent.
    fn spread(&self) -> Option<f64> {
        let (least, most) = (percentile(&self.blocks, 0.0)?, percentile(&self.blocks, 1.0)?);
        (self.blocks.len() > 1).then(|| (most - least) / self.instructions() * 100.0)
    }

    fn row(&self, all: &[Cost<'_>]) -> Option<Value> {
        let ([down, up], plain) = (self.down_and_up, self.packets_over("plain", all)?);
        let below = self.packets_over("ip6tnl", all).filter(|_| self.by == "bpf");
        Some(json!({
            "board": self.board, "by": self.by, "octets": self.octets, "blocks": self.blocks,
            "instructions": self.instructions(), "instructions_down": down, "instructions_up": up,
            "kilo_packets": round(INSTRUCTIONS / self.instructions() / 1000.0),
            "percent_of_plain": round(plain * 100.0), "cost_percent": round((1.0 - plain) * 100.0),
            "below_reference_percent": below.map(|over| round((1.0 - over) * 100.0)),
            "payload_mbit": round(self.payload_mbit()),
        }))
    }
}

fn summarise(run: &mut Run, costs: &[Cost<'_>]) {
    let mean = |values: Vec<f64>| (!values.is_empty()).then(|| round(values.iter().sum::<f64>() / values.len() as f64));
    let of = |board: &str, by: &str| -> Vec<&Cost<'_>> {
        costs.iter().filter(|one| (one.board, one.by) == (board, by)).collect()
    };
    let mut boards: Vec<&str> = costs.iter().map(|one| one.board).collect();
    boards.dedup();
    for board in boards {
        let figures = [("ip6tnl", "plain", "nemo_cost_percent"), ("bpf", "ip6tnl", "roam6_below_reference_percent")];
        for (by, other, key) in figures {
            let percent = |one: &&Cost<'_>| Some((1.0 - one.packets_over(other, costs)?) * 100.0);
            let by_size = of(board, by);
            let smallest = by_size.iter().find(|one| one.octets == SMALLEST).and_then(percent).map(round);
            if let Some(mean) = mean(by_size.iter().filter_map(percent).collect()) {
                run.summarise(&format!("{key}_{board}"), mean);
                run.summarise(&format!("{key}_{board}_{SMALLEST}"), smallest);
            }
        }
        let payload = of(board, "ip6tnl").into_iter().map(Cost::payload_mbit);
        run.summarise(&format!("payload_mbit_{board}_max"), percentile(payload, 1.0).map(round));
    }
    // Plain routing: how many more packets the same instructions route on the PC.
    let on_pc = |one: &&Cost<'_>| {
        let pc = of("x86_64", "plain").into_iter().find(|pc| pc.octets == one.octets)?;
        Some((1.0 - pc.instructions() / one.instructions()) * 100.0)
    };
    let below = mean(of("mipsel", "plain").iter().filter_map(on_pc).collect());
    run.summarise("mipsel_below_pc_for_the_same_instructions_percent", below);
    if let Some(spread) = percentile(costs.iter().filter_map(Cost::spread), 1.0) {
        run.summarise("repeat_spread_percent", round(spread));
    }
}

/// Flash, and memory of the daemon, of each board: the largest of all blocks.
fn summarise_sizes(run: &mut Run) {
    let mut sizes = std::collections::BTreeMap::new();
    for row in &run.rows {
        let Some(board) = row.get("board").and_then(Value::as_str) else { continue };
        for key in ["flash_kb", "peak_kb"] {
            let Some(size) = row.get(key).and_then(Value::as_f64) else { continue };
            let largest: &mut f64 = sizes.entry(format!("{key}_{board}")).or_default();
            *largest = largest.max(size);
        }
    }
    sizes.into_iter().for_each(|(key, size)| run.summarise(&key, size));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_are_those_of_the_slower_direction() {
        let line = |by: &str, upward: bool, instructions: u64| json!({ "board": "mipsel", "by": by, "octets": 250, "upward": upward, "instructions": instructions });
        let lines = [
            line("plain", true, 10_000),
            line("plain", false, 9000),
            line("ip6tnl", true, 12_000),
            line("ip6tnl", false, 19_800),
            line("ip6tnl", false, 20_200),
            line("ip6tnl", false, 20_000),
            json!({ "board": "mipsel", "flash_kb": 2952 }),
        ];
        let costs = costs_of("mipsel", &lines);
        let [plain, tunnel] = costs.as_slice() else { panic!("{}", costs.len()) };
        assert_eq!((plain.instructions(), tunnel.instructions(), tunnel.spread()), (10_000.0, 20_000.0, Some(2.0)));
        let row = tunnel.row(&costs).unwrap();
        assert_eq!((row["cost_percent"].as_f64(), row["kilo_packets"].as_f64()), (Some(50.0), Some(6.25)));
        assert_eq!(row["payload_mbit"], json!(10.1), "6250 packets of 202 octets");
        assert_eq!(plain.spread(), None, "one block");
    }
}
