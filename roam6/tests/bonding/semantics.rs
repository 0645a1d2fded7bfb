//! Relayed connections compared with those through the tunnel, case by case.

use crate::bed::{Bed, SERVER, reset};
use std::io::{Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

/// What hosts do with a connection: steps of the node (`n`) and of the server (`s`), such as `n>text`, which writes, `s<4`, which
/// reads so many octets, `s<`, which reads to the end, `n|`, which ends its direction, `n.`, which closes, `n!`, which resets, `~`,
/// which waits for what is on the way, `n*500000`, which writes as many while the other end reads them, `n'300`, which writes as
/// many one by one, and `n?`, which tells the pending error.
const CASES: [&str; 42] = [
    "n>hello s<5",
    "s>hello n<5",
    "n>a s<1 s>b n<1 n>c s<1",
    "n>question s<8 s>answer n<6 n. s<",
    "n| s<",
    "s| n<",
    "n| s< s>later n<5",
    "s| n< n>later s<5",
    "n>data n| s<",
    "s>data s| n<",
    "n>data n. s<",
    "s>data s. n<",
    "n| s| n< s<",
    "n>x n| s>y s| n< s<",
    "n| s< s>late s. n<",
    "s| n< n>late n. s<",
    "n! ~ s<",
    "s! ~ n<",
    "n>x s<1 n! ~ s<",
    "s>x n<1 s! ~ n<",
    "n>unread ~ s! ~ n<",
    "s>unread ~ n! ~ s<",
    "n>unread ~ s. ~ n<",
    "s>unread ~ n. ~ s<",
    "n| s< s! ~ n<",
    "s| n< n! ~ s<",
    "n! ~ s>x ~ s?",
    "s! ~ n>x ~ n?",
    "s. ~ n>x ~ n>y ~ n?",
    "n. ~ s>x ~ s>y ~ s?",
    "n*3000000 n| s<",
    "s*3000000 s| n<",
    "n*1000000 s*1000000 n| s| n< s<",
    "n*100000 s<0 n! ~ s<",
    "n'300 s<300",
    "s'300 n<300",
    "n'100 s<50 s<50 s'100 n<100 n. s<",
    "n>x ~ ~ ~ n>y s<2",
    "~ ~ n>x s<1 ~ ~ s>y n<1",
    "s>banner n<6 n>user s<4 s>ok n<2 n>quit s<4 s. n<",
    "n>GET n| s< s*500000 s. n<",
    "n. s< s| ~ s?",
];

/// What one end sees of a step.
fn perform(step: &str, mut own: &TcpStream, mut other: &TcpStream) -> String {
    let kind = |error: std::io::Error| format!("{:?}", error.kind());
    let (act, rest) = step.split_at(1);
    let count = || rest.parse::<usize>().unwrap();
    match (act, rest) {
        (">", text) => own.write_all(text.as_bytes()).map_or_else(kind, |()| "written".to_owned()),
        ("<", "") => {
            let mut octets = Vec::new();
            let ended = own.read_to_end(&mut octets).map_or_else(kind, |_| "end".to_owned());
            format!("{} octets, {ended}", octets.len())
        }
        ("<", _) => {
            let mut octets = vec![0; count()];
            own.read_exact(&mut octets).map_or_else(kind, |()| String::from_utf8_lossy(&octets).into_owned())
        }
        ("'", _) => {
            let write = |_| own.write_all(b"x");
            (0..count()).try_for_each(write).map_or_else(kind, |()| "written one by one".to_owned())
        }
        ("*", _) => std::thread::scope(|scope| {
            let data: Vec<u8> = (0..count()).map(|at| (at % 251) as u8).collect();
            let expected = data.clone();
            let writer = scope.spawn(move || own.write_all(&data).is_ok());
            let mut octets = vec![0; expected.len()];
            let arrived = other.read_exact(&mut octets).is_ok() && octets == expected;
            format!("{} {arrived}", writer.join().unwrap())
        }),
        ("|", _) => own.shutdown(Shutdown::Write).map_or_else(kind, |()| "ended".to_owned()),
        ("?", _) => format!("{:?}", own.take_error().unwrap().map(|error| error.kind())),
        other => panic!("{other:?}"),
    }
}

/// What both ends see of a case.
fn outcome(bed: &Bed, case: &str, to: SocketAddr) -> Vec<String> {
    let (node, server) = bed.connect_to(to);
    let mut ends = [Some(node), Some(server)];
    let mut seen = Vec::new();
    for step in case.split(' ') {
        let (who, step) = step.split_at(1);
        let at = usize::from(who == "s");
        match step {
            "" => std::thread::sleep(Duration::from_millis(300)),
            "." => drop(ends[at].take()),
            "!" => ends[at].take().into_iter().for_each(reset),
            _ => {
                // The other end may have closed: what it would see is not looked at.
                let own = ends[at].as_ref().unwrap();
                seen.push(perform(step, own, ends[1 - at].as_ref().unwrap_or(own)));
            }
        }
    }
    seen
}

/// Each case with and without relays, to this server.
fn compare(bed: &Bed, server: &str) {
    let address: IpAddr = server.parse().unwrap();
    let mut differ = Vec::new();
    for (case, port) in CASES.iter().zip(6500_u16..) {
        let [relayed, plain] = [port, port - 1000].map(|port| outcome(bed, case, SocketAddr::new(address, port)));
        if relayed != plain {
            differ.push(format!("{case}: {relayed:?}, without relays {plain:?}"));
        }
    }
    let relayed = bed.flows()["counters"]["relayed"].as_u64().unwrap_or(0);
    assert!(relayed >= CASES.len() as u64, "{relayed} connections were relayed: {}", bed.flows());
    assert!(differ.is_empty(), "{}", differ.join("\n"));
}

#[test]
fn relayed_connections_behave_as_those_through_the_tunnel() {
    let test = "relayed_connections_behave_as_those_through_the_tunnel";
    let Some(bed) = Bed::new(test) else { return println!("skipped: {test}") };
    compare(&bed, SERVER);
}

#[test]
fn relayed_ipv4_connections_behave_as_those_through_the_tunnel() {
    let test = "relayed_ipv4_connections_behave_as_those_through_the_tunnel";
    let Some(bed) = Bed::with_ipv4(test) else { return println!("skipped: {test}") };
    compare(&bed, "198.51.100.9");
}
