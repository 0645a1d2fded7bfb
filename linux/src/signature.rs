//! Signatures, verified for the engines: ECDSA by ring. The work of one is about 40 us, and the engine limits how many it asks
//! for, so it is done where the request is executed; the engine has each answer with the next inputs.

use ring::signature::{ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, UnparsedPublicKey};
use roam6_proto::contract::signature::{SignatureAlgorithm, VerificationRequest, VerificationResult};

/// Verifies a signature.
pub(crate) fn verify(request: &VerificationRequest) -> VerificationResult {
    let VerificationRequest { id, algorithm, key, message, signature } = request;
    let algorithm = match algorithm {
        SignatureAlgorithm::EcdsaP256Sha256 => &ECDSA_P256_SHA256_FIXED,
        SignatureAlgorithm::EcdsaP384Sha384 => &ECDSA_P384_SHA384_FIXED,
    };
    let valid = UnparsedPublicKey::new(algorithm, key).verify(message, signature).is_ok();
    VerificationResult { id: *id, valid }
}

#[cfg(test)]
mod tests {
    use super::*;
    use p256::elliptic_curve::sec1::ToEncodedPoint;
    use roam6_wire::security::{Certificate, Curve, SignedData};

    /// Packets that OpenSSL has signed.
    const VECTORS: &str = include_str!("../../wire/tests/wire/vectors/security.tsv");

    fn octets(hex: &str) -> Vec<u8> {
        let octet = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
        hex.as_bytes().chunks(2).map(octet).collect()
    }

    /// The signature of a packet as a request; `None` for other curves, and for packets signed by themselves.
    fn request(line: &str) -> Option<VerificationRequest> {
        let ["good", "data", _, hex, fields] = line.split('\t').collect::<Vec<_>>()[..] else { return None };
        let signer = octets(fields.split(';').find_map(|field| field.strip_prefix("signer="))?);
        let (packet, signer) = (octets(hex), Certificate::parse(&signer).unwrap());
        let signed = SignedData::read(&packet).unwrap();
        let point = signer.verification_key.point.sec1().unwrap();
        let (algorithm, key) = match signer.verification_key.curve {
            Curve::NistP256 => {
                let key = p256::PublicKey::from_sec1_bytes(&point).unwrap().to_encoded_point(false);
                (SignatureAlgorithm::EcdsaP256Sha256, key.as_bytes().to_vec())
            }
            Curve::NistP384 => {
                let key = p384::PublicKey::from_sec1_bytes(&point).unwrap().to_encoded_point(false);
                (SignatureAlgorithm::EcdsaP384Sha384, key.as_bytes().to_vec())
            }
            _ => return None,
        };
        Some(VerificationRequest {
            id: 7,
            algorithm,
            key,
            message: signed.message(Some(&signer)).octets().to_vec(),
            signature: [signed.signature.r.x, signed.signature.s].concat(),
        })
    }

    #[test]
    fn signatures_of_openssl_are_valid_until_an_octet_changes() {
        let requests: Vec<VerificationRequest> = VECTORS.lines().filter_map(request).collect();
        let of = |algorithm| requests.iter().filter(|request| request.algorithm == algorithm).count();
        assert!(of(SignatureAlgorithm::EcdsaP256Sha256) > 40 && of(SignatureAlgorithm::EcdsaP384Sha384) > 4);
        for request in requests {
            assert_eq!(verify(&request), VerificationResult { id: 7, valid: true });
            type Part = fn(&mut VerificationRequest) -> &mut Vec<u8>;
            let parts: [Part; 3] = [|it| &mut it.message, |it| &mut it.signature, |it| &mut it.key];
            for part in parts {
                let mut changed = request.clone();
                *part(&mut changed).last_mut().unwrap() ^= 1;
                assert!(!verify(&changed).valid);
                part(&mut changed).clear();
                assert!(!verify(&changed).valid);
            }
        }
    }
}
