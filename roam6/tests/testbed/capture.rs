//! What passes an interface: taken by tcpdump, judged by tshark.

use super::{Namespace, Running, Testbed, run, wait_for};
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// A capture by tcpdump.
pub struct Capture {
    file: PathBuf,
    tcpdump: Running,
}

impl Capture {
    /// Begins to capture everything on an interface of `place`.
    pub fn begin(testbed: &Testbed, place: &Namespace, interface: &str, name: &str) -> Capture {
        let file = testbed.file(&format!("{name}.pcap"));
        let log = testbed.file(&format!("{name}.log"));
        let words = ["tcpdump", "-U", "--immediate-mode", "-n", "-i", interface, "-w", file.to_str().unwrap(), "ip6"];
        let mut command = place.command(&words);
        let tcpdump = Running(command.stderr(File::create(&log).unwrap()).stdout(Stdio::null()).spawn().unwrap());
        wait_for("tcpdump", || fs::read_to_string(&log).unwrap().contains("listening on"));
        Capture { file, tcpdump }
    }

    /// What it has so far.
    pub fn so_far(&self) -> Dissected {
        Dissected(self.file.clone())
    }

    /// Ends the capture; its dissection by tshark.
    pub fn end(mut self) -> Dissected {
        run(Command::new("kill").args(["-INT", &self.tcpdump.0.id().to_string()]));
        self.tcpdump.0.wait().unwrap();
        Dissected(self.file)
    }
}

/// A finished capture.
pub struct Dissected(pub PathBuf);

impl Dissected {
    /// These fields of the frames that match, each with all its occurrences.
    pub fn fields(&self, filter: &str, fields: &[&str]) -> Vec<Vec<Vec<String>>> {
        let mut tshark = Command::new("tshark");
        tshark.arg("-r").arg(&self.0).args(["-n", "-Y", filter, "-T", "fields", "-E", "separator=;"]);
        tshark.args(fields.iter().flat_map(|field| ["-e", field]));
        let values = |text: &str| text.split(',').filter(|one| !one.is_empty()).map(str::to_owned).collect();
        run(&mut tshark).lines().map(|line| line.split(';').map(values).collect()).collect()
    }

    pub fn count(&self, filter: &str) -> usize {
        self.fields(filter, &["frame.number"]).len()
    }

    /// tshark dissects all packets without an error. Tunnels in UDP over IPv6, which a mobile router uses where a machine is too
    /// slow to answer its probes without UDP, have no UDP checksum (RFC 6935).
    pub fn check(&self) {
        let is_error = "_ws.expert.severity == error && !(udp.checksum.zero && udp.port == 4191)";
        let fields = ["frame.number", "frame.protocols", "_ws.expert.message"];
        let faults = self.fields(&format!("_ws.malformed || ({is_error})"), &fields);
        assert!(faults.is_empty(), "{}: {faults:?}", self.0.display());
    }
}
