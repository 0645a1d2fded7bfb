//! The store of a fleet, against a real etcd in a network namespace of its own.

#![cfg(feature = "fleet")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test")]
#![allow(clippy::disallowed_methods, reason = "it waits for another program")]

mod netns;

use etcd_client::{Client, Compare, CompareOp, GetOptions, PutOptions, Txn, TxnOp};
use netns::Namespace;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use roam6_linux::fleet::{
    FleetOptions, Mark, Store, StoreEvent, StoreOptions, Stored, Write, Written, copy_file, restore,
};
use roam6_linux::{Host, HostEvent, HostOptions};
use roam6_proto::base::ids::PutId;
use roam6_proto::contract::fleet::{Commit, FleetEvent, MemberState, StoreFault};
use roam6_proto::contract::item::{Announcement, FleetRecord, Revision};
use roam6_proto::{Input, Item, Key, Output, Put};
use roam6_wire::HomeAddress;
use std::future::Future;
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const ENDPOINT: &str = "http://[::1]:2379";
/// Longer than anything takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A store of one node.
struct Etcd {
    child: Child,
    arguments: Vec<String>,
    directory: tempfile::TempDir,
}

impl Etcd {
    /// Starts it in a new namespace. `None`, with the reason printed, where that is not possible.
    fn start(test: &str, arguments: &[&str]) -> Option<(Etcd, Namespace)> {
        if Command::new("etcd").arg("--version").stdout(Stdio::null()).status().is_err() {
            println!("skipped: {test}: no etcd; install etcd-server");
            return None;
        }
        let namespace = Namespace::enter_new(test)?;
        let directory = tempfile::tempdir().unwrap();
        let arguments: Vec<String> = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        let child = Etcd::spawn(&directory, &arguments);
        Some((Etcd { child, arguments, directory }, namespace))
    }

