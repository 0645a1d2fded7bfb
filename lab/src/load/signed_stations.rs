//! Stations whose packets are secured (ETSI TS 103 097), on a packet socket: one with a certificate of a lab, and one that
//! sends forged packets.

use super::geo_stations::{BASIC_HEADER, frame, link_address, packet, place_at, position};
use crate::bed::{Host, binary, run_command};
use crate::clock;
use crate::sys;
use anyhow::{Context, Result, anyhow};
use nix::sys::socket::{MsgFlags, MultiHeaders, SockaddrIn6, sendmmsg};
use p256::ecdsa::signature::Signer;
use p256::ecdsa::{Signature, SigningKey};
use p256::pkcs8::DecodePrivateKey;
use roam6_proto::base::rng::Entropy;
use roam6_wire::LinkAddress;
use roam6_wire::geo::btp::{Btp, SourceOrInfo, port};
use roam6_wire::geo::{Coordinates, ExtendedHeader};
use roam6_wire::security::{Certificate, HashedId8, Message, Psid, SignerField, UnsignedData};
use std::fs;
use std::io::IoSlice;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

const BROADCAST: LinkAddress = LinkAddress([0xff; 6]);
/// Frames per system call.
const BATCH: usize = 64;
/// A CAM without its BTP header, of a car.
const CAM: [u8; 41] = [
    0x02, 0x02, 0x00, 0x00, 0x03, 0xe9, 0x5e, 0xf2, 0x00, 0x5a, 0x56, 0xc4, 0x91, 0x0e, 0x43, 0x46, 0xe5, 0x03, 0xe8,
    0x3e, 0x80, 0x01, 0xb7, 0x74, 0x3e, 0x00, 0x00, 0x01, 0x20, 0x00, 0x00, 0x3f, 0xe1, 0xed, 0x04, 0x03, 0xff, 0xe3,
    0xff, 0xf4, 0x00,
];

/// The certificates of a lab.
pub(crate) struct Lab(PathBuf);

impl Lab {
    /// Makes them, with so many tickets.
    pub(crate) fn make(folder: PathBuf, tickets: u16) -> Result<Lab> {
        let count = tickets.to_string();
        run_command(Command::new(binary()?).args(["geo", "cert", "make", "--count", &count]).arg(&folder))?;
        Ok(Lab(folder))
    }

    /// The value of `security` in `[geo]` of a station with ticket `number`.
    pub(crate) fn inline_table(&self, number: u16) -> String {
        let file = |name: &str| self.0.join(name).display().to_string();
        let (root, authority) = (file("root.cert"), file("aa.cert"));
        let ticket = file(&format!("tickets/at-{number:02}.cert"));
        format!("{{ mode = \"strict\", trust = [\"{root}\"], issuers = [\"{authority}\"], tickets = \"{ticket}\" }}")
    }

    /// The table of a station that verifies.
    pub(crate) fn table(&self, mode: &str) -> String {
        let file = |name: &str| self.0.join(name).display().to_string();
        let (root, authority) = (file("root.cert"), file("aa.cert"));
        format!("[geo.security]\nmode = \"{mode}\"\ntrust = [\"{root}\"]\nissuers = [\"{authority}\"]\n")
    }
}

/// A station with a certificate.
pub(crate) struct SignedStation {
    certificate: Vec<u8>,
    digest: HashedId8,
    key: SigningKey,
    /// Its link-layer address.
    pub(crate) address: LinkAddress,
    socket: OwnedFd,
}

/// How forged packets are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Forgery {
    /// By many link-layer sources: invalid signatures in the name of a certificate that is known, invalid certificates of a
    /// known authority, envelopes with a changed octet, packets without signature.
    Strangers,
    /// With invalid signatures, the digest of the certificate and the link-layer address of the station that is known.
    Impersonation,
}

impl SignedStation {
    /// A station at `interface` of `host`, with ticket `number` of a lab.
    pub(crate) fn open(host: &Host, interface: &str, lab: &Lab, number: u16) -> Result<SignedStation> {
        let file = |extension: &str| lab.0.join(format!("tickets/at-{number:02}.{extension}"));
        let pem = fs::read_to_string(file("key"))?;
        let key = SigningKey::from_pkcs8_pem(&pem).map_err(|error| anyhow!("{error}"))?;
        let socket = host.in_namespace(|| sys::open_packet_socket(interface, 0))??;
        let certificate = fs::read(file("cert"))?;
        let digest = Certificate::parse(&certificate).map_err(|error| anyhow!("{error}"))?.digest();
        Ok(SignedStation { certificate, digest, key, address: link_address(5, number), socket })
    }

    /// Where it is when it sends CAM `number`.
    pub(crate) fn place(number: u32) -> Coordinates {
        place_at(0.0, 100.0 + f64::from(number % 1000) / 10.0)
    }

