//! Certificate trust lists: octets as the module EtsiTs102941TrustLists defines them, and mutated lists.

use crate::mutation::mutate;
use roam6_wire::fuzz;
use roam6_wire::security::{
    Certificate, CertificateId, Curve, CurvePoint, HashedId8, Psid, PsidSsp, PublicKey, SignerField, Ssp, TimeUnit,
    TrustList, TrustListEntry, TrustListIssuer, UnsignedCertificate, UnsignedData, ValidityPeriod, limits,
};

const URL: &str = "http://a";
/// Version, content, preamble, version, nextUpdate, isFullCtl and ctlSequence.
const HEAD: [u8; 10] = [1, 0x86, 0, 1, 0x10, 0, 0, 1, 0xff, 7];

fn certificate(name: &str) -> Vec<u8> {
    let point = [&[2][..], &[5; 32]].concat();
    let unsigned = UnsignedCertificate {
        issuer: None,
        id: CertificateId::Name(name),
        validity: ValidityPeriod { start: 1, unit: TimeUnit::Years, duration: 3 },
        region: None,
        app_permissions: &[PsidSsp { psid: Psid::CTL, ssp: Ssp::Bitmap(&[1, 0x38]) }],
        issue_permissions: None,
        encryption_key: None,
        key: PublicKey { curve: Curve::NistP256, point: CurvePoint::from_sec1(&point, 32).unwrap() },
    };
    unsigned.emit(([3; 32], [4; 32]))
}

fn url() -> Vec<u8> {
    [&[URL.len() as u8][..], URL.as_bytes()].concat()
}

/// A list of a root with entries of all kinds that it may have: enrolment authority, authorisation authority, distribution centre.
fn list_of_root() -> Vec<u8> {
    let (ea, aa) = (certificate("EA"), certificate("AA"));
    let first = [&[0x80, 0x81, 0][..], &ea, &url()].concat();
    let second = [&[0x80, 0x81, 0x80][..], &ea, &url(), &url()].concat();
    let third = [&[0x80, 0x82][..], &aa, &url()].concat();
    let centre = [&[0x80, 0x83][..], &url(), &[1, 2], &[1; 8], &[2; 8]].concat();
    // An alternative that this release does not know.
    let other = [0x80, 0x85, 3, 1, 2, 3];
    [&HEAD[..], &[1, 5], &first, &second, &third, &centre, &other].concat()
}

/// A list of a trust list manager: itself, with its former certificate, a root, and a root with its former certificate.
fn list_of_manager() -> Vec<u8> {
    let (manager, root) = (certificate("TLM"), certificate("root"));
    let itself = [&[0x80, 0x84, 0x80][..], &manager, &manager, &url()].concat();
    let first = [&[0x80, 0x80, 0][..], &root].concat();
    let second = [&[0x80, 0x80, 0x80][..], &root, &root].concat();
    let mut head = HEAD;
    head[1] = 0x85;
    [&head[..], &[1, 3], &itself, &first, &second].concat()
}

#[test]
fn trust_lists_are_read_as_the_module_defines_them() {
    let (ea, aa, root) = (certificate("EA"), certificate("AA"), certificate("root"));
    let parse = |octets| Certificate::parse(octets).unwrap();
    let octets = list_of_root();
    let list = TrustList::parse(&octets).unwrap();
    assert_eq!((list.issuer, list.next_update, list.sequence), (TrustListIssuer::Root, 0x1000_0001, 7));
    let [ea, aa] = [parse(&ea), parse(&aa)];
    let expected =
        [TrustListEntry::Enrolment(ea.clone()), TrustListEntry::Enrolment(ea), TrustListEntry::Authorization(aa)];
    assert_eq!(list.entries, expected);
    let octets = list_of_manager();
    let list = TrustList::parse(&octets).unwrap();
    assert_eq!(list.issuer, TrustListIssuer::Manager);
    assert_eq!(list.entries, [parse(&root), parse(&root)].map(TrustListEntry::Root));
}

#[test]
fn the_writer_of_trust_lists_and_their_reader_agree() {
    let (root, aa) = (certificate("root"), certificate("AA"));
    let [root, aa] = [&root, &aa].map(|octets| Certificate::parse(octets).unwrap());
    for (issuer, entries) in [
        (TrustListIssuer::Manager, vec![TrustListEntry::Root(root)]),
        (TrustListIssuer::Root, vec![TrustListEntry::Enrolment(aa.clone()), TrustListEntry::Authorization(aa)]),
        (TrustListIssuer::Root, vec![]),
    ] {
        let list = TrustList { issuer, next_update: 9, sequence: 255, entries };
        assert_eq!(TrustList::parse(&list.emit(URL)), Ok(list));
    }
}

#[test]
fn lists_of_changes_and_entries_of_another_issuer_are_refused() {
    let octets = list_of_root();
    let changed = |at: usize, octet: u8| {
        let mut octets = octets.clone();
        octets[at] = octet;
        octets
    };
    let wrong = [(0, 2), (1, 0x84), (1, 0x85), (2, 1), (3, 2), (8, 0), (8, 1), (11, 4), (12, 0x81), (13, 0x80)];
    for (at, octet) in wrong {
        assert!(TrustList::parse(&changed(at, octet)).is_err(), "{at} {octet:#x}");
    }
    for cut in 0..octets.len() {
        assert!(TrustList::parse(&octets[..cut]).is_err(), "{cut}");
    }
    let mut of_root_with_roots = list_of_manager();
    of_root_with_roots[1] = 0x86;
    assert!(TrustList::parse(&of_root_with_roots).is_err());
}

#[test]
fn trust_lists_have_255_entries_at_most() {
    let octets = certificate("AA");
    let entry = TrustListEntry::Authorization(Certificate::parse(&octets).unwrap());
    let list = |count| TrustList {
        issuer: TrustListIssuer::Root,
        next_update: 1,
        sequence: 0,
        entries: vec![entry.clone(); count],
    };
    let full = list(limits::TRUSTED);
    assert_eq!(list(limits::TRUSTED + 1).emit(URL), full.emit(URL), "more are left out");
    assert_eq!(TrustList::parse(&full.emit(URL)), Ok(full));
}

#[test]
fn mutated_trust_lists_never_panic() {
    let mut valid = vec![list_of_root(), list_of_manager()];
    for payload in valid.clone() {
        let to_be_signed = UnsignedData::new(&payload, Psid::CTL, 5).to_be_signed();
        let signer = SignerField::Digest(HashedId8([1; 8]));
        valid.push(UnsignedData::emit(&to_be_signed, signer, ([3; 32], [4; 32])));
    }
    mutate(0x0294_1003, &valid, fuzz::trust_list);
}
