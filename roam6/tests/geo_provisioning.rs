//! The real binary as a station that gets its certificates from a PKI, and as the PKI (ETSI TS 102 941).

#![cfg(feature = "geo-security")]
#![allow(clippy::disallowed_methods, reason = "it waits for real processes")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a test fails at the assertion")]

mod testbed;

use p256::ecdsa::signature::Signer;
use p256::ecdsa::{Signature, SigningKey};
use p256::pkcs8::DecodePrivateKey;
use roam6_wire::security::{Certificate, Message, Psid, SignerField, UnsignedData};
use serde_json::Value;
use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};
use testbed::pki::{Pki, refusal};
use testbed::{BINARY, run};

fn lab(folder: &Path) -> Pki {
    run(Command::new(BINARY).args(["geo", "cert", "make"]).arg(folder.join("lab")));
    Pki::start(&folder.join("lab"))
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

/// A CAM's envelope, signed with a ticket.
fn signed_cam(ticket: &Path) -> Vec<u8> {
    let octets = fs::read(ticket).unwrap();
    let key = fs::read_to_string(ticket.with_extension("key")).unwrap();
    let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros() as u64;
    let data = UnsignedData::new(b"a CAM", Psid::CAM, unix - (1_072_915_200 - 5) * 1_000_000).to_be_signed();
    let message = Message::of_data(&data, &Certificate::parse(&octets).unwrap());
    let signature: Signature = SigningKey::from_pkcs8_pem(&key).unwrap().sign(message.octets());
    let (r, s) = signature.split_bytes();
    UnsignedData::emit(&data, SignerField::Certificate(&octets), (r.into(), s.into()))
}

#[test]
fn a_station_enrols_gets_tickets_and_signs_with_them() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let pki = lab(folder.path());
    let key = pki.register("car-1");
    let enrolled = json(&run(pki.enrol(&path("ec")).args(["--station", "car-1"]).arg("--key").arg(&key)));
    assert_eq!(enrolled["permissions"], json("[\"623 (certificate request)\"]"));
    let verify = |files: &[&str]| {
        run(Command::new(BINARY).args(["geo", "cert", "verify"]).args(files.iter().map(|name| path(name))))
    };
    verify(&["ec/ec.cert", "lab/ea.cert", "lab/root.cert"]);

    let tickets = json(&run(&mut pki.authorize(&path("ec"), &path("tickets"), 3)));
    let tickets: Vec<&Value> = tickets.as_array().unwrap().iter().collect();
    assert_eq!(tickets.len(), 3);
    let more = ["--permission", "36:01fffc", "--hours", "2"];
    let more = json(&run(pki.authorize(&path("ec"), &path("tickets"), 1).args(more)));
    assert!(more[0]["certificate"].as_str().unwrap().ends_with("tickets/at-04.cert"));
    assert_eq!(more[0]["permissions"], json("[\"36 (CAM)\"]"));
    for number in 1..=4 {
        let name = format!("tickets/at-0{number}.cert");
        verify(&[&name, "lab/aa.cert", "lab/root.cert"]);
        let mode = fs::metadata(path(&name).with_extension("key")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        fs::write(path("cam"), signed_cam(&path(&name))).unwrap();
        let shown = run(Command::new(BINARY).args(["geo", "cert", "show"]).arg(path("cam")));
        assert!(shown.contains("packet of service 36 (CAM)") && shown.contains("signature    valid"), "{shown}");
    }
    let digests: std::collections::BTreeSet<&str> =
        tickets.iter().map(|ticket| ticket["digest"].as_str().unwrap()).collect();
    assert_eq!(digests.len(), 3, "each has a key of its own");

    let former = fs::read(path("ec/ec.cert")).unwrap();
    let renewed = json(&run(pki.enrol(&path("ec")).arg("--renew")));
    assert_ne!(renewed["digest"], enrolled["digest"]);
    assert_ne!(fs::read(path("ec/ec.cert")).unwrap(), former);
    run(&mut pki.authorize(&path("ec"), &path("tickets"), 1));
    let mode = fs::metadata(path("ec/ec.key")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn what_is_wrong_is_said_with_its_cure() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let pki = lab(folder.path());
    let (key, other_key) = (pki.register("car-1"), pki.register("car-2"));
    let enrol = |station: &str, key: &Path, ec: &str| {
        let mut command = pki.enrol(&path(ec));
        command.args(["--station", station]).arg("--key").arg(key);
        command
    };
    let unknown = refusal(&mut enrol("car-3", &key, "ec"));
    assert!(unknown.contains("\"unknownits\"") && unknown.contains("have the station registered"), "{unknown}");
    let wrong = refusal(&mut enrol("car-1", &other_key, "ec"));
    assert!(wrong.contains("\"invalidsignature\"") && wrong.contains("use the private key"), "{wrong}");
    assert!(!path("ec").exists(), "nothing is written without a credential");
    let no_key = refusal(&mut pki.authorize(&path("ec"), &path("tickets"), 1));
    assert!(no_key.contains("get one with roam6 geo cert enrol"), "{no_key}");
    run(&mut enrol("car-1", &key, "ec"));
    let again = refusal(&mut enrol("car-1", &key, "ec"));
    assert!(again.contains("renew it with --renew"), "{again}");

    let denied = refusal(pki.authorize(&path("ec"), &path("tickets"), 1).args(["--permission", "139"]));
    assert!(denied.contains("its-aa-deniedpermissions") && denied.contains("ask for less"), "{denied}");
    let to_ea = Pki { aa: pki.ea.clone(), ..Pki::start(&pki.lab) };
    let confused = refusal(&mut to_ea.authorize(&path("ec"), &path("tickets"), 1));
    assert!(confused.contains("encrypted for somebody else"), "{confused}");
    let not_ea = refusal(
        Command::new(BINARY)
            .args(["geo", "cert", "authorize", "--aa", &pki.aa, "--aa-cert"])
            .arg(path("lab/aa.cert"))
            .arg("--ea-cert")
            .arg(path("lab/root.cert"))
            .arg("--credential")
            .arg(path("ec/ec.cert"))
            .arg(path("tickets")),
    );
    assert!(not_ea.contains("not that of a root"), "{not_ea}");
    // The authority has forgotten the credential.
    fs::remove_dir_all(path("lab/credentials")).unwrap();
    let forgotten = refusal(&mut pki.authorize(&path("ec"), &path("tickets"), 1));
    assert!(forgotten.contains("\"unknownits\"") && forgotten.contains("enrol again"), "{forgotten}");
    let forgotten = refusal(pki.enrol(&path("ec")).arg("--renew"));
    assert!(forgotten.contains("\"unknownits\""), "{forgotten}");
    assert_eq!(fs::read_dir(path("tickets")).unwrap().count(), 0);
}

/// Passes one exchange on to `to`, with the response changed; where it takes requests.
fn between(to: &str, change: impl FnOnce(Vec<u8>) -> Vec<u8> + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let rest = to.strip_prefix("http://").unwrap();
    let (server, path) = rest.split_once('/').unwrap();
    let url = format!("http://{}/{path}", listener.local_addr().unwrap());
    let server = server.to_owned();
    thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        let mut far = TcpStream::connect(server).unwrap();
        let mut request = vec![0; 65_536];
        let mut length = 0;
        // The request says how long it is.
        while !is_complete(&request[..length]) {
            length += client.read(&mut request[length..]).unwrap();
        }
        far.write_all(&request[..length]).unwrap();
        let mut response = Vec::new();
        far.read_to_end(&mut response).unwrap();
        // The client may leave before it has all.
        let _ = client.write_all(&change(response));
        let _ = client.shutdown(Shutdown::Both);
    });
    url
}

