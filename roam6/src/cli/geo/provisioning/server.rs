//! `roam6 geo cert serve`: the enrolment authority and the authorisation authority of a lab. The latter asks the former by a
//! function call.

use super::args::ServeArgs;
use super::stations::Stations;
use super::{http, is_valid, its_micros, random};
use crate::certificate::read;
use crate::cli::geo::authority::{Content, TICKET_HOURS, certify, encryption_key_file, read_key, since_now};
use crate::cli::output::print;
use crate::exit::Failure;
use core::time::Duration;
use p256::SecretKey;
use roam6_proto::geo::provisioning::authority::{Answer, Authority, Grant, Opened};
use roam6_wire::security::{
    AuthorizationCode, Certificate, CertificateId, EnrolmentCode, HashedId8, TimeUnit, ValidityPeriod,
};
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

pub(super) const ENROLMENT: &str = "/enrolment";
pub(super) const AUTHORIZATION: &str = "/authorization";
/// Years that enrolment credentials are valid.
const CREDENTIAL_YEARS: u16 = 1;
/// Most requests at a time.
const MAX_CLIENTS: usize = 16;
/// After a connection that could not be accepted.
const PAUSE: Duration = Duration::from_millis(100);

/// The authorities.
pub(super) struct Pki {
    ea: Party,
    aa: Party,
    stations: Stations,
}

/// An authority with its keys.
struct Party {
    octets: Vec<u8>,
    signing: SecretKey,
    decryption: SecretKey,
}

impl Party {
    fn read(certificate: &Path) -> Result<Party, Failure> {
        let cure = "; labs of former releases have none: make a new one with roam6 geo cert make";
        let octets = read(certificate).map_err(|why| Failure::Other(format!("{why}{cure}")))?;
        let signing = read_key(&certificate.with_extension("key"))?;
        Ok(Party { octets, signing, decryption: read_key(&encryption_key_file(certificate))? })
    }

    fn certificate(&self) -> Result<Certificate<'_>, String> {
        Certificate::parse(&self.octets).map_err(|error| error.to_string())
    }

    fn authority<'a>(&'a self, certificate: &'a Certificate<'a>) -> Authority<'a> {
        Authority { certificate, signing: &self.signing, decryption: &self.decryption }
    }
}

impl Pki {
    pub(super) fn read(folder: &Path) -> Result<Pki, Failure> {
        let (ea, aa) = (Party::read(&folder.join("ea.cert"))?, Party::read(&folder.join("aa.cert"))?);
        Ok(Pki { ea, aa, stations: Stations::of(folder) })
    }

    /// The answer to a request, and a line about it.
    ///
    /// # Errors
    /// The request is for nobody here.
    pub(super) fn answer(&self, path: &str, request: &[u8], its_micros: u64) -> Result<(Vec<u8>, String), String> {
        let (ea, aa) = (self.ea.certificate()?, self.aa.certificate()?);
        let (ea, aa) = (self.ea.authority(&ea), self.aa.authority(&aa));
        let nonce = random().map_err(|_| "no random octets")?;
        match path {
            ENROLMENT => {
                let opened = ea.open(request).map_err(|error| error.to_string())?;
                let issued = self.enrol(&opened, &ea, its_micros);
                let line = said("enrolment", issued.as_ref().map(|(_, digest)| *digest));
                let answer =
                    Answer::Enrolment(issued.as_ref().map(|(octets, _)| octets.as_slice()).map_err(|code| *code));
                Ok((ea.answer(&opened, &answer, &nonce, its_micros), line))
            }
            AUTHORIZATION => {
                let opened = aa.open(request).map_err(|error| error.to_string())?;
                let issued = self.authorize(&opened, (&ea, &aa), its_micros);
                let line = said("authorization", issued.as_ref().map(|(_, digest)| *digest));
                let answer =
                    Answer::Authorization(issued.as_ref().map(|(octets, _)| octets.as_slice()).map_err(|code| *code));
                Ok((aa.answer(&opened, &answer, &nonce, its_micros), line))
            }
            _ => Err(format!("no authority has this path: {ENROLMENT} or {AUTHORIZATION}")),
        }
    }

    fn enrol(
        &self,
        opened: &Opened,
        ea: &Authority<'_>,
        its_micros: u64,
    ) -> Result<(Vec<u8>, HashedId8), EnrolmentCode> {
        let grant = opened.enrolment(&self.stations, its_micros, &is_valid)?;
        let octets = issue(&grant, since_now(TimeUnit::Years, CREDENTIAL_YEARS), ea);
        let digest = self.stations.keep(&octets).map_err(|why| {
            eprintln!("roam6: {why}");
            EnrolmentCode::DENIED_REQUEST
        })?;
        Ok((octets, digest))
    }

