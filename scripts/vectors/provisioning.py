#!/usr/bin/env python3
"""Makes the golden vectors of enrolment and authorisation: wire/tests/wire/vectors/provisioning.tsv.

An implementation of its own of the messages of ETSI TS 102 941 and of ECIES and AES-CCM of IEEE 1609.2, over the COER of
gn-security.py; elliptic curves, AES-CCM and HMAC are those of OpenSSL, by the Python package cryptography (43 or newer). All
that is random in a request is fixed here, and signatures are deterministic (RFC 6979): the same inputs make the same octets.

A line: kind, name, octets, and fields as name=value, separated by ';'.
  certificate  name of an authority or of the credential
  key          private keys
  message      encrypted messages, with what is inside: signed (the signed data), payload (EtsiTs102941Data), inner (the signed
               InnerEcRequest), shared (SharedAtRequest), ec (the signed data with external payload)
  ecies        the recipient's private key, the symmetric key, P1, and what the sender makes: v, c, t
  bad          messages to be refused

usage: provisioning.py > wire/tests/wire/vectors/provisioning.tsv
       provisioning.py --corpus fuzz/corpus/wire_provisioning
"""

import hashlib
import hmac
import importlib.util
import pathlib
import struct
import sys

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.ciphers.aead import AESCCM

spec = importlib.util.spec_from_file_location("gn_security", pathlib.Path(__file__).with_name("gn-security.py"))
gn = importlib.util.module_from_spec(spec)
spec.loader.exec_module(gn)
Key, Certificate, choice, string, sequence_of = gn.Key, gn.Certificate, gn.choice, gn.string, gn.sequence_of

NOW = gn.NOW
REQUEST = 623
STATION = b"car-1"
PERMISSIONS = [gn.permission(36, b"\1\xff\xfc"), gn.permission(37, b"\1\xff\xff\xff"), gn.permission(141)]
CREDENTIAL = [gn.permission(REQUEST, b"\1\xc0")]


def sha256(octets):
    return hashlib.sha256(octets).digest()


def signed(key, payload, certificate=None, external=False):
    """Signed data of the service of certificate requests; without a certificate signed by the key that they contain."""
    body = b"\x20" + choice(0, sha256(payload)) if external else b"\x40\x03\x80" + string(payload)
    tbs = body + b"\x40" + gn.unsigned(REQUEST) + struct.pack("!Q", NOW)
    scheme, digest = gn.ALGORITHMS[0]
    message = digest(tbs).digest() + digest(certificate.canonical if certificate else b"").digest()
    signer = choice(0, certificate.digest) if certificate else choice(2, b"")
    return b"\x03\x81\x00" + tbs + signer + key.sign(message, "x-only", scheme)


