//! Hundreds of thousands of Shim6 peers, emulated by this program. Each has a CGA as ULID, in a prefix of its own. All
//! share one key and announce the same two further locators, so that one signature is valid for all and is verified for
//! each.

use super::engine_bench::EngineBench;
use crate::bed::host::run_command as output;
use anyhow::{Context, Result, anyhow, bail};
use roam6_proto::Input;
use roam6_proto::base::ids::AddressPair;
use roam6_proto::contract::config::shim::{Identity, ShimConfig};
use roam6_proto::contract::input::FlowEvent;
use roam6_proto::crypto::cga::{Parameters, Sec};
use roam6_proto::crypto::signature::PrivateKey;
use roam6_proto::{LinkId, Time};
use roam6_wire::Prefix;
use roam6_wire::ip6::{self, Datagram, Header};
use roam6_wire::shim6::{self, Message, Nonce, ShimOption, Tag};
use std::net::Ipv6Addr;
use std::process::Command;

/// The first of the peers' prefixes, a /32.
const ULID_PREFIXES: u128 = 0x2001_0db9 << 96;
/// Further locators of the peers.
const LOCATORS: [&str; 2] = ["2001:db8:c1::/64", "2001:db8:c2::/64"];

/// The peers of one host.
pub(crate) struct ShimPeers {
    host: Ipv6Addr,
    parameters: Parameters,
    /// The source locator of all packets; `None`: each peer's ULID.
    source: Option<Ipv6Addr>,
    /// Locator List and CGA Signature options.
    proof: Vec<ShimOption>,
}

/// Contents of an R1 that an I2 returns.
#[derive(Debug, Clone)]
pub(crate) struct Validated {
    responder_nonce: Nonce,
    validator: Vec<u8>,
}

/// A handshake message from the host.
#[derive(Debug, Clone)]
pub(crate) enum HandshakeReply {
    /// R1 for the peer with this number.
    R1(u32, Validated),
    /// R2 for the peer with this number.
    R2(u32),
}

impl ShimPeers {
    /// Peers of `host`, with an RSA key of so many bits.
    pub(crate) fn new(host: Ipv6Addr, bits: u32) -> Result<ShimPeers> {
        let identity = identity(private_key(bits)?).context("openssl did not generate a key")?;
        let parameters = identity.parameters.clone();
        let mut locators = Vec::new();
        for prefix in LOCATORS {
            let prefix = prefix.parse().map_err(|_| anyhow!("no prefix"))?;
            locators.push(address(&parameters, prefix).context("no /64")?);
        }
        let proof = locator_proof(identity, &locators, host)?;
        let from = Some(*locators.first().context("no locator")?);
        Ok(ShimPeers { host, parameters, source: from, proof })
    }

    /// The same peers before a path failure: they send from their ULIDs and announce no locators, because a list would
    /// need a signature for each peer.
    pub(crate) fn at_ulids(&self) -> ShimPeers {
        ShimPeers { host: self.host, parameters: self.parameters.clone(), source: None, proof: Vec::new() }
    }

    /// The ULID of a peer.
    pub(crate) fn ulid(&self, number: u32) -> Ipv6Addr {
        prefix(number).and_then(|prefix| address(&self.parameters, prefix)).unwrap_or(Ipv6Addr::UNSPECIFIED)
    }

    /// The I1 of a peer, a whole packet.
    pub(crate) fn i1(&self, number: u32) -> Vec<u8> {
        let options = vec![self.ulid_pair_option(number)];
        self.packet(number, &Message::I1 { tag: tag(number), nonce: Nonce(number), options })
    }

    /// The I2 of a peer, a whole packet.
    pub(crate) fn i2(&self, number: u32, validated: &Validated) -> Vec<u8> {
        let parameters = prefix(number).and_then(|prefix| self.parameters.in_prefix(prefix));
        let mut options = vec![ShimOption::Validator(validated.validator.clone()), self.ulid_pair_option(number)];
        options.extend(self.proof.iter().cloned());
        options.extend(parameters.map(|parameters| ShimOption::Parameters(parameters.emit())));
        let (initiator_nonce, responder_nonce) = (Nonce(number), validated.responder_nonce);
        self.packet(number, &Message::I2 { tag: tag(number), initiator_nonce, responder_nonce, options })
    }