fn is_complete(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request);
    let Some((head, _)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: ")).unwrap();
    request.len() >= head.len() + 4 + length.parse::<usize>().unwrap()
}

#[test]
fn responses_that_were_changed_on_the_way_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let pki = lab(folder.path());
    let key = pki.register("car-1");
    let enrol = |change: fn(Vec<u8>) -> Vec<u8>| {
        let ea = between(&pki.ea, change);
        let man_in_the_middle = Pki { ea, ..Pki::start(&pki.lab) };
        refusal(man_in_the_middle.enrol(&path("ec")).args(["--station", "car-1"]).arg("--key").arg(&key))
    };
    let tampered = enrol(|mut response| {
        *response.last_mut().unwrap() ^= 1;
        response
    });
    assert!(tampered.contains("cannot be decrypted"), "{tampered}");
    let endless = enrol(|_| [&b"HTTP/1.1 200 OK\r\n\r\n"[..], &vec![0; 1_000_000]].concat());
    assert!(endless.contains("at most 8192 octets"), "{endless}");
    let empty = enrol(|_| Vec::new());
    assert!(empty.contains("no HTTP response"), "{empty}");
    assert!(!path("ec").exists());
}

#[test]
fn an_authority_answers_no_request_that_is_too_long_and_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let pki = lab(folder.path());
    let server = pki.ea.strip_prefix("http://").unwrap().split('/').next().unwrap();
    let ask = |request: &[u8]| {
        let mut stream = TcpStream::connect(server).unwrap();
        // The server may close the connection before it has all.
        let _ = stream.write_all(request);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    };
    let head = "POST /enrolment HTTP/1.1\r\nContent-Type: application/x-its-request\r\nContent-Length:";
    assert!(ask(format!("{head} 8193\r\n\r\n").as_bytes()).starts_with("HTTP/1.1 400"));
    assert!(ask(format!("{head} 4\r\n\r\n\x03\x02\x01\x01").as_bytes()).starts_with("HTTP/1.1 400"));
    assert!(ask(b"GET /enrolment HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 400"));
    let _idle: Vec<TcpStream> = (0..4).map(|_| TcpStream::connect(server).unwrap()).collect();
    pki.provide("car-1", &folder.path().join("car-1"), 1);
}
