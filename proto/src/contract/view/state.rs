//! Roles and states of views: enums whose names in JSON, tables and metrics are given once. A reader of an older
//! version keeps names that it does not know.

use core::fmt;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Defines enums with a name for each variant.
macro_rules! named {
    ($($(#[$doc:meta])* $name:ident { $($(#[$about:meta])* $variant:ident = $text:literal,)+ })+) => { $(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $name {
            $($(#[$about])* $variant,)+
            /// A name that only another version of roam6 knows.
            Unknown(Box<str>),
        }

        impl $name {
            /// Its name in JSON, tables and metrics.
            pub fn as_str(&self) -> &str {
                match self { $($name::$variant => $text,)+ $name::Unknown(text) => text }
            }

            /// All names that this version knows.
            pub const NAMES: &'static [&'static str] = &[$($text),+];
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<$name, D::Error> {
                let text = Box::<str>::deserialize(deserializer)?;
                Ok(match &*text { $($text => $name::$variant,)+ _ => $name::Unknown(text) })
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.as_str())
            }
        }
    )+ };
}

named! {
    /// The role that a binding belongs to.
    BindingRole {
        /// An entry of the binding cache.
        HomeAgent = "home_agent",
        /// An entry of the binding update list.
        MobileRouter = "mobile_router",
    }

    /// The state of a binding.
    BindingState {
        /// Registered.
        Bound = "bound",
        /// A registration is in progress.
        Registering = "registering",
        /// The home agent rejects the Binding Updates.
        Refused = "refused",
        /// The mobile router is at home.
        Home = "home",
    }

    /// What a fault of a registration or of a path is, for programs; its text is for people.
    FaultKind {
        /// Updates are not answered; nothing more is known.
        Unanswered = "unanswered",
        /// Updates are not answered, but pings are.
        UnansweredPinged = "unanswered_pinged",
        /// Neither updates nor pings are answered, or a router reports that there is no way.
        Unreachable = "unreachable",
        /// A filter on the way reports that it prohibits the packets.
        Prohibited = "prohibited",
        /// The peer reports that it knows no mobility headers.
        NoHomeAgent = "no_home_agent",
        /// Updates over IPv4 are not answered.
        Ipv4Unanswered = "ipv4_unanswered",
        /// A message does not verify with the key.
        NotVerified = "not_verified",
        /// The home address is not in the prefix table.
        NotInTable = "not_in_table",
        /// Updates are refused with a status.
        Refused = "refused",
        /// The key is that of an invitation that is used or has expired, or was exchanged for another one.
        FormerKey = "former_key",
        /// Updates are answered, packets through the tunnel are not.
        TunnelSilent = "tunnel_silent",
        /// Another mobile router registers the same home address with the same key.
        Stolen = "stolen",
        /// The peer does not encrypt, or not this path: no data is sent, or none is accepted.
        NotEncrypted = "not_encrypted",
    }

    /// The use of an interface.
    LinkRole {
        /// Egress interface of a mobile router.
        Uplink = "uplink",
        /// Ingress interface of a mobile router.
        Ingress = "ingress",
        /// Interface on the home link.
        Home = "home",
        /// Uplink of Shim6.
        Shim = "shim",
        /// Interface of a mobile network node.
        MobileNetworkNode = "mnn",
    }

    /// The state of an interface.
    LinkState {
        /// There is no interface of this name.
        NoInterface = "no such interface",
        /// Down, or without carrier.
        Down = "down",
        /// Up and in use.
        Up = "up",
        /// Sends Router Advertisements.
        Advertising = "advertising",
        /// On the home link.
        Home = "home",
        /// Its care-of address is registered.
        Visited = "visited",
        /// Its IPv4 care-of address is registered.
        Ipv4 = "IPv4",
        /// Its IPv4 care-of address is registered, with a NAT on the path.
        Ipv4BehindNat = "IPv4 behind NAT",
        /// Its care-of address is not registered yet.
        Registering = "registering",
        /// The home agent rejects the registration.
        Refused = "refused",
        /// Ready, but another uplink is registered.
        Standby = "standby",
        /// Probes are not answered.
        Silent = "silent",
        /// Probes are answered again, or its round trip and loss are within the limits again, for too short a time yet.
        Recovering = "recovering",
        /// Its round trip or loss exceeds the limits: used only if no other is better.
        Degraded = "degraded",
        /// Its data plan is used up, and nothing but signalling of the link may cross it.
        Exhausted = "data plan used up",
        /// No default router.
        NoRouter = "no router",
        /// Routers advertise no prefix for address configuration.
        RouterWithoutPrefix = "router without prefix",
        /// There is IPv4 only, and no home agent has an IPv4 address.
        NoIpv4HomeAgent = "IPv4 only, no home_agents_ipv4",
        /// DHCPv6 is in progress.
        WaitingForDhcpv6 = "waiting for DHCPv6",
        /// No care-of address.
        NoAddress = "no address",
        /// Duplicate Address Detection is in progress.
        CheckingAddress = "checking address",
    }

    /// The state of a path of a tunnel.
    PathState {
        /// In use.
        Up = "up",
        /// Registered, without traffic.
        Standby = "standby",
        /// A former care-of address that still receives.
        Left = "left",
        /// The home agent has not acknowledged its care-of address yet.
        Registering = "registering",
    }

    /// The state of an MPTCP endpoint, or of a candidate.
    EndpointState {
        /// An endpoint of the kernel.
        InUse = "in use",
        /// Its address is deprecated, or its link was left.
        Deprecated = "deprecated",
        /// Its link is down.
        LinkDown = "link down",
        /// Its link has no router.
        NoRouter = "no router",
        /// Waits for its route, or for its turn.
        Waiting = "waiting",
        /// Not needed.
        Spare = "spare",
    }

    /// The origin of a prefix advertised in the mobile network.
    PrefixRole {
        /// A mobile network prefix.
        Home = "home",
        /// Delegated by DHCPv6.
        Delegated = "delegated",
        /// The on-link prefix of a visited link.
        Shared = "shared",
    }

    /// The state of a prefix advertised in the mobile network.
    PrefixState {
        /// Advertised as preferred.
        Preferred = "preferred",
        /// Advertised as deprecated.
        Deprecated = "deprecated",
        /// Advertised with a valid lifetime of 0.
        Withdrawn = "withdrawn",
    }

    /// How a generated address is proved.
    GeneratedBy {
        /// Hash-based address (RFC 5535).
        Hba = "hba",
        /// Cryptographically generated address (RFC 3972).
        Cga = "cga",
    }

    /// The state of a generated address.
    GeneratedAddressState {
        /// Duplicate Address Detection is in progress.
        Tentative = "tentative",
        /// Preferred.
        Preferred = "preferred",
        /// Deprecated.
        Deprecated = "deprecated",
    }

    /// The state of a Shim6 context (RFC 5533 §6.2).
    ContextState {
        /// ESTABLISHED.
        Established = "established",
        /// I1-SENT.
        I1Sent = "i1-sent",
        /// I2-SENT.
        I2Sent = "i2-sent",
        /// I2BIS-SENT.
        I2bisSent = "i2bis-sent",
    }

    /// The state of the reachability protocol (RFC 5534 §6).
    ReachabilityState {
        /// Operational.
        Operational = "operational",
        /// Exploring.
        Exploring = "exploring",
        /// `InboundOK`.
        InboundOk = "inbound ok",
    }

    /// How a locator of the peer was verified.
    LocatorProof {
        /// Member of the HBA set.
        Hba = "hba",
        /// CGA signature.
        Cga = "cga",
        /// It is the ULID.
        Ulid = "ulid",
    }

    /// The state of an entry of the location table.
    StationState {
        /// This station.
        Own = "own",
        /// This station, without a position fix.
        OwnNoFix = "own, no fix",
        /// A neighbour.
        Neighbour = "neighbour",
        /// Not a neighbour.
        Known = "known",
    }

    /// The state of congestion control on a channel (ETSI TS 102 687 §5.3).
    CongestionState {
        /// The channel is free enough.
        Relaxed = "relaxed",
        /// The first limit.
        Active1 = "active 1",
        /// The second limit.
        Active2 = "active 2",
        /// The third limit.
        Active3 = "active 3",
        /// The last limit.
        Restrictive = "restrictive",
    }

    /// The state of the ego position.
    PositionState {
        /// A position fix.
        Fix = "fix",
        /// The fix was lost.
        NoFix = "no fix",
        /// There was no fix yet.
        Never = "never",
    }
}