def kdf2(shared, parameter, size):
    blocks = [sha256(shared + struct.pack("!I", number) + parameter) for number in range(1, size // 32 + 2)]
    return b"".join(blocks)[:size]


def wrap(ephemeral, recipient, symmetric, parameter):
    """ECIES: v, c and t."""
    shared = ephemeral.private.exchange(ec.ECDH(), recipient.private.public_key())
    derived = kdf2(shared, parameter, 48)
    wrapped = bytes(a ^ b for a, b in zip(derived[:16], symmetric))
    return ephemeral.point(), wrapped, hmac.new(derived[16:], wrapped, "sha256").digest()[:16]


def encrypted(recipients, symmetric, nonce, plaintext):
    ciphertext = AESCCM(symmetric, tag_length=16).encrypt(nonce, plaintext, None)
    return b"\x03\x82" + sequence_of(recipients) + choice(0, nonce + string(ciphertext))


def for_certificate(certificate, decryption, ephemeral, symmetric, nonce, plaintext, kind=2):
    key = wrap(ephemeral, decryption, symmetric, sha256(certificate.canonical))
    recipient = choice(kind, certificate.digest + choice(0, b"".join(key)))
    return encrypted([recipient], symmetric, nonce, plaintext)


def for_key(symmetric, nonce, plaintext):
    return encrypted([choice(0, sha256(b"\x80" + symmetric)[-8:])], symmetric, nonce, plaintext)


def public_keys(key, encryption=None):
    return bytes([0x80 if encryption else 0]) + key.public() + (b"\0" + encryption.public() if encryption else b"")


def attributes(permissions, validity=None):
    hours = struct.pack("!I", validity[0]) + choice(4, struct.pack("!H", validity[1])) if validity else b""
    return bytes([0x24 if validity else 0x04]) + hours + sequence_of(permissions)


def response(kind, request, code, certificate=None):
    body = bytes([0x40 if certificate else 0]) + sha256(request)[:16] + bytes([code])
    return b"\1" + choice(kind, body + (certificate.octets if certificate else b""))


def enrolment_request(station, key, signer, ea, decryption, secrets, certificate=None):
    request = b"\0" + string(station) + b"\1" + public_keys(key) + attributes(CREDENTIAL)
    inner = signed(key, request)
    payload = b"\1" + choice(0, inner)
    outer = signed(signer, payload, certificate)
    ephemeral, symmetric, nonce = secrets
    octets = for_certificate(ea, decryption, ephemeral, symmetric, nonce, outer)
    return octets, {"signed": outer, "payload": payload, "inner": inner}


def authorization_request(key, credential, credential_key, ea, ea_decryption, aa, aa_decryption, secrets, hmac_key, validity):
    shared = b"\0" + ea.digest + hmac.new(hmac_key, key.public(), "sha256").digest()[:16] + b"\1"
    shared += attributes(PERMISSIONS, validity)
    external = signed(credential_key, shared, credential, external=True)
    for_ea, for_aa = secrets
    ec_signature = choice(0, for_certificate(ea, ea_decryption, *for_ea, external))
    payload = b"\1" + choice(2, b"\0" + public_keys(key) + hmac_key + shared + ec_signature)
    outer = signed(key, payload)
    octets = for_certificate(aa, aa_decryption, *for_aa, outer)
    return octets, {"signed": outer, "payload": payload, "shared": shared, "ec": external}


def line(kind, name, octets, fields=None):
    return kind, name, octets, fields or {}


def vectors():
    names = {"root": 101, "ea": 102, "ea-decryption": 103, "aa": 104, "aa-decryption": 105, "canonical": 106,
             "credential": 107, "renewed": 108, "ticket": 109}
    keys = {name: Key(0, secret) for name, secret in names.items()}
    for name, secret in names.items():
        yield line("key", name, secret.to_bytes(32, "big"))
    services = [gn.ssp_range(psid, kind="all") for psid in (36, 37, 141)]
    enrol = [gn.ssp_range(REQUEST, b"\1\xc0", b"\xff\x3f")]
    root = Certificate(keys["root"], name="root", duration=(6, 3), apps=[gn.permission(622, b"\1")],
                       issues=[gn.group(services, 2), gn.group(enrol, 2, kinds=0x40)])
    ea = Certificate(keys["ea"], root, name="EA", duration=(6, 1), apps=[gn.permission(REQUEST, b"\1\x0e")],
                     issues=[gn.group(enrol, 1, kinds=0x40)], encryption=(keys["ea-decryption"], "compressed"))
    aa = Certificate(keys["aa"], root, name="AA", duration=(6, 1), apps=[gn.permission(REQUEST, b"\1\x32")],
                     issues=[gn.group(services, 1)], encryption=(keys["aa-decryption"], "uncompressed"))
    credential = Certificate(keys["credential"], ea, apps=CREDENTIAL, duration=(6, 1))
    renewed = Certificate(keys["renewed"], ea, apps=CREDENTIAL, duration=(6, 1))
    ticket = Certificate(keys["ticket"], aa, apps=PERMISSIONS)
    for name, certificate in (("root", root), ("ea", ea), ("aa", aa), ("credential", credential), ("renewed", renewed),
                              ("ticket", ticket)):
        yield line("certificate", name, certificate.octets)

    def secrets(number):
        return Key(0, 200 + number), bytes([number] * 16), bytes([100 + number] * 12)

    answer = bytes([99] * 12)

    def answered(name, kind, request, inside, by, certificate, number, code=0):
        yield line("message", name, request, inside)
        payload = response(kind, request, code, certificate)
        data = signed(by.key, payload, by)
        octets = for_key(secrets(number)[1], answer, data)
        yield line("message", name.replace("request", "response"), octets, {"signed": data, "payload": payload})

    request = enrolment_request(STATION, keys["credential"], keys["canonical"], ea, keys["ea-decryption"], secrets(1))
    yield from answered("enrolment-request", 1, *request, ea, credential, 1)
    request = enrolment_request(credential.digest, keys["renewed"], keys["credential"], ea, keys["ea-decryption"], secrets(2),
                                credential)
    yield from answered("renewal-request", 1, *request, ea, renewed, 2)
    validity = (NOW // 1_000_000 - 3600, 168)
    request = authorization_request(keys["ticket"], credential, keys["credential"], ea, keys["ea-decryption"], aa,
                                    keys["aa-decryption"], (secrets(3), secrets(4)), bytes(range(32)), validity)
    yield from answered("authorization-request", 3, *request, aa, ticket, 4)
    # By the hash of the signed data in place of that of the encrypted message, as some authorities do.
    for name, kind, by, certificate, number, (_, inside) in (
            ("authorization-response-by-signed-hash", 3, aa, ticket, 4, request),):
        payload = response(kind, inside["signed"], 0, certificate)
        data = signed(by.key, payload, by)
        yield line("message", name, for_key(secrets(number)[1], answer, data), {"signed": data, "payload": payload})
    payload = response(3, request[0], 25)
    data = signed(aa.key, payload, aa)
    yield line("message", "authorization-response-denied", for_key(secrets(4)[1], answer, data),
               {"signed": data, "payload": payload})
    with_encryption = (b"\1" + choice(2, b"\0" + public_keys(keys["ticket"], keys["aa-decryption"]) + bytes(32)
                       + request[1]["shared"] + choice(1, request[1]["ec"])))
    data = signed(keys["ticket"], with_encryption)
    octets = for_certificate(aa, keys["aa-decryption"], *secrets(5), data, kind=3)
    yield line("message", "authorization-request-plain-signature", octets, {"signed": data, "payload": with_encryption})
    yield line("message", "two-recipients", encrypted([choice(0, bytes(8)), choice(2, aa.digest + choice(1, (
        b"".join(wrap(secrets(6)[0], keys["aa-decryption"], bytes(16), b"")))))], bytes(16), answer, b""))
    for number, (parameter, symmetric) in enumerate(((sha256(b"P1"), bytes(16)), (b"\xff" * 32, bytes(range(16))))):
        key = wrap(Key(0, 300 + number), keys["aa-decryption"], symmetric, parameter)
        yield line("ecies", f"ecies-{number}", Key(0, 300 + number).private.private_numbers().private_value.to_bytes(32, "big"),
                   {"recipient": names["aa-decryption"].to_bytes(32, "big"), "key": symmetric, "p1": parameter,
                    "v": key[0], "c": key[1], "t": key[2]})
    yield from bad(request[0], request[1]["payload"], response(3, request[0], 0, ticket), ea)


def bad(message, request, answer, ea):
    def swap(name, of, old, new):
        assert of.count(old) >= 1, (name, old.hex())
        return line("bad", name, of.replace(old, new, 1))

    for cut in (0, 1, 3, 12, 60, len(message) - 1):
        yield line("bad", f"cut-to-{cut}", message[:cut])
    yield line("bad", "more-behind", message + b"\0")
    yield swap("no-recipient", message, b"\x03\x82\x01\x01", b"\x03\x82\x01\x00")
    yield swap("nine-recipients", message, b"\x03\x82\x01\x01", b"\x03\x82\x01\x09")
    yield swap("symmetric-recipient", message, b"\x03\x82\x01\x01\x82", b"\x03\x82\x01\x01\x81")
    yield swap("rek-recipient", message, b"\x03\x82\x01\x01\x82", b"\x03\x82\x01\x01\x84")
    at = 5 + 8
    yield line("bad", "wrapped-for-p384", message[:at] + b"\x82" + message[at + 1:])
    yield line("bad", "ciphertext-too-short", b"\x03\x82\x01\x01\x80" + bytes(8) + b"\x80" + bytes(12) + string(bytes(15)))
    yield line("bad", "ciphertext-too-long", b"\x03\x82\x01\x01\x80" + bytes(8) + b"\x80" + bytes(12) + string(bytes(8193)))
    yield line("bad", "version-2", b"\2" + request[1:])
    yield line("bad", "other-content", b"\1\x87" + request[2:])
    yield line("bad", "request-extended-without-additions", request[:2] + b"\x80" + request[3:])
    yield line("bad", "request-more-behind", request + b"\0")
    yield swap("format-2", request, ea.digest + request[request.index(ea.digest) + 8:][:16] + b"\1",
               ea.digest + request[request.index(ea.digest) + 8:][:16] + b"\2")
    tag = request.index(ea.digest) + 8 + 16 + 1
    yield line("bad", "no-permissions", request[:tag] + b"\x20" + request[tag + 1:])
    yield line("bad", "issue-permissions", request[:tag] + b"\x26" + request[tag + 1:])
    yield line("bad", "granted-without-certificate", answer[:2] + b"\0" + answer[3:20])
    yield line("bad", "refused-with-certificate", answer[:19] + b"\1" + answer[20:])
    yield line("bad", "code-of-two-octets", b"\1\x83\0" + bytes(16) + b"\x81\x01")
    yield line("bad", "station-id-of-65", b"\0" + string(bytes(65)) + b"\1" + public_keys(Key(0, 5)) + attributes(CREDENTIAL))


def main():
    if sys.argv[1:2] == ["--corpus"]:
        folder = pathlib.Path(sys.argv[2])
        folder.mkdir(parents=True, exist_ok=True)
        for kind, name, octets, fields in vectors():
            if kind == "message":
                (folder / name).write_bytes(octets)
                for part, inside in fields.items():
                    (folder / f"{name}-{part}").write_bytes(inside)
        return
    for kind, name, octets, fields in vectors():
        text = ";".join(f"{key}={value.hex()}" for key, value in fields.items())
        print("\t".join([kind, name, octets.hex(), text]))


if __name__ == "__main__":
    sys.exit(main())
