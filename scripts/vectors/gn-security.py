#!/usr/bin/env python3
"""Makes the golden vectors of security envelopes and certificates: wire/tests/wire/vectors/security.tsv.

An implementation of its own of COER (X.696) and of the structures of IEEE 1609.2 and ETSI TS 103 097; ECDSA and hashes are
those of OpenSSL, by the Python package cryptography (43 or newer). Signatures are deterministic (RFC 6979): the same version
makes the same file.

A line: verdict (good, bad), kind (data, certificate), name, octets, and expected fields as name=value, separated by ';'.
  data         psid, time, location, requests, additions, digest (of the signer), message (what ECDSA hashes and signs), signer
               (certificate)
  certificate  digest, canonical, message, issuer (certificate; absent for a root), start, end, apps, issues

usage: gn-security.py > wire/tests/wire/vectors/security.tsv
"""

import hashlib
import struct
import sys

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

CURVES = [ec.SECP256R1(), ec.BrainpoolP256R1(), ec.BrainpoolP384R1(), ec.SECP384R1()]
SIZES = [32, 32, 48, 48]
# A single-hop broadcast with BTP-B, from its Common Header.
INNER = bytes.fromhex(
    "20500280002d010014000200000000012a16a8801d113b8806d06528851403840000000007d10000"
    "0202000003e95ef2005a56c4910e4346e503e83e8001b7743e0000012000003fe1ed0403ffe3fff400"
)
# 2026-10-12 in microseconds of TAI since 2004.
NOW = 719_000_000_000_000


def length(count):
    if count < 0x80:
        return bytes([count])
    if count < 0x100:
        return bytes([0x81, count])
    return struct.pack("!BH", 0x82, count)


def string(octets):
    return length(len(octets)) + octets