    /// Its CAM `number`.
    pub(crate) fn cam(&self, number: u32) -> Result<Vec<u8>> {
        let certificate = Certificate::parse(&self.certificate).map_err(|error| anyhow!("{error}"))?;
        let (basic, to_be_signed) = unsigned_cam(self.address, SignedStation::place(number))?;
        let signature: Signature = self.key.sign(Message::of_data(&to_be_signed, &certificate).octets());
        let (r, s) = signature.split_bytes();
        let envelope =
            UnsignedData::emit(&to_be_signed, SignerField::Certificate(&self.certificate), (r.into(), s.into()));
        Ok(frame(BROADCAST, self.address, &[&basic[..], &envelope].concat()))
    }

    /// Sends a frame.
    pub(crate) fn send(&self, frame: &[u8]) -> Result<()> {
        Ok(nix::unistd::write(&self.socket, frame).map(drop)?)
    }

    /// Sends forged frames in the name of this station, `rate` a second, as long as `goes_on`; the number of frames sent.
    pub(crate) fn flood(&self, forgery: Forgery, rate: u64, goes_on: impl Fn() -> bool) -> Result<u64> {
        let mut entropy = Entropy::seed_from_u64(23);
        let mut headers: MultiHeaders<SockaddrIn6> = MultiHeaders::preallocate(BATCH, None);
        let begin = clock::now();
        let mut sent = 0_u64;
        while goes_on() {
            let due = u64::try_from(begin.elapsed().as_micros())?.saturating_mul(rate) / 1_000_000;
            if sent + BATCH as u64 > due {
                std::thread::sleep(Duration::from_micros(500));
                continue;
            }
            let unsigned = unsigned_cam(self.address, SignedStation::place(0))?;
            let frames: Vec<Vec<u8>> =
                (0..BATCH).map(|number| self.forged(forgery, number, &unsigned, &mut entropy)).collect();
            let slices: Vec<[IoSlice<'_>; 1]> = frames.iter().map(|frame| [IoSlice::new(frame)]).collect();
            sendmmsg(self.socket.as_raw_fd(), &mut headers, &slices, vec![None; BATCH], [], MsgFlags::empty())?;
            sent += BATCH as u64;
        }
        Ok(sent)
    }

    fn forged(
        &self,
        forgery: Forgery,
        number: usize,
        (basic, to_be_signed): &UnsignedCam,
        entropy: &mut Entropy,
    ) -> Vec<u8> {
        let (mut r, mut s) = ([0; 32], [0; 32]);
        entropy.fill(&mut r);
        entropy.fill(&mut s);
        let packet = |signer| [&basic[..], &UnsignedData::emit(to_be_signed, signer, (r, s))].concat();
        if forgery == Forgery::Impersonation {
            return frame(BROADCAST, self.address, &packet(SignerField::Digest(self.digest)));
        }
        let stranger = link_address(6, entropy.below(512) as u16);
        let mut certificate = self.certificate.clone();
        if number % 4 == 1
            && let Some(last) = certificate.last_chunk_mut::<32>()
        {
            *last = s;
        }
        let mut bytes = match number % 4 {
            3 => cam_packet(self.address, SignedStation::place(0)),
            _ => packet(SignerField::Certificate(&certificate)),
        };
        if number % 4 == 2 {
            let at = entropy.below(bytes.len() as u64) as usize;
            bytes.iter_mut().skip(at).take(1).for_each(|octet| *octet ^= r[0] | 1);
        }
        frame(BROADCAST, stranger, &bytes)
    }
}

/// The Basic Header of a CAM for an envelope, and what is signed.
type UnsignedCam = ([u8; BASIC_HEADER], Vec<u8>);

/// A CAM's packet that is not signed.
fn cam_packet(source: LinkAddress, place: Coordinates) -> Vec<u8> {
    let btp = Btp { destination: port::CAM, source_or_info: SourceOrInfo::Information(0), payload: &CAM };
    packet(ExtendedHeader::SingleHop { source: position(source, place), media: [0; 4] }, 1, &btp.emit())
}

fn unsigned_cam(source: LinkAddress, place: Coordinates) -> Result<UnsignedCam> {
    let packet = cam_packet(source, place);
    let ([first, rest @ ..], payload) = packet.split_first_chunk::<BASIC_HEADER>().context("a short packet")?;
    let [a, b, c] = *rest;
    Ok(([*first & 0xf0 | 2, a, b, c], UnsignedData::new(payload, Psid::CAM, clock::its_micros()).to_be_signed()))
}

/// Octets that security adds to a CAM: with the digest of a certificate, and with the certificate.
pub(crate) fn added_octets(lab: &Lab) -> Result<(usize, usize)> {
    let certificate = fs::read(lab.0.join("tickets/at-01.cert"))?;
    let (basic, to_be_signed) = unsigned_cam(BROADCAST, SignedStation::place(0))?;
    let plain = cam_packet(BROADCAST, SignedStation::place(0)).len();
    let digest = SignerField::Digest(HashedId8([7; 8]));
    let length = |signer| basic.len() + UnsignedData::emit(&to_be_signed, signer, ([0; 32], [0; 32])).len() - plain;
    Ok((length(digest), length(SignerField::Certificate(&certificate))))
}