    fn spawn(directory: &tempfile::TempDir, arguments: &[String]) -> Child {
        let peer = "http://[::1]:2380";
        let mut command = Command::new("etcd");
        command.args(["--listen-client-urls", ENDPOINT, "--advertise-client-urls", ENDPOINT]);
        command.args(["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer]);
        command.args(["--initial-cluster", "default=http://[::1]:2380", "--logger", "zap", "--log-level", "error"]);
        command.arg("--data-dir").arg(directory.path().join("data")).args(arguments);
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let until = Instant::now() + PATIENCE;
        while TcpStream::connect("[::1]:2379").is_err() {
            assert!(Instant::now() < until, "etcd does not start");
            std::thread::sleep(Duration::from_millis(10));
        }
        child
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), signal).unwrap();
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    fn restart(&mut self) {
        self.child = Etcd::spawn(&self.directory, &self.arguments);
    }

    fn wipe(&self) {
        std::fs::remove_dir_all(self.directory.path().join("data")).unwrap();
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Does something with the store as its operator would.
fn operate<T, F: Future<Output = Result<T, etcd_client::Error>>>(work: impl Fn(Client) -> F) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let until = Instant::now() + PATIENCE;
        loop {
            let done = async { work(Client::connect([ENDPOINT], None).await?).await }.await;
            match done {
                Ok(done) => return done,
                Err(error) if Instant::now() > until => panic!("{error}"),
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
    })
}

fn put(key: &'static str, value: &'static str) {
    operate(|mut client| async move { client.put(key, value, None).await });
}

fn options(member: &str) -> StoreOptions {
    StoreOptions {
        fleet: "north".to_owned(),
        member: member.to_owned(),
        endpoints: vec!["http://[::1]:1".to_owned(), ENDPOINT.to_owned()],
        credentials: None,
        identity: "home agent 2001:db8::1".to_owned(),
        encryption: None,
        copy: None,
    }
}

/// A member, and the events it has received.
struct Member {
    store: Store<StoreEvent>,
    events: Vec<StoreEvent>,
}

impl Member {
    fn start(options: StoreOptions) -> Member {
        Member { store: Store::start(options, Some).unwrap(), events: Vec::new() }
    }

    /// Waits for an event, and forgets those before it.
    fn await_event<T>(&mut self, what: &str, wanted: impl Fn(&StoreEvent) -> Option<T>) -> T {
        let until = Instant::now() + PATIENCE;
        loop {
            self.events.extend(self.store.take(100));
            if let Some((place, found)) =
                self.events.iter().enumerate().find_map(|(place, event)| Some((place, wanted(event)?)))
            {
                self.events.drain(..=place);
                return found;
            }
            assert!(Instant::now() < until, "{what}: {:?}", self.events);
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn await_connected(&mut self) -> Mark {
        self.await_event("connected", |event| match event {
            StoreEvent::Connected { store, head, .. } => Some(Mark { store: *store, revision: *head }),
            _ => None,
        })
    }

    fn await_fault(&mut self) -> StoreFault {
        self.await_event("fault", |event| match event {
            StoreEvent::Fault(fault) => Some(fault.clone()),
            _ => None,
        })
    }

    fn await_changed(&mut self, key: &str) -> Stored {
        self.await_event(key, |event| match event {
            StoreEvent::Changed(stored) if stored.key == key => Some(stored.clone()),
            _ => None,
        })
    }

    fn await_heartbeat(&mut self) -> u64 {
        self.await_event("heartbeat", |event| match event {
            StoreEvent::Head { revision, heartbeat: Some(_) } => Some(*revision),
            _ => None,
        })
    }

    /// The answer to a write that was handed over before.
    fn answer(&mut self, ticket: u64) -> Written {
        self.await_event("answer", |event| match event {
            StoreEvent::Written { id, written, .. } if id.number == ticket => Some(written.clone()),
            _ => None,
        })
    }

    fn write(&mut self, write: Write) -> Written {
        let ticket = write.id.number;
        self.store.write(write).unwrap();
        self.answer(ticket)
    }
}

fn write(ticket: u64, key: &str, expected: u64) -> Write {
    let value = Some(format!("value {ticket}").into_bytes());
    Write {
        id: PutId { role: 0, number: ticket },
        key: key.to_owned(),
        value,
        expected,
        claims: Vec::new(),
        releases: Vec::new(),
    }
}

fn kept(written: Written) -> u64 {
    match written {
        Written::Kept(revision) => revision,
        other => panic!("{other:?}"),
    }
}

#[test]
fn write_takes_effect_only_at_the_expected_revision() {
    let Some((_etcd, _namespace)) = Etcd::start("conditional writes", &[]) else { return };
    let (mut one, mut other) = (Member::start(options("ha1")), Member::start(options("ha2")));
    one.await_connected();
    other.await_connected();
    let first = kept(one.write(write(1, "b/a", 0)));
    let received = other.await_changed("b/a");
    assert_eq!(received, Stored { key: "b/a".to_owned(), value: Some(b"value 1".to_vec()), revision: first });
    // A late write of what another has changed since.
    assert_eq!(other.write(write(2, "b/a", 0)), Written::Conflict(received.clone()));
    let second = kept(other.write(write(3, "b/a", first)));
    assert!(second > first);
    // One conflict among a hundred does not fail the others, whichever transaction they were in.
    for ticket in 100..200 {
        let key = if ticket == 150 { "b/a".to_owned() } else { format!("b/{ticket}") };
        one.store.write(write(ticket, &key, 0)).unwrap();
    }
    let mut kept_ones = 0;
    for _ in 100..200 {
        let (ticket, written) = one.await_event("answer", |event| match event {
            StoreEvent::Written { id, written, .. } => Some((id.number, written.clone())),
            _ => None,
        });
        match written {
            Written::Kept(_) => kept_ones += 1,
            Written::Conflict(stored) => assert_eq!((ticket, stored.revision), (150, second)),
            written => panic!("{ticket}: {written:?}"),
        }
    }
    assert_eq!(kept_ones, 99);
    // Deletion.
    let gone = Write { value: None, ..write(4, "b/a", second) };
    let deleted = kept(one.write(gone.clone()));
    let received = other.await_event("deletion", |event| match event {
        StoreEvent::Changed(stored) if stored.key == "b/a" && stored.value.is_none() => Some(stored.revision),
        _ => None,
    });
    assert_eq!(received, deleted);
    assert!(matches!(one.write(gone), Written::Conflict(stored) if stored.value.is_none()));
}

#[test]
fn prefix_of_the_pool_has_one_owner() {
    let Some((_etcd, _namespace)) = Etcd::start("claims", &[]) else { return };
    let (mut one, mut other) = (Member::start(options("ha1")), Member::start(options("ha2")));
    one.await_connected();
    other.await_connected();
    let claim = |ticket, home: &str, expected| Write {
        claims: vec![("pool/192.0.2.1".to_owned(), home.as_bytes().to_vec())],
        ..write(ticket, &format!("b/{home}"), expected)
    };
    let first = kept(one.write(claim(1, "a", 0)));
    let Written::Claimed(stored) = other.write(claim(2, "b", 0)) else { panic!("claimed twice") };
    assert_eq!((stored.key.as_str(), stored.value), ("pool/192.0.2.1", Some(b"a".to_vec())));
    // Its own claim is no obstacle to another member.
    let second = kept(other.write(claim(3, "a", first)));
    let release = Write { releases: vec!["pool/192.0.2.1".to_owned()], ..write(4, "b/a", second) };
    kept(one.write(release));
    kept(other.write(claim(5, "b", 0)));
    // Too much for one transaction is refused before it is sent.
    let claims = (0..40).map(|number| (format!("pool/{number}"), Vec::new())).collect();
    assert!(one.store.write(Write { claims, ..write(6, "b/c", 0) }).is_err());
    assert!(one.store.write(Write { value: Some(vec![b' '; 100_000]), ..write(7, "b/c", 0) }).is_err());
}

#[test]
fn store_that_is_killed_loses_nothing_and_the_watch_resumes() {
    let Some((mut etcd, _namespace)) = Etcd::start("killed store", &[]) else { return };
    let (mut one, mut other) = (Member::start(options("ha1")), Member::start(options("ha2")));
    let mark = one.await_connected();
    other.await_connected();
    let before = kept(one.write(write(1, "b/a", 0)));
    other.await_changed("b/a");
    etcd.kill();
    one.await_event("loss", |event| matches!(event, StoreEvent::Disconnected(_)).then_some(()));
    // No answer reports it as kept, neither now nor later.
    assert!(matches!(one.write(write(2, "b/a", before)), Written::Refused(_) | Written::Unknown(_)));
    etcd.restart();
    let again = one.await_connected();
    assert_eq!(again.store, mark.store);
    assert!(again.revision >= before);
    one.await_heartbeat();
    other.await_connected();
    let after = kept(one.write(write(3, "b/a", before)));
    // The other's watch resumes after the last revision delivered: no snapshot, no change twice.
    let received = other.await_event("resumed watch", |event| match event {
        StoreEvent::SnapshotBegins { .. } => panic!("a snapshot"),
        StoreEvent::Changed(stored) if stored.key == "b/a" => Some(stored.revision),
        _ => None,
    });
    assert_eq!(received, after);
}

#[test]
fn write_to_a_store_that_hangs_is_answered_with_the_truth() {
    let Some((etcd, _namespace)) = Etcd::start("hanging store", &[]) else { return };
    let mut member = Member::start(options("ha1"));
    member.await_connected();
    let first = kept(member.write(write(1, "b/a", 0)));
    etcd.signal(Signal::SIGSTOP);
    member.store.write(write(2, "b/a", first)).unwrap();
    let began = Instant::now();
    // Longer than a write is waited for without doubt, and than a node may be silent.
    std::thread::sleep(Duration::from_millis(1500));
    etcd.signal(Signal::SIGCONT);
    let written = member.answer(2);
    assert!(began.elapsed() < PATIENCE);
    let stored = operate(|mut client| async move { client.get("/roam6/north/b/a", None).await });
    let stored = stored.kvs().first().map(|found| (found.value().to_vec(), found.mod_revision() as u64)).unwrap();
    match written {
        Written::Kept(revision) => assert_eq!(stored, (b"value 2".to_vec(), revision)),
        Written::Unknown(_) => {}
        Written::Refused(_) => assert_eq!(stored, (b"value 1".to_vec(), first)),
        other => panic!("{other:?}"),
    }
    // Whatever became of it, the next one is judged by what the store has.
    member.await_heartbeat();
    kept(member.write(write(3, "b/a", stored.1)));
}

/// What a member that starts with a copy at `path` receives until it is connected, or serves by its copy: keys of bindings, and
/// whether it is connected.
fn start_with_copy(path: &Path) -> (Member, Vec<String>, bool) {
    let mut member = Member::start(StoreOptions { copy: Some(path.to_owned()), ..options("ha2") });
    let mut keys = Vec::new();
    loop {
        let next = member.await_event("copy", |event| match event {
            StoreEvent::Changed(stored) => Some(Err(stored.key.clone())),
            StoreEvent::Connected { .. } => Some(Ok(true)),
            StoreEvent::Copied => Some(Ok(false)),
            _ => None,
        });
        match next {
            Ok(connected) => return (member, keys, connected),
            Err(key) => keys.extend(Some(key).filter(|key| key.starts_with("b/"))),
        }
    }
}

/// The keys of bindings of a snapshot.
fn snapshot_of(member: &mut Member) -> usize {
    member.await_event("snapshot", |event| match event {
        StoreEvent::SnapshotBegins { .. } => Some(()),
        StoreEvent::Changed(stored) if stored.key.starts_with("b/") => panic!("{stored:?} before the snapshot"),
        _ => None,
    });
    let mut found = 0;
    loop {
        let next = member.await_event("snapshot", |event| match event {
            StoreEvent::Changed(stored) => Some(Some(stored.key.clone())),
            StoreEvent::SnapshotEnds { .. } => Some(None),
            _ => None,
        });
        match next {
            Some(key) => found += usize::from(key.starts_with("b/")),
            None => return found,
        }
    }
}

#[test]
fn member_resumes_from_its_copy_or_begins_with_a_snapshot() {
    let Some((mut etcd, _namespace)) = Etcd::start("copies", &[]) else { return };
    let directory = tempfile::tempdir().unwrap();
    let path = copy_file(directory.path(), "north");
    let mut one = Member::start(options("ha1"));
    one.await_connected();
    for ticket in 0..20 {
        kept(one.write(write(ticket, &format!("b/{ticket}"), 0)));
    }
    let (mut member, keys, _) = start_with_copy(&path);
    assert!(keys.is_empty(), "there was no copy");
    assert_eq!(snapshot_of(&mut member), 20);
    member.await_heartbeat();
    drop(member);
    kept(one.write(write(20, "b/20", 0)));
    let (mut member, keys, connected) = start_with_copy(&path);
    assert_eq!((keys.len(), connected), (20, true));
    let first = member.await_event("first change", |event| match event {
        StoreEvent::SnapshotBegins { .. } => panic!("a snapshot"),
        StoreEvent::Changed(stored) if stored.key.starts_with("b/") => Some(stored.key.clone()),
        _ => None,
    });
    assert_eq!(first, "b/20");
    member.await_heartbeat();
    drop(member);
    // The history after the copy is gone: all keys at one revision.
    one.await_heartbeat();
    let head = one.await_heartbeat();
    operate(|mut client| async move { client.compact(head as i64, None).await });
    let (mut member, keys, _) = start_with_copy(&path);
    assert_eq!(keys.len(), 21);
    assert_eq!(snapshot_of(&mut member), 21);
    member.await_heartbeat();
    drop((member, one));
    // Without its store a member has its copy.
    etcd.kill();
    let (mut member, keys, connected) = start_with_copy(&path);
    assert_eq!((keys.len(), connected), (21, false));
    // A store that was wiped meanwhile is not believed, and nothing is written into it.
    etcd.wipe();
    etcd.restart();
    assert!(matches!(member.await_fault(), StoreFault::RolledBack { .. }));
    let all = || operate(|mut client| async move { client.get("", Some(GetOptions::new().with_all_keys())).await });
    assert_eq!(all().count(), 0);
    let in_use = restore(&StoreOptions { copy: Some(path.clone()), ..options("ha2") }, |_, _| {}).unwrap_err();
    assert!(in_use.to_string().contains("open"), "{in_use}");
    drop(member);
    // The operator writes the copy into it. A fleet that has begun is left alone.
    let from_copy = StoreOptions { copy: Some(path.clone()), ..options("ha2") };
    assert_eq!(restore(&from_copy, |_, _| {}), Ok(21));
    let again = restore(&from_copy, |_, _| {}).unwrap_err();
    assert!(again.to_string().contains("has /roam6/north/ already"), "{again}");
    let (mut member, keys, _) = start_with_copy(&path);
    assert!(keys.is_empty(), "the copy is of another store");
    assert_eq!(snapshot_of(&mut member), 21);
    assert!(path.with_extension("redb.old").exists(), "it is kept");
}

#[test]
fn members_with_other_wireguard_keys_are_refused() {
    let Some((_etcd, _namespace)) = Etcd::start("WireGuard keys of members", &[]) else { return };
    let keyed = |member: &str, keys: &str| StoreOptions { encryption: Some(keys.to_owned()), ..options(member) };
    let mut first = Member::start(keyed("ha1", "aa"));
    first.await_connected();
    Member::start(keyed("ha2", "aa")).await_connected();
    let mut other = Member::start(keyed("ha3", "bb"));
    let expected =
        StoreFault::OtherKeys { key: "/roam6/north/w".to_owned(), theirs: "aa".to_owned(), own: "bb".to_owned() };
    assert_eq!(other.await_fault(), expected);
    assert!(matches!(other.write(write(1, "b/a", 0)), Written::Refused(_)));
    let mut without = Member::start(options("ha4"));
    assert_eq!(without.await_fault(), StoreFault::Unencrypted { key: "/roam6/north/w".to_owned() });
    kept(first.write(write(2, "b/a", 0)));
    // As after the keys of all members were replaced.
    operate(|mut client| async move { client.delete("/roam6/north/w", None).await });
    other.await_connected();
}

#[test]
fn foreign_and_malformed_stores_are_refused_untouched() {
    let Some((_etcd, _namespace)) = Etcd::start("foreign stores", &[]) else { return };
    put("/roam6/north/v", r#"{"format":1,"store":7,"identity":"home agent 2001:db8::2"}"#);
    let mut member = Member::start(options("ha1"));
    let fault = member.await_fault();
    assert!(matches!(&fault, StoreFault::OtherFleet { difference } if difference.contains("2001:db8::2")), "{fault}");
    assert!(matches!(member.write(write(1, "b/a", 0)), Written::Refused(_)));
    put("/roam6/north/v", r#"{"format":2}"#);
    assert_eq!(member.await_fault(), StoreFault::OtherFormat { has: 2, speaks: 1 });
    put("/roam6/north/v", "garbage");
    assert!(matches!(member.await_fault(), StoreFault::OtherFleet { .. }));
    let own = operate(|mut client| async move { client.get("/roam6/north/m/ha1", None).await });
    assert!(own.kvs().is_empty(), "it has written nothing");
    // Once it is put right, the member joins by itself. Keys of a fleet with a longer name are not its own.
    put("/roam6/northern/b/x", "foreign");
    put("/roam6/north/b/\u{1b}", "not a record");
    put("/roam6/north/v", r#"{"format":1,"store":7,"identity":"home agent 2001:db8::1"}"#);
    assert_eq!(member.await_connected().store, 7);
    let odd = member.await_event("odd key", |event| match event {
        StoreEvent::Changed(stored) if stored.key.contains("northern") => panic!("{stored:?}"),
        StoreEvent::Changed(stored) if stored.key.starts_with("b/") => Some(stored.clone()),
        _ => None,
    });
    assert_eq!(odd.value.as_deref(), Some(&b"not a record"[..]));
    member.await_heartbeat();
    // A member that leaves takes its key with it.
    drop(member);
    let until = Instant::now() + PATIENCE;
    loop {
        let own = operate(|mut client| async move { client.get("/roam6/north/m/ha1", None).await });
        if own.kvs().is_empty() {
            break;
        }
        assert!(Instant::now() < until, "the key stays");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn wrong_credentials_are_named_and_right_ones_serve() {
    let Some((_etcd, _namespace)) = Etcd::start("credentials", &[]) else { return };
    operate(|mut client| async move {
        client.user_add("root", "rootpw", None).await?;
        client.user_grant_role("root", "root").await?;
        client.user_add("roam6", "secret", None).await?;
        client.role_add("fleet").await?;
        let prefix = etcd_client::Permission::read_write("/roam6/north/").with_prefix();
        client.role_grant_permission("fleet", prefix).await?;
        client.user_grant_role("roam6", "fleet").await?;
        client.auth_enable().await
    });
    let with = |credentials: Option<(&str, &str)>, fleet: &str| {
        let credentials = credentials.map(|(user, password)| (user.to_owned(), password.to_owned()));
        Member::start(StoreOptions { credentials, fleet: fleet.to_owned(), ..options("ha1") })
    };
    for mut refused in
        [with(None, "north"), with(Some(("roam6", "wrong")), "north"), with(Some(("roam6", "secret")), "south")]
    {
        let fault = refused.await_fault();
        assert!(matches!(fault, StoreFault::Credentials(_)), "{fault}");
        assert!(matches!(refused.write(write(1, "b/a", 0)), Written::Refused(_)));
    }
    let mut member = with(Some(("roam6", "secret")), "north");
    member.await_connected();
    member.await_heartbeat();
    kept(member.write(write(1, "b/a", 0)));
}

#[test]
fn full_store_refuses_and_goes_on_once_there_is_room() {
    let Some((_etcd, _namespace)) = Etcd::start("full store", &["--quota-backend-bytes", "2097152"]) else { return };
    let mut member = Member::start(options("ha1"));
    member.await_connected();
    let first = kept(member.write(write(1, "b/a", 0)));
    member.await_heartbeat();
    let filled = operate(|mut client| async move {
        for number in 0..400 {
            let txn = Txn::new()
                .when([Compare::version(format!("/other/{number}"), CompareOp::Equal, 0)])
                .and_then([TxnOp::put(format!("/other/{number}"), vec![0; 16_384], Some(PutOptions::new()))]);
            if client.txn(txn).await.is_err() {
                return Ok(true);
            }
        }
        Ok(false)
    });
    assert!(filled);
    assert_eq!(member.await_fault(), StoreFault::Full);
    let Written::Refused(why) = member.write(write(2, "b/a", first)) else { panic!("written to a full store") };
    assert!(why.contains("full"), "{why}");
    // What is there can be read still.
    let stored = operate(|mut client| async move { client.get("/roam6/north/b/a", None).await });
    assert_eq!(stored.kvs().first().map(|found| found.value().to_vec()), Some(b"value 1".to_vec()));
    operate(|mut client| async move {
        client.delete("/other/", Some(etcd_client::DeleteOptions::new().with_prefix())).await?;
        let head = client.get("x", None).await?.header().map_or(0, |header| header.revision());
        let _ = client.compact(head, None).await;
        client.defragment().await?;
        let alarms = client.alarm(etcd_client::AlarmAction::Get, etcd_client::AlarmType::Nospace, None).await?;
        for alarm in alarms.alarms() {
            let mut of = etcd_client::AlarmOptions::new();
            of.with_member(alarm.member_id());
            client.alarm(etcd_client::AlarmAction::Deactivate, etcd_client::AlarmType::Nospace, Some(of)).await?;
        }
        Ok(())
    });
    member.await_heartbeat();
    kept(member.write(write(3, "b/a", first)));
}

fn announcement(prefix: &str, metric: u32) -> Item {
    Item::Announcement(Announcement { prefix: prefix.parse().unwrap(), table: 107, metric })
}

/// Executes the plan's changes, which must be accepted.
fn execute(host: &mut Host, outputs: Vec<Output>) {
    let outcomes = host.execute(outputs, |report| panic!("{report:?}"));
    outcomes.iter().for_each(|outcome| assert_eq!(outcome.error, None, "{:?}", outcome.key));
}

#[test]
fn announced_routes_change_their_metric_and_end_with_the_process() {
    let Some(_namespace) = Namespace::enter_new("announcements") else { return };
    let directory = tempfile::tempdir().unwrap();
    let mut host = netns::host(&directory, &[], None);
    let routes = || netns::run("ip -6 route show table 107; ip -4 route show table 107");
    execute(
        &mut host,
        vec![
            Output::Put(announcement("2001:db8:100::/40", 100).into()),
            Output::Put(announcement("::ffff:192.0.2.0/120", 100).into()),
        ],
    );
    host.remove_stale().unwrap();
    let shown = routes();
    assert!(shown.contains("2001:db8:100::/40 dev r6fleet proto 107 metric 100"), "{shown}");
    assert!(shown.contains("192.0.2.0/24 dev r6fleet proto 107") && shown.contains("metric 100"), "{shown}");
    execute(&mut host, vec![Output::Put(announcement("2001:db8:100::/40", 200).into())]);
    let shown = routes();
    assert!(shown.contains("2001:db8:100::/40 dev r6fleet proto 107 metric 200"), "{shown}");
    assert!(!shown.contains("2001:db8:100::/40 dev r6fleet proto 107 metric 100"), "{shown}");
    execute(&mut host, vec![Output::Drop(Key::Announcement("::ffff:192.0.2.0/120".parse().unwrap()))]);
    assert!(!routes().contains("192.0.2.0"));
    // Nobody cleans up.
    drop(host);
    netns::await_shown("ip -6 route show table 107; ip -4 route show table 107", str::is_empty);
    assert!(!netns::run("ip link").contains("r6fleet"));
}

#[test]
fn record_has_its_outcome_when_the_store_has_answered() {
    let Some((_etcd, _namespace)) = Etcd::start("records of a host", &[]) else { return };
    let directory = tempfile::tempdir().unwrap();
    let store = options("ha1");
    let addresses = vec!["2001:db8::5".parse().unwrap()];
    let fleet = Some(FleetOptions { store, version: "test".to_owned(), addresses });
    let options = HostOptions { fleet, ..netns::options(&directory, &[]) };
    let mut host = netns::host_with(&options, None);
    let mut other = Member::start(self::options("ha2"));
    other.await_connected();
    let await_input = |host: &mut Host, wanted: &dyn Fn(&Input) -> bool| {
        let until = Instant::now() + PATIENCE;
        loop {
            let later = host.now() + Duration::from_millis(100);
            for event in host.wait(Some(later)).unwrap() {
                if let HostEvent::Input(_, input) = event
                    && wanted(&input)
                {
                    return input;
                }
            }
            assert!(Instant::now() < until, "no such input");
        }
    };
    let connected = |input: &Input| matches!(input, Input::Fleet(FleetEvent::Connected));
    await_input(&mut host, &connected);
    let home_address = HomeAddress("2001:db8:100::1".parse().unwrap());
    let binding = r#"{"home_address":"2001:db8:100::1","care_of":[[1,"2001:db8:1::1",0]],"prefixes":[],"explicit":false,
        "flows":[],"sequence":3,"timestamp":4,"expires_unix_micros":5,"router":true}"#;
    let record = Some(Box::new(serde_json::from_str(binding).unwrap()));
    let (expected, claims, releases) = (Revision(0), Vec::new(), Vec::new());
    let record = FleetRecord { home_address, record, expected, claims, releases };
    let put = || Output::Put(Put { item: Item::FleetRecord(record.clone()), id: PutId { role: 0, number: 5 } });
    let state = Output::Put(Item::FleetMember(MemberState::Healthy).into());
    let outcomes = host.execute([put(), state], |report| panic!("{report:?}"));
    assert_eq!(outcomes.iter().map(|outcome| outcome.key.clone()).collect::<Vec<_>>(), [Key::FleetMember]);
    let of_record = |input: &Input| matches!(input, Input::Outcome(outcome) if outcome.id.number == 5);
    let Input::Outcome(outcome) = await_input(&mut host, &of_record) else { unreachable!() };
    let Some(Commit::Kept(revision)) = outcome.commit else { panic!("{outcome:?}") };
    assert_eq!(other.await_changed("b/2001:db8:100::1").revision, revision.0);
    host.execute([put()], |report| panic!("{report:?}"));
    let Input::Outcome(outcome) = await_input(&mut host, &of_record) else { unreachable!() };
    let Some(Commit::Conflict(stored)) = outcome.commit else { panic!("{outcome:?}") };
    assert_eq!((stored.revision, stored.record), (revision, record.record.clone()));
    // The other member receives the state.
    let value = other.await_event("state", |event| match event {
        StoreEvent::Changed(stored) if stored.key == "m/ha1" => {
            let value: serde_json::Value = serde_json::from_slice(stored.value.as_ref()?).unwrap();
            (value["state"] == "healthy").then_some(value)
        }
        _ => None,
    });
    assert_eq!((value["version"].as_str(), value["addresses"][0].as_str()), (Some("test"), Some("2001:db8::5")));
}