def unsigned(value):
    return string(value.to_bytes(max(1, (value.bit_length() + 7) // 8), "big"))


def signed(value):
    size = 1
    while not -(1 << (8 * size - 1)) <= value < 1 << (8 * size - 1):
        size += 1
    return string(value.to_bytes(size, "big", signed=True))


def sequence_of(items):
    return unsigned(len(items)) + b"".join(items)


def choice(number, value, extension=False):
    return bytes([0x80 + number]) + (string(value) if extension else value)


def bitmap(bits, width):
    size = (width + 7) // 8
    number = 0
    for bit in bits:
        number |= 1 << (8 * size - 1 - bit)
    return string(bytes([8 * size - width]) + number.to_bytes(size, "big"))


class Key:
    def __init__(self, curve, secret):
        self.curve, self.size = curve, SIZES[curve]
        self.private = ec.derive_private_key(secret, CURVES[curve])
        numbers = self.private.public_key().public_numbers()
        self.x, self.y = numbers.x.to_bytes(self.size, "big"), numbers.y.to_bytes(self.size, "big")

    def point(self, form="compressed"):
        if form == "uncompressed":
            return choice(4, self.x + self.y)
        return choice(2 + (self.y[-1] & 1), self.x)

    def public(self, form="compressed"):
        return choice(self.curve, self.point(form), self.curve >= 2)

    def sign(self, message, form, algorithm, high_s=False):
        scheme = ec.ECDSA(algorithm(), deterministic_signing=True)
        der = self.private.sign(message, scheme)
        self.private.public_key().verify(der, message, ec.ECDSA(algorithm()))
        r, s = decode_dss_signature(der)
        if high_s:
            order = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
            s = max(s, order - s)
        r, s = r.to_bytes(self.size, "big"), s.to_bytes(self.size, "big")
        return choice(self.curve, curve_point(self.curve, r, form) + s, self.curve >= 2)


def curve_point(curve, x, form):
    if form == "x-only":
        return choice(0, x)
    # One of the two points with this x: which one does not matter.
    sign = 3 if form == "compressed-y-1" else 2
    point = ec.EllipticCurvePublicKey.from_encoded_point(CURVES[curve], bytes([sign]) + x)
    y = point.public_numbers().y.to_bytes(len(x), "big")
    return choice(4, x + y) if form == "uncompressed" else choice(sign, x)


ALGORITHMS = {0: (hashes.SHA256, hashlib.sha256), 1: (hashes.SHA384, hashlib.sha384)}


def hash_of(curve):
    return 0 if SIZES[curve] == 32 else 1


class Certificate:
    """An explicit certificate; its canonical form is written a second time, with other forms of points."""

    def __init__(self, key, issuer=None, name=None, start=NOW // 1_000_000 - 3600, duration=(4, 168), region=None,
                 assurance=None, apps=(), issues=(), requests=(), rollover=False, encryption=None, form="compressed",
                 r_form="x-only", additions=b""):
        self.key, self.issuer = key, issuer
        self.algorithm = hash_of((issuer or self).key.curve)
        presence = (0x40 * bool(region) | 0x20 * (assurance is not None) | 0x10 * bool(apps) | 0x08 * bool(issues)
                    | 0x04 * bool(requests) | 0x02 * rollover | bool(encryption) | 0x80 * bool(additions))

        def to_be_signed(form, canonical):
            out = bytes([presence])
            out += choice(1, string(name.encode())) if name is not None else choice(3, b"")
            out += bytes(3) + bytes(2) + struct.pack("!I", start) + choice(duration[0], struct.pack("!H", duration[1]))
            out += region or b""
            out += bytes([assurance]) if assurance is not None else b""
            for group in (apps, issues, requests):
                out += sequence_of(group) if group else b""
            if encryption:
                out += b"\0" + encryption[0].public("compressed" if canonical else encryption[1])
            return out + choice(0, key.public(form)) + additions

        if issuer is None:
            whose = choice(1, bytes([self.algorithm]))
        elif issuer.digest_algorithm == 0:
            whose = choice(0, issuer.digest)
        else:
            whose = choice(2, issuer.digest, True)
        head = bytes([0x80, 3, 0]) + whose
        plain, canonical = to_be_signed(form, False), to_be_signed("compressed", True)
        algorithm, digest = ALGORITHMS[self.algorithm]
        self.message = digest(canonical).digest() + digest(issuer.canonical if issuer else b"").digest()
        signer = (issuer or self).key
        self.octets = head + plain + signer.sign(self.message, r_form, algorithm)
        self.canonical = head + canonical + signer.sign(self.message, "x-only", algorithm)
        self.digest_algorithm = hash_of(key.curve)
        self.digest = ALGORITHMS[self.digest_algorithm][1](self.canonical).digest()[-8:]
        units = [1e-6, 1e-3, 1, 60, 3600, 216_000, 31_556_952]
        self.fields = {
            "digest": self.digest.hex(), "canonical": self.canonical.hex(), "message": self.message.hex(),
            "start": start, "end": start + int(units[duration[0]] * duration[1]), "apps": len(apps), "issues": len(issues),
        }
        if issuer:
            self.fields["issuer"] = issuer.octets.hex()


def permission(psid, ssp=None, opaque=None):
    if ssp is not None:
        return b"\x80" + unsigned(psid) + choice(1, string(ssp), True)
    if opaque is not None:
        return b"\x80" + unsigned(psid) + choice(0, string(opaque))
    return b"\0" + unsigned(psid)


def ssp_range(psid, value=None, mask=None, kind=None):
    if kind == "all":
        return b"\x80" + unsigned(psid) + choice(1, b"")
    if kind == "opaque":
        return b"\x80" + unsigned(psid) + choice(0, sequence_of([string(b""), string(b"\1\2")]))
    if value is not None:
        return b"\x80" + unsigned(psid) + choice(2, string(value) + string(mask), True)
    return b"\0" + unsigned(psid)


def group(ranges, least=None, more=None, kinds=None):
    presence = 0x80 * (least is not None) | 0x40 * (more is not None) | 0x20 * (kinds is not None)
    out = bytes([presence]) + (choice(1, b"") if ranges is None else choice(0, sequence_of(ranges)))
    out += signed(least) if least is not None else b""
    out += signed(more) if more is not None else b""
    return out + (bytes([kinds]) if kinds is not None else b"")


def place(latitude, longitude):
    return struct.pack("!ii", latitude, longitude)


def data(key, certificate, payload=INNER, psid=36, time=NOW, expiry=None, location=None, learning=None, crl=False,
         encryption=None, additions=None, width=2, signer="digest", r_form="x-only", high_s=False, self_signed=False):
    """Signed data, and its expected fields. `additions`: number to octets of the extension additions."""
    presence = (0x40 * (time is not None) | 0x20 * (expiry is not None) | 0x10 * (location is not None)
                | 0x08 * (learning is not None) | 0x04 * crl | 0x02 * (encryption is not None)
                | 0x80 * (additions is not None))
    header = bytes([presence]) + unsigned(psid)
    header += struct.pack("!Q", time) if time is not None else b""
    header += struct.pack("!Q", expiry) if expiry is not None else b""
    header += struct.pack("!iiH", *location) if location else b""
    header += learning or b""
    header += b"\0" + b"crl" + b"\0\7" if crl else b""
    header += encryption or b""
    if additions is not None:
        header += bitmap(additions, width) + b"".join(string(additions[number]) for number in sorted(additions))
    tbs = b"\x40\x03\x80" + string(payload) + header
    algorithm = hash_of(key.curve)
    scheme, digest = ALGORITHMS[algorithm]
    message = digest(tbs).digest() + digest(b"" if self_signed else certificate.canonical).digest()
    if self_signed:
        who = choice(2, b"")
    elif signer == "digest":
        who = choice(0, certificate.digest)
    else:
        who = choice(1, sequence_of([certificate.octets]))
    octets = b"\x03\x81" + bytes([algorithm]) + tbs + who + key.sign(message, r_form, scheme, high_s)
    fields = {"psid": psid, "message": message.hex(), "payload": len(payload)}
    if not self_signed:
        fields |= {"digest": certificate.digest.hex(), "signer": certificate.octets.hex()}
    if time is not None:
        fields["time"] = time
    if location:
        fields["location"] = ",".join(map(str, location))
    if additions and 0 in additions:
        fields["requests"] = additions[0][2:].hex()
    return octets, fields


def line(verdict, kind, name, octets, fields=None):
    text = ";".join(f"{key}={value}" for key, value in (fields or {}).items())
    print("\t".join([verdict, kind, name, octets.hex(), text]))


def authorities():
    root_key, aa_key = Key(0, 11), Key(1, 12)
    everything = [ssp_range(36, b"\1\xff\xfc", b"\xff\0\3"), ssp_range(37, kind="all"), ssp_range(141), ssp_range(270549118)]
    root = Certificate(root_key, name="Root of the vectors", duration=(6, 3), apps=[permission(622, b"\1"),
                       permission(624, b"\1\x38")], issues=[group(everything, 2, -1, 0xC0), group(None, 1, 0)])
    aa = Certificate(aa_key, root, name="AA with umlaut \u00fc", duration=(6, 1), apps=[permission(623, b"\1\x32")],
                     issues=[group(everything, 1, 0, 0x80)], encryption=(Key(0, 13), "compressed"))
    return root, aa


APPS = [permission(36, b"\1\xff\xfc"), permission(37, b"\1\xff\xff\xff"), permission(141), permission(270549118)]


def certificates(root, aa):
    yield "root", root
    yield "authority-brainpool", aa
    yield "station-p256-of-brainpool-authority", Certificate(Key(0, 20), aa, apps=APPS)
    for curve, text in enumerate(["p256", "bp256", "bp384", "p384"]):
        for secret in (30, 31, 32, 33):
            for form in ("compressed", "uncompressed"):
                key = Key(curve, secret)
                yield f"key-{text}-{secret}-{form}", Certificate(key, aa, apps=APPS, form=form)
        own = Certificate(Key(curve, 40), name=f"root {text}", apps=APPS, issues=[group(None)])
        yield f"root-{text}", own
        for r_form in ("x-only", "compressed-y-0", "compressed-y-1", "uncompressed"):
            yield f"issuer-{text}-r-{r_form}", Certificate(Key(0, 41), own, apps=APPS, r_form=r_form)
    yield "encryption-key-uncompressed", Certificate(Key(1, 42), aa, apps=APPS, encryption=(Key(1, 43), "uncompressed"),
                                                     form="uncompressed", r_form="uncompressed")
    for number, text in enumerate(["us", "ms", "s", "min", "h", "60h", "years"]):
        yield f"duration-{text}", Certificate(Key(0, 44), aa, apps=APPS, duration=(number, 7))
    regions = {
        "circle": choice(0, place(480000000, 110000000) + struct.pack("!H", 5000)),
        "rectangles": choice(1, sequence_of([place(500000000, 0) + place(-1, 200000000)] * 16)),
        "polygon": choice(2, sequence_of([place(number, -number) for number in range(32)])),
        "countries": choice(3, sequence_of([
            choice(0, struct.pack("!H", 276)),
            choice(1, struct.pack("!H", 40) + sequence_of([b"\1", b"\2"])),
            choice(2, struct.pack("!H", 250) + sequence_of([b"\7" + sequence_of([b"\0\1", b"\0\2"])])),
        ])),
    }
    for text, region in regions.items():
        yield f"region-{text}", Certificate(Key(0, 45), aa, apps=APPS, region=region)
    yield "permissions-1", Certificate(Key(0, 46), aa, apps=APPS[:1])
    yield "permissions-32", Certificate(Key(0, 46), aa, apps=[permission(100 + number, opaque=b"x") for number in range(32)])
    yield "permissions-opaque-empty", Certificate(Key(0, 46), aa, apps=[permission(36, opaque=b"")])
    yield "ranges-of-all-kinds", Certificate(Key(0, 47), root, name="", issues=[
        group([ssp_range(36, kind="opaque"), ssp_range(37, kind="all"), ssp_range(141)], 200, -200)])
    yield "assurance-and-requests", Certificate(Key(0, 48), root, name="EA", assurance=0xC0, apps=APPS, rollover=True,
                                                requests=[group(None, kinds=0x40)])
    # flags (BIT STRING of 8 bits) and an unknown addition.
    yield "additions", Certificate(Key(0, 49), aa, apps=APPS,
                                   additions=bitmap([0, 5], 6) + string(b"\x80") + string(b"unknown"))


def good_data(aa):
    key, other = Key(0, 20), Key(0, 21)
    station = Certificate(key, aa, apps=APPS)
    bare = Certificate(other, aa, apps=APPS, form="uncompressed", r_form="compressed-y-0")
    yield "digest", data(key, station)
    yield "certificate", data(key, station, signer="certificate")
    yield "certificate-uncompressed", data(other, bare, signer="certificate")
    yield "digest-of-uncompressed", data(other, bare)
    yield "high-s", data(key, station, high_s=True)
    for form in ("compressed-y-0", "compressed-y-1", "uncompressed"):
        yield f"r-{form}", data(key, station, r_form=form)
    for curve, text in enumerate(["p256", "bp256", "bp384", "p384"]):
        signer = Key(curve, 50)
        certificate = Certificate(signer, aa, apps=APPS)
        for which in ("digest", "certificate"):
            for form in ("x-only", "compressed-y-1", "uncompressed"):
                yield f"{text}-{which}-{form}", data(signer, certificate, signer=which, r_form=form)
    for size in (0, 1, 0x7F, 0x80, 0xFF, 0x100, 1400):
        yield f"payload-{size}", data(key, station, payload=bytes(size))
    for text, time in (("zero", 0), ("largest", (1 << 64) - 1)):
        yield f"time-{text}", data(key, station, time=time)
    yield "no-time", data(key, station, time=None)
    for psid in (36, 37, 127, 128, 141, 255, 256, 540801, 270549118):
        yield f"psid-{psid}", data(key, station, psid=psid)
    yield "denm", data(key, station, psid=37, location=(480000000, 110000000, 4096), signer="certificate")
    yield "location-least", data(key, station, location=(-900000000, -1799999999, 0))
    yield "location-most", data(key, station, location=(900000001, 1800000001, 65535))
    for width in (1, 2, 3, 4, 5, 8, 9, 16, 17, 64):
        yield f"bitmap-{width}", data(key, station, additions={0: b"\1\1abc"}, width=width)
    yield "requests-8", data(key, station, additions={0: b"\1\x08" + b"abcdefghijklmnopqrstuvwx"})
    yield "requests-0", data(key, station, additions={0: b"\1\0"})
    yield "requested-certificate", data(key, station, additions={1: aa.octets})
    yield "both-additions", data(key, station, additions={0: b"\1\1abc", 1: aa.octets})
    yield "unknown-additions", data(key, station, additions={0: b"\1\1abc", 2: b"\1\7", 63: bytes(200)}, width=64)
    yield "all-fields", data(key, station, expiry=NOW + 1, location=(1, 2, 3), learning=b"xyz", crl=True,
                             encryption=choice(0, b"\0" + Key(0, 60).public()), additions={0: b"\1\1abc"})
    yield "symmetric-key", data(key, station, encryption=choice(1, choice(0, bytes(16))))
    yield "self-signed", data(key, station, psid=623, self_signed=True)


def bad(aa):
    """Malformed data, each in one place."""
    key = Key(0, 20)
    station = Certificate(key, aa, apps=APPS)
    octets, _ = data(key, station, additions={0: b"\1\1abc"})
    carried, _ = data(key, station, signer="certificate")
    at = {"version": 0, "content": 1, "hash": 2, "payload": 3, "inner-version": 4, "inner-content": 5}
    for text, place_of in at.items():
        for value in (0x00, 0x82, 0xFF):
            if octets[place_of] != value:
                changed = bytearray(octets)
                changed[place_of] = value
                if bytes(changed) != octets and not (text == "hash" and value == 0):
                    yield "data", f"{text}-{value:02x}", bytes(changed)

    def swap(what, old, new, name, of=octets, kind="data"):
        assert of.count(old) >= 1, (name, old.hex())
        return kind, name, of.replace(old, new, 1)

    header = b"\xc0\x01\x24"
    yield swap("preamble", header, b"\xc1\x01\x24", "header-unused-bit")
    yield swap("psid", header, b"\xc0\x02\x00\x24", "psid-not-shortest")
    yield swap("psid", header, b"\xc0\x00", "psid-empty")
    yield swap("psid", header, b"\xc0\x05\x01\0\0\0\0", "psid-of-five-octets")
    extension = b"\x02\x06\x80\x05\x01\x01abc"
    yield swap("bitmap", extension, b"\x01\x06\x05\x01\x01abc", "bitmap-empty")
    yield swap("bitmap", extension, b"\x02\x08\x80\x05\x01\x01abc", "bitmap-8-unused")
    yield swap("bitmap", extension, b"\x02\x06\xa0\x05\x01\x01abc", "bitmap-unused-bit-set")
    yield swap("bitmap", extension, b"\x0a\0\x80" + bytes(8) + b"\x05\x01\x01abc", "bitmap-of-72")
    yield swap("requests", extension, b"\x02\x06\x80\x06\x01\x01abcd", "requests-too-long")
    yield swap("requests", extension, b"\x02\x06\x80\x04\x01\x01ab", "requests-too-short")
    yield swap("requests", extension, b"\x02\x06\x80\x1d\x01\x09" + b"a" * 27, "requests-9")
    yield swap("requests", extension, b"\x02\x06\x80\x81\x05\x01\x01abc", "length-not-shortest")
    yield swap("requests", extension, b"\x02\x06\x80\x83\0\0\x05\x01\x01abc", "length-of-three-octets")
    yield swap("requested", extension, b"\x02\x06\x40\x05\x01\x01abc", "requested-certificate-none")
    payload = b"\x40\x03\x80" + string(INNER)
    yield swap("payload", payload, b"\x40\x03\x80\x81" + string(INNER), "payload-length-not-shortest")
    yield swap("payload", payload, b"\x60" + payload[1:], "payload-hash-of-external-data")
    digest = choice(0, station.digest) + b"\x80\x80"
    yield swap("signer", digest, b"\x83" + digest[1:], "signer-unknown")
    yield swap("signer", digest, digest[:9] + b"\x84\x80", "signature-of-unknown-curve")
    yield swap("signer", digest, digest[:9] + b"\x80\x81", "signature-point-fill")
    yield swap("signer", digest, digest[:9] + b"\x82\x80", "signature-p384-too-short")
    chain = b"\x81\x01\x01\x80\x03\x00"
    yield swap("signer", chain, b"\x81\x01\x00\x80\x03\x00", "no-certificate", carried)
    yield swap("signer", chain, b"\x81\x01\x02\x80\x03\x00", "two-certificates", carried)
    yield swap("signer", chain, b"\x81\x01\x01\x80\x03\x01", "implicit-certificate", carried)
    yield swap("signer", chain, b"\x81\x01\x01\x00\x03\x00", "certificate-unsigned", carried)
    for cut in (0, 1, 3, 5, 40, len(octets) // 2, len(octets) - 33, len(octets) - 1):
        yield "data", f"cut-to-{cut}", octets[:cut]

    def certificate(old, new, name):
        return swap(name, old, new, name, station.octets, "certificate")

    yield certificate(b"\x80\x03\x00", b"\x80\x02\x00", "certificate-version")
    yield certificate(b"\x10\x83\0\0\0\0\0", b"\x10\x80\0\0\0\0\0", "certificate-linkage")
    yield certificate(b"\x10\x83\0\0\0\0\0", b"\x10\x82\x01x\0\0\0\0\0", "certificate-binary-id")
    yield certificate(b"\x10\x83\0\0\0\0\0", b"\x10\x81\x01\xff\0\0\0\0\0", "certificate-name-not-utf8")
    yield certificate(b"\x84\x00\xa8", b"\x87\x00\xa8", "certificate-duration-unit")
    yield certificate(sequence_of(APPS), b"\1\0", "no-permissions")
    yield certificate(sequence_of(APPS), sequence_of([permission(36)] * 33), "permissions-33")
    yield certificate(sequence_of(APPS), sequence_of([permission(36, bytes(32))]), "ssp-of-32")
    yield certificate(choice(0, key.public()), choice(1, key.public()), "reconstruction-value")
    yield "certificate", "certificate-with-more", station.octets + b"\0"
    large = Certificate(key, aa, apps=[permission(1000 + number, bytes(31)) for number in range(30)])
    yield "certificate", "certificate-of-more-than-1024", large.octets


def main():
    root, aa = authorities()
    for name, certificate in certificates(root, aa):
        line("good", "certificate", name, certificate.octets, certificate.fields)
    for name, (octets, fields) in good_data(aa):
        line("good", "data", name, octets, fields)
    for kind, name, octets in bad(aa):
        line("bad", kind, name, octets)


if __name__ == "__main__":
    sys.exit(main())
