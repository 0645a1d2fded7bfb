//! Experiments that need another kernel: the same experiment runs again in a virtual machine, and its result is taken over.

use super::prelude::*;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

/// The exit status of a script that starts a virtual machine where a program is missing.
const MISSING: i32 = 77;
/// Runs an experiment, whose progress is printed as it comes, in lines and not as the bar of a terminal, and prints its result last.
const INSIDE: &str =
    "set -o pipefail; \"$@\" --json /tmp/result.json 2>&1 | cat; status=$?; echo; cat /tmp/result.json; exit $status";

/// What a virtual machine measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Measured {
    /// Instructions, with the kernel's defaults.
    Instructions,
    /// Times and losses: the kernel does not zero the memory that it allocates, and daemons start sooner.
    Times,
}

/// The result of this part of this experiment in a virtual machine; the reason, if there can be none. Its one processor has a clock that
/// counts instructions, so that times do not depend on the load of this host.
pub(super) fn run_part_again(
    run: &Run,
    part: &str,
    measured: Measured,
    limit: Duration,
) -> Result<Result<Value, String>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("the crate is in no workspace")?;
    let mut command = Command::new(root.join("scripts/vm-run"));
    command.current_dir(root).args(["-i", "-t", &limit.as_secs().to_string()]);
    command.args((measured == Measured::Times).then_some("-u"));
    command.args(["env", &format!("{}=1", clock::EMULATED_VARIABLE), "bash", "-c", INSIDE, "lab"]);
    command.arg(std::env::current_exe()?).args(["run", &run.experiment]).args(run.quick.then_some("--quick"));
    command.args(["--part", part]);
    result_of(&mut command)
}

/// The result that a script which starts a virtual machine prints; the reason, if there can be none.
pub(super) fn result_of(script: &mut Command) -> Result<Result<Value, String>> {
    let name = script.get_program().display().to_string();
    let (output, writer) = std::io::pipe()?;
    let mut child = script.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer).spawn().context(name)?;
    // Its ends of the pipe: else the output never ends.
    script.stdout(Stdio::null()).stderr(Stdio::null());
    let mut text = String::new();
    for line in BufReader::new(output).lines().map_while(Result::ok) {
        // The steps of its progress: what was done when it is cut off.
        if line.split_once('/').is_some_and(|(done, _)| done.parse::<u32>().is_ok()) {
            eprintln!("in the virtual machine: {line}");
        }
        text.push_str(&line);
        text.push('\n');
    }
    if child.wait()?.code() == Some(MISSING) {
        return Ok(Err(text.lines().last().unwrap_or_default().to_owned()));
    }
    let json = text.rfind("\n{").map_or(&*text, |begin| text.split_at(begin).1);
    serde_json::from_str(json.trim()).map(Ok).with_context(|| format!("no result: {text}"))
}

/// Adds rows, failed checks and figures of a result to those of this run.
pub(super) fn take_over(run: &mut Run, result: &Value) {
    let list = |key: &str| result.get(key).and_then(Value::as_array).cloned().unwrap_or_default();
    run.rows.extend(list("rows"));
    run.faults.extend(list("faults").iter().filter_map(|fault| fault.as_str().map(str::to_owned)));
    run.summary.extend(result.get("summary").and_then(Value::as_object).cloned().unwrap_or_default());
    run.summarise("kernel", result.pointer("/machine/kernel").cloned());
}