    fn ulid_pair_option(&self, number: u32) -> ShimOption {
        ShimOption::Ulids { sender: self.ulid(number), receiver: self.host }
    }

    fn packet(&self, number: u32, message: &Message) -> Vec<u8> {
        let from = self.source.unwrap_or_else(|| self.ulid(number));
        ip6::emit(&Header::new(from, self.host), shim6::PROTOCOL, &message.emit())
    }
}

/// The handshake message in a packet from the host; `None` for another packet.
pub(crate) fn parse_reply(packet: &[u8]) -> Option<HandshakeReply> {
    let datagram = Datagram::parse(packet).ok().filter(|datagram| datagram.protocol == shim6::PROTOCOL)?;
    match Message::parse(datagram.payload).ok()? {
        Message::R1 { initiator_nonce, responder_nonce, options } => {
            let validator = options.into_iter().find_map(|option| match option {
                ShimOption::Validator(validator) => Some(validator),
                _ => None,
            });
            Some(HandshakeReply::R1(initiator_nonce.0, Validated { responder_nonce, validator: validator? }))
        }
        Message::R2 { nonce, .. } => Some(HandshakeReply::R2(nonce.0)),
        _ => None,
    }
}

/// An RSA key, PKCS #8 DER.
fn private_key(bits: u32) -> Result<Vec<u8>> {
    let folder = tempfile::tempdir()?;
    let pem = folder.path().join("key.pem");
    let length = format!("rsa_keygen_bits:{bits}");
    output(Command::new("openssl").args(["genpkey", "-algorithm", "RSA", "-pkeyopt", &length, "-out"]).arg(&pem))?;
    let mut convert = Command::new("openssl");
    convert.args(["pkcs8", "-topk8", "-nocrypt", "-outform", "DER", "-in"]).arg(&pem);
    Ok(convert.output().context("cannot start openssl")?.stdout)
}

/// The identity (CGA parameters) of a key.
fn identity(private_key: Vec<u8>) -> Option<Identity> {
    let public = PrivateKey::parse(&private_key)?.public()?;
    let parameters = Parameters::new([6; 16], prefix(0)?, public)?;
    Some(Identity { parameters, private_key })
}

/// Locator List and CGA Signature options as an engine with this identity sends them.
fn locator_proof(identity: Identity, locators: &[Ipv6Addr], host: Ipv6Addr) -> Result<Vec<ShimOption>> {
    let config = ShimConfig { identities: vec![identity], ..ShimConfig::default() };
    let mut peer = EngineBench::new(config, locators);
    let pair = AddressPair { local: *locators.first().context("no locator")?, peer: host };
    let flow = FlowEvent { pair, link: LinkId(1), packets: 9, octets: 3000, since: Time::ZERO };
    let Some(Message::I1 { nonce, .. }) = peer.feed(&Input::Flow(flow)).first().and_then(|packet| message(packet))
    else {
        bail!("the peer sends no I1")
    };
    let options = vec![ShimOption::Validator(vec![0; 16])];
    let first = Message::R1 { initiator_nonce: nonce, responder_nonce: Nonce(1), options };
    let packet = ip6::emit(&Header::new(pair.peer, pair.local), shim6::PROTOCOL, &first.emit());
    let Some(Message::I2 { options, .. }) = peer.receive(packet).first().and_then(|packet| message(packet)) else {
        bail!("the peer sends no I2")
    };
    let proof = |option: &ShimOption| matches!(option, ShimOption::Locators(_) | ShimOption::Signature(_));
    Ok(options.into_iter().filter(proof).collect())
}

fn message(packet: &[u8]) -> Option<Message> {
    Message::parse(Datagram::parse(packet).ok()?.payload).ok()
}

/// The prefix of a peer's ULID.
fn prefix(number: u32) -> Option<Prefix> {
    Prefix::new(Ipv6Addr::from_bits(ULID_PREFIXES + (u128::from(number) << 64)), 64)
}

fn address(parameters: &Parameters, prefix: Prefix) -> Option<Ipv6Addr> {
    Some(parameters.in_prefix(prefix)?.address(Sec::new(0)?))
}

fn tag(number: u32) -> Tag {
    Tag::from_low_bits(u64::from(number) + 1)
}
