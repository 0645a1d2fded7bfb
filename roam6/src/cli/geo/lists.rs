//! `roam6 geo cert revoke` and `roam6 geo cert trust-lists`: the signed lists of the authorities of a lab (ETSI TS 102 941).

use super::authority::{PUBLIC, read_key};
use crate::certificate::{its_now, read};
use crate::cli::geo::args::{RevokeArgs, TrustListsArgs};
use crate::cli::output::print;
use crate::exit::Failure;
use crate::files::replace;
use p256::ecdsa::signature::Signer;
use p256::ecdsa::{Signature, SigningKey};
use roam6_wire::security::{
    Certificate, Message, Psid, RevocationList, SignerField, TrustList, TrustListEntry, TrustListIssuer, UnsignedData,
};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const SECONDS_OF_DAY: u64 = 86_400;
/// Where authorities of a lab are reached, in its trust lists: the address of the example of `roam6 geo cert serve`.
const ACCESS_POINT: &str = "http://[2001:db8::1]:9108";

/// Issues the revocation list of the root of a lab, in place of the former one.
///
/// # Errors
/// A file cannot be read or written, or is no certificate or key of a lab.
pub(crate) fn revoke(args: &RevokeArgs) -> Result<ExitCode, Failure> {
    let digest = |file: &PathBuf| {
        let octets = read(file).map_err(Failure::Other)?;
        parse(&octets).map(|revoked| revoked.digest())
    };
    let list = RevocationList {
        this_update: seconds(its_now()),
        next_update: in_days(args.days),
        entries: args.certificates.iter().map(digest).collect::<Result<_, _>>()?,
    };
    let file = sign(&args.folder, "root", "crl", Psid::CRL, &list.emit())?;
    let count = list.entries.len();
    Ok(print(&format!("# {count} revoked certificates; in [geo.security]:\nrevocation_lists = [{file:?}]\n")))
}

/// Issues the trust lists of a lab, in place of the former ones.
///
/// # Errors
/// As [`revoke`].
pub(crate) fn issue_trust_lists(args: &TrustListsArgs) -> Result<ExitCode, Failure> {
    let octets = |name: &str| read(&args.folder.join(name)).map_err(Failure::Other);
    let (root, ea, aa) = (octets("root.cert")?, octets("ea.cert")?, octets("aa.cert")?);
    let list =
        |issuer, entries| TrustList { issuer, next_update: in_days(args.days), sequence: args.sequence, entries };
    let of_manager = list(TrustListIssuer::Manager, vec![TrustListEntry::Root(parse(&root)?)]);
    let below = vec![TrustListEntry::Enrolment(parse(&ea)?), TrustListEntry::Authorization(parse(&aa)?)];
    let of_root = list(TrustListIssuer::Root, below);
    let issue = |name, list: &TrustList<'_>| sign(&args.folder, name, "ctl", Psid::CTL, &list.emit(ACCESS_POINT));
    let files = [issue("tlm", &of_manager)?, issue("root", &of_root)?];
    let manager = absolute(args.folder.join("tlm.cert"));
    Ok(print(&format!(
        "# in [geo.security], in place of trust and issuers:\ntrust_list_managers = [{manager:?}]\ntrust_lists = {files:?}\n"
    )))
}

/// Signs a list by the certificate `name`, and writes it beside that; returns the file.
fn sign(folder: &Path, name: &str, extension: &str, service: Psid, payload: &[u8]) -> Result<PathBuf, Failure> {
    let octets = read(&folder.join(name).with_extension("cert")).map_err(Failure::Other)?;
    let (signer, key) = (parse(&octets)?, read_key(&folder.join(name).with_extension("key"))?);
    let to_be_signed = UnsignedData::new(payload, service, its_now() * 1_000_000).to_be_signed();
    let signature: Signature = SigningKey::from(&key).sign(Message::of_data(&to_be_signed, &signer).octets());
    let (r, s) = signature.split_bytes();
    let octets = UnsignedData::emit(&to_be_signed, SignerField::Digest(signer.digest()), (r.into(), s.into()));
    let file = folder.join(name).with_extension(extension);
    replace(&file, &octets, PUBLIC).map_err(|error| Failure::Other(format!("{}: {error}", file.display())))?;
    Ok(absolute(file))
}

fn parse(octets: &[u8]) -> Result<Certificate<'_>, Failure> {
    Certificate::parse(octets).map_err(|error| Failure::Other(error.to_string()))
}

fn absolute(path: PathBuf) -> PathBuf {
    std::path::absolute(&path).unwrap_or(path)
}

fn in_days(days: u16) -> u32 {
    seconds(its_now() + u64::from(days) * SECONDS_OF_DAY)
}

fn seconds(time: u64) -> u32 {
    u32::try_from(time).unwrap_or(u32::MAX)
}
