//! Hooks of other programs' firewalls on the forwarding path.

/// Address families whose forwarded packets a firewall filters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Hooks {
    /// IPv6 packets.
    pub ipv6: bool,
    /// IPv4 packets.
    pub ipv4: bool,
}

impl Hooks {
    /// Whether any family is filtered.
    pub fn any(self) -> bool {
        self.ipv6 || self.ipv4
    }

    /// The union of both.
    pub(crate) fn with(self, other: Hooks) -> Hooks {
        Hooks { ipv6: self.ipv6 || other.ipv6, ipv4: self.ipv4 || other.ipv4 }
    }
}

/// A hook of another program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ForeignHook {
    /// Its name for an operator: `nftables inet filter forward`.
    pub(crate) name: String,
    /// The families it filters.
    pub(crate) hooks: Hooks,
}