    fn authorize(
        &self,
        opened: &Opened,
        (ea, aa): (&Authority<'_>, &Authority<'_>),
        its_micros: u64,
    ) -> Result<(Vec<u8>, HashedId8), AuthorizationCode> {
        let grant = opened.authorization(aa.certificate, ea, &self.stations, its_micros, &is_valid)?;
        let validity = ticket_validity(grant.attributes.validity, &aa.certificate.validity, its_micros / 1_000_000);
        let octets = issue(&grant, validity, aa);
        let digest = Certificate::parse(&octets).map(|ticket| ticket.digest());
        digest.map(|digest| (octets.clone(), digest)).map_err(|_| AuthorizationCode::INCOMPLETE_REQUEST)
    }
}

/// The validity that is wished for, if it is at most that of tickets, has not ended, and lies within that of the authority.
pub(super) fn ticket_validity(wished: Option<ValidityPeriod>, authority: &ValidityPeriod, now: u64) -> ValidityPeriod {
    let longest = u64::from(TICKET_HOURS) * 3600;
    let is_granted = |wished: &ValidityPeriod| {
        let (start, end) = (u64::from(wished.start), wished.end());
        end > now && end.saturating_sub(start) <= longest && wished.start >= authority.start && end <= authority.end()
    };
    wished.filter(is_granted).unwrap_or_else(|| since_now(TimeUnit::Hours, TICKET_HOURS))
}

fn issue(grant: &Grant<'_>, validity: ValidityPeriod, issuer: &Authority<'_>) -> Vec<u8> {
    let content = Content {
        id: CertificateId::None,
        validity,
        app_permissions: &grant.attributes.permissions,
        issue_permissions: None,
    };
    certify(&content, grant.key, None, (Some(issuer.certificate), issuer.signing))
}

fn said(what: &str, issued: Result<HashedId8, &impl std::fmt::Display>) -> String {
    match issued {
        Ok(digest) => format!("{what}: issued {digest}"),
        Err(code) => format!("{what}: refused, {code}"),
    }
}

/// Answers requests until the process ends.
///
/// # Errors
/// The directory is not one of a lab, or the address cannot be had.
pub(in crate::cli::geo) fn serve(args: &ServeArgs) -> Result<ExitCode, Failure> {
    let pki = Arc::new(Pki::read(&args.folder)?);
    let refuse =
        |error: std::io::Error| Failure::Other(format!("{}: {error}; name another address with --listen", args.listen));
    let listener = TcpListener::bind(args.listen).map_err(refuse)?;
    let address = listener.local_addr().map_err(refuse)?;
    print(&format!("enrolment authority at http://{address}{ENROLMENT}\n"));
    print(&format!("authorisation authority at http://{address}{AUTHORIZATION}\n"));
    accept(&listener, &pki)
}

fn accept(listener: &TcpListener, pki: &Arc<Pki>) -> ! {
    let clients = Arc::new(AtomicUsize::new(0));
    loop {
        let Ok((stream, _)) = listener.accept() else {
            // The client has gone already, or there is no descriptor left until another one goes.
            thread::sleep(PAUSE);
            continue;
        };
        if clients.fetch_add(1, Ordering::Relaxed) >= MAX_CLIENTS {
            clients.fetch_sub(1, Ordering::Relaxed);
            continue;
        }
        let (pki, counted) = (Arc::clone(pki), Arc::clone(&clients));
        let serve = move || {
            // A client that has gone misses its answer.
            let _ = exchange(stream, &pki);
            counted.fetch_sub(1, Ordering::Relaxed);
        };
        if thread::Builder::new().spawn(serve).is_err() {
            clients.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

fn exchange(mut stream: TcpStream, pki: &Pki) -> std::io::Result<()> {
    const BAD: &str = "400 Bad Request";
    const TEXT: &str = "text/plain";
    let Ok(request) = http::read(&mut stream, &http::Deadline::new(), false) else {
        return http::respond(&mut stream, BAD, TEXT, b"no request of a station\n");
    };
    let answered = match request.target() {
        Some(("POST", path)) if request.media_type == http::REQUEST => pki.answer(path, &request.body, its_micros()),
        _ => Err(format!("no POST of {}", http::REQUEST)),
    };
    let line = match &answered {
        Ok((_, line)) => line.clone(),
        Err(why) => format!("refused, {why}"),
    };
    let _ = writeln!(std::io::stdout(), "{line}");
    match answered {
        Ok((answer, _)) => http::respond(&mut stream, "200 OK", http::RESPONSE, &answer),
        Err(why) => http::respond(&mut stream, BAD, TEXT, format!("{why}\n").as_bytes()),
    }
}
