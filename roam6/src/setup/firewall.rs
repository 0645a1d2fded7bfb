//! Rules by which a firewall of this host lets mobile routers in. They are printed, never set.

use roam6_linux::survey::{BaseChain, ChainHook, Manager};
use roam6_wire::Prefix;

/// A chain that drops what no rule accepts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DroppingChain {
    pub(crate) family: &'static str,
    pub(crate) table: String,
    pub(crate) chain: String,
    pub(crate) hook: ChainHook,
}

impl DroppingChain {
    /// A chain, if it drops anything by its policy.
    pub(crate) fn of(chain: &BaseChain) -> Option<DroppingChain> {
        let BaseChain { family, table, chain: name, hook, drops, .. } = chain;
        drops.then(|| DroppingChain { family, table: table.clone(), chain: name.clone(), hook: *hook })
    }

    fn is_for_ipv6(&self) -> bool {
        self.family != "ip"
    }
}

/// Commands that open the firewall for a home agent: signalling and tunnels to it, and packets of the mobile networks through
/// it.
pub(crate) fn commands(chains: &[DroppingChain], managers: &[Manager], (pool, ipv4): (Prefix, bool)) -> Vec<String> {
    if managers.contains(&Manager::Firewalld) {
        let rules = ["--add-protocol=mobility-header", "--add-protocol=ipv6", "--add-port=4191/udp"];
        let set = rules.map(|rule| format!("firewall-cmd --permanent {rule}"));
        return set.into_iter().chain(["firewall-cmd --reload".to_owned()]).collect();
    }
    if managers.contains(&Manager::Ufw) {
        let before = |chain: &str, what: &str| {
            format!("add to /etc/ufw/before6.rules, before COMMIT: -A {chain} {what} -j ACCEPT")
        };
        let input = ["-p icmpv6", "-p 135", "-p 41"].map(|what| before("ufw6-before-input", what));
        let forward = ["-s", "-d"].map(|way| before("ufw6-before-forward", &format!("{way} {pool}")));
        let port = ["ufw allow 4191/udp".to_owned(), "ufw reload".to_owned()];
        return input.into_iter().chain(forward).chain(port).collect();
    }
    let mut commands = Vec::new();
    for chain in chains {
        let DroppingChain { family, table, chain: name, hook } = chain;
        let rules: Vec<String> = match hook {
            ChainHook::Input if chain.is_for_ipv6() => {
                vec!["meta l4proto { ipv6-icmp, 135, 41 } accept".to_owned(), "udp dport 4191 accept".to_owned()]
            }
            ChainHook::Input if ipv4 => vec!["udp dport 4191 accept".to_owned()],
            ChainHook::Forward if chain.is_for_ipv6() => {
                vec![format!("ip6 daddr {pool} accept"), format!("ip6 saddr {pool} accept")]
            }
            _ => Vec::new(),
        };
        commands.extend(rules.iter().map(|rule| format!("nft insert rule {family} {table} {name} {rule}")));
    }
    commands
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_for_chains_that_drop() {
        let chain = |family: &'static str, name: &str, hook| DroppingChain {
            family,
            table: "filter".to_owned(),
            chain: name.to_owned(),
            hook,
        };
        let pool: Prefix = "2001:db8:100::/56".parse().unwrap();
        let all = [
            chain("inet", "input", ChainHook::Input),
            chain("ip", "INPUT", ChainHook::Input),
            chain("ip6", "FORWARD", ChainHook::Forward),
            chain("ip", "FORWARD", ChainHook::Forward),
        ];
        assert_eq!(
            commands(&all, &[Manager::NetworkManager], (pool, true)),
            [
                "nft insert rule inet filter input meta l4proto { ipv6-icmp, 135, 41 } accept",
                "nft insert rule inet filter input udp dport 4191 accept",
                "nft insert rule ip filter INPUT udp dport 4191 accept",
                "nft insert rule ip6 filter FORWARD ip6 daddr 2001:db8:100::/56 accept",
                "nft insert rule ip6 filter FORWARD ip6 saddr 2001:db8:100::/56 accept",
            ]
        );
        assert_eq!(commands(&all, &[], (pool, false)).len(), 4);
        assert_eq!(commands(&[], &[], (pool, true)), [""; 0]);
        assert!(
            commands(&all, &[Manager::Firewalld], (pool, true)).iter().all(|line| line.starts_with("firewall-cmd "))
        );
        assert!(commands(&all, &[Manager::Ufw], (pool, true)).contains(&"ufw allow 4191/udp".to_owned()));
    }
}
