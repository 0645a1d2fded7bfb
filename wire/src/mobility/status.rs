//! Status codes of Binding Acknowledgements, of the options in them, and of Binding Errors.
//! RFC 6275 §6.1.8 and §6.1.9, RFC 3963 §4.2, RFC 4285 §6, RFC 5555 §3.2, RFC 5648 §6.2.
//!
//! See <https://www.iana.org/assignments/mobility-parameters>.

use crate::codepoint::code_points;

code_points! {
    /// Status of a Binding Acknowledgement, or of one Binding Identifier option in it.
    #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(transparent))]
    Status(u8) as number {
        ACCEPTED = 0, "accepted";
        PREFIX_DISCOVERY_NEEDED = 1, "accepted, but prefix discovery is needed";
        MCOA_NOT_COMPLETE = 4, "accepted, but not every care-of address";
        MCOA_RETURN_HOME_WITHOUT_NDP = 5, "accepted, return home without neighbour discovery for the home address";
        UNSPECIFIED = 128, "reason unspecified";
        ADMINISTRATIVELY_PROHIBITED = 129, "administratively prohibited";
        INSUFFICIENT_RESOURCES = 130, "insufficient resources";
        HOME_REGISTRATION_NOT_SUPPORTED = 131, "home registration not supported";
        NOT_HOME_SUBNET = 132, "not home subnet";
        NOT_HOME_AGENT = 133, "not home agent for this mobile node";
        DUPLICATE_ADDRESS = 134, "duplicate address detection failed";
        SEQUENCE_OUT_OF_WINDOW = 135, "sequence number out of window";
        EXPIRED_HOME_NONCE = 136, "expired home nonce index";
        EXPIRED_CARE_OF_NONCE = 137, "expired care-of nonce index";
        EXPIRED_NONCES = 138, "expired nonces";
        REGISTRATION_TYPE_CHANGE = 139, "registration type change disallowed";
        MOBILE_ROUTER_NOT_PERMITTED = 140, "mobile router operation not permitted";
        INVALID_PREFIX = 141, "invalid prefix";
        NOT_AUTHORISED_FOR_PREFIX = 142, "not authorised for prefix";
        FORWARDING_SETUP_FAILED = 143, "forwarding setup failed";
        MESSAGE_ID_MISMATCH = 144, "timestamp not accepted, or UDP encapsulation refused";
        MESSAGE_ID_REQUIRED = 145, "replay protection option required";
        AUTHENTICATION_FAILED = 146, "authentication failed";
        MCOA_MALFORMED = 164, "binding identifier malformed";
        MCOA_NON_MCOA_BINDING_EXISTS = 165, "a binding without binding identifier exists";
        MCOA_PROHIBITED = 166, "several care-of addresses prohibited";
        MCOA_UNKNOWN_CARE_OF = 167, "no care-of address known for the binding identifier";
        MCOA_BULK_PROHIBITED = 168, "bulk registration prohibited";
        MCOA_SIMULTANEOUS_PROHIBITED = 169, "simultaneous home and foreign attachment prohibited";
        INVALID_CARE_OF = 174, "invalid care-of address";
        DELEGATED_PREFIX_NOT_AUTHORISED = 177, "not authorised for delegated prefix";
        DELEGATED_PREFIX_IN_USE = 178, "delegated prefix in use";
    }
}

code_points! {
    /// Status of an IPv4 Address Acknowledgement option (RFC 5555 §3.2.1).
    Ipv4Status(u8) as number {
        ACCEPTED = 0, "accepted";
        UNSPECIFIED = 128, "reason unspecified";
        ADMINISTRATIVELY_PROHIBITED = 129, "administratively prohibited";
        INCORRECT_HOME_ADDRESS = 130, "incorrect IPv4 home address";
        INVALID_ADDRESS = 131, "invalid IPv4 address";
        NO_DYNAMIC_ADDRESS = 132, "dynamic IPv4 home address assignment not available";
        PREFIX_UNAUTHORISED = 133, "prefix allocation unauthorised";
    }
}

code_points! {
    /// Status of a Binding Error.
    ErrorStatus(u8) as "binding error" {
        UNKNOWN_BINDING = 1, "unknown binding for Home Address option";
        UNRECOGNISED_TYPE = 2, "unrecognised MH Type";
    }
}

impl Status {
    /// UDP encapsulation refused: the second meaning of 144, distinguished by the options of the update (RFC 5555 §3.2).
    pub const UDP_ENCAPSULATION_REFUSED: Status = Status(144);

    /// Whether it accepts the request: values below 128.
    pub fn is_accepted(self) -> bool {
        self.0 < 128
    }
}

impl Ipv4Status {
    /// Whether it accepts the request: values below 128.
    pub fn is_accepted(self) -> bool {
        self.0 < 128
    }
}
