//! A transfer by TCP.

use super::{Namespace, Running, Testbed};
use std::io::Read;

/// Sends so many octets from one host to an address of another. Returns how many have arrived.
pub fn transfer(from: &Namespace, to: &Namespace, address: &str, octets: usize) -> usize {
    let serve = "import socket,sys; s=socket.create_server(('::',7000),family=socket.AF_INET6); print('up',flush=True); \
                 c,_=s.accept(); c.settimeout(20); n=0\nwhile n<int(sys.argv[1]):\n  d=c.recv(65536)\n  n+=len(d)\n  \
                 if not d: break\nprint(n,flush=True)";
    let send = "import socket,sys,time; s=socket.create_connection((sys.argv[2],7000),20); s.settimeout(20); \
                s.sendall(b'x'*int(sys.argv[1])); time.sleep(1)";
    let count = octets.to_string();
    let mut server = to.command(&["timeout", "60", "python3", "-c", serve, &count]);
    let mut server = Running(server.stdout(std::process::Stdio::piped()).spawn().unwrap());
    let mut output = server.0.stdout.take().unwrap();
    let mut ready = [0; 3];
    output.read_exact(&mut ready).unwrap();
    let _client = from.start(&["timeout", "60", "python3", "-c", send, &count, address]);
    let mut text = String::new();
    output.read_to_string(&mut text).unwrap();
    text.trim().parse().unwrap_or_default()
}

/// A transfer between the node of the mobile network and the correspondent, in each direction.
pub fn transfer_both_ways(testbed: &Testbed) {
    const OCTETS: usize = 1_000_000;
    let (node, agent) = (&testbed.node, &testbed.agent);
    assert_eq!(transfer(agent, node, "2001:db8:100::2", OCTETS), OCTETS);
    assert_eq!(transfer(node, agent, "2001:db8:9::9", OCTETS), OCTETS);
}
