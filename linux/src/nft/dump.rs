//! Dumps of nftables: base chains with their policy, and what rules and sets compare packets with.

use super::attribute::*;
use super::{ICMP_FILTER_TABLE, SOURCE_FILTER_TABLE};
use crate::error::Error;
use crate::netlink::attribute::{find, parse_attributes, text_of};
use crate::netlink::socket::{encode, exchange, open, repeat_dump};
use netlink_packet_core::NLM_F_DUMP;
use netlink_sys::protocols;
use nix::errno::Errno;
use nix::libc;

/// Octets of the family, the version and the resource before the attributes.
const HEAD: usize = 4;
const GET_CHAIN: u16 = 0x0a04;
const GET_RULE: u16 = 0x0a07;
const GET_SET: u16 = 0x0a0a;
const GET_SET_ELEMENT: u16 = 0x0a0d;
const NFTA_CHAIN_POLICY: u16 = 5;
const NFTA_SET_TABLE: u16 = 1;
const NFTA_SET_NAME: u16 = 2;
const NFTA_SET_ELEM_LIST_ELEMENTS: u16 = 3;
const NFTA_SET_ELEM_KEY: u16 = 1;
/// Most values kept of one table's rules and sets, and most sets read.
const MAX_VALUES: usize = 65_536;
const MAX_SETS: usize = 256;

/// A base chain.
#[derive(Debug)]
pub(crate) struct Chain {
    pub(crate) family: u8,
    pub(crate) table: String,
    pub(crate) name: String,
    pub(crate) hook: i32,
    pub(crate) drops: bool,
}

/// What a rule compares with.
pub(crate) struct Rule {
    pub(crate) family: u8,
    pub(crate) table: String,
    pub(crate) chain: String,
    /// It drops or rejects whatever reaches it.
    pub(crate) drops_all: bool,
    pub(crate) compared: Vec<Vec<u8>>,
}

/// The keys of a set.
pub(crate) struct Set {
    pub(crate) family: u8,
    pub(crate) table: String,
    pub(crate) keys: Vec<Vec<u8>>,
}

/// The name of a family of chains for packets.
pub(crate) fn family_name(family: u8) -> Option<&'static str> {
    match i32::from(family) {
        libc::NFPROTO_IPV6 => Some("ip6"),
        libc::NFPROTO_IPV4 => Some("ip"),
        libc::NFPROTO_INET => Some("inet"),
        _ => None,
    }
}

/// The base chains of other programs; none without nftables.
///
/// # Errors
/// The kernel's, if it refuses the dump.
pub(crate) fn base_chains() -> Result<Vec<Chain>, Error> {
    dump(GET_CHAIN, 0, &[], |family, attributes| {
        let hook = find(attributes, NFTA_CHAIN_HOOK)?;
        let text = |kind| find(attributes, kind).map(text_of);
        let table = text(NFTA_CHAIN_TABLE)?;
        let own = [ICMP_FILTER_TABLE, SOURCE_FILTER_TABLE].contains(&table.as_str());
        let policy = find(attributes, NFTA_CHAIN_POLICY).and_then(number_of);
        (!own).then_some(Chain {
            family,
            table,
            name: text(NFTA_CHAIN_NAME)?,
            hook: number_of(find(hook, NFTA_HOOK_HOOKNUM)?)?.cast_signed(),
            drops: policy == Some(libc::NF_DROP.cast_unsigned()),
        })
    })
}

/// All rules.
///
/// # Errors
/// The kernel's, if it refuses the dump.
pub(crate) fn rules() -> Result<Vec<Rule>, Error> {
    dump(GET_RULE, 0, &[], |family, attributes| {
        let expressions = find(attributes, NFTA_RULE_EXPRESSIONS)?;
        let compared = parse_attributes(expressions).filter_map(|(_, expression)| compared_by(expression));
        let text = |kind| find(attributes, kind).map(text_of);
        Some(Rule {
            family,
            table: text(NFTA_RULE_TABLE)?,
            chain: text(NFTA_RULE_CHAIN)?,
            drops_all: drops_all(expressions),
            compared: compared.map(<[u8]>::to_vec).collect(),
        })
    })
}

/// Whether a rule has no condition, and its verdict is to drop or reject.
fn drops_all(expressions: &[u8]) -> bool {
    let mut drops = false;
    for (_, expression) in parse_attributes(expressions) {
        let name = find(expression, NFTA_EXPR_NAME).map(text_of).unwrap_or_default();
        let data = find(expression, NFTA_EXPR_DATA).unwrap_or_default();
        drops |= match name.as_str() {
            "counter" | "log" => false,
            "reject" => true,
            "immediate" => verdict_of(data) == Some(libc::NF_DROP.cast_unsigned()),
            "target" => find(data, NFTA_TARGET_NAME).map(text_of).as_deref() == Some("REJECT"),
            _ => return false,
        };
    }
    drops
}

fn verdict_of(immediate: &[u8]) -> Option<u32> {
    let verdict = find(find(immediate, NFTA_IMMEDIATE_DATA)?, NFTA_DATA_VERDICT)?;
    find(verdict, NFTA_VERDICT_CODE).and_then(number_of)
}

/// The value of a comparison.
fn compared_by(expression: &[u8]) -> Option<&[u8]> {
    let name = text_of(find(expression, NFTA_EXPR_NAME)?);
    let data = find(expression, NFTA_EXPR_DATA)?;
    if name == "cmp" { find(find(data, NFTA_CMP_DATA)?, NFTA_DATA_VALUE) } else { None }
}

/// All sets, those without a name too.
///
/// # Errors
/// The kernel's, if it refuses a dump.
pub(crate) fn sets() -> Result<Vec<Set>, Error> {
    let named = dump(GET_SET, 0, &[], |family, attributes| {
        let text = |kind| find(attributes, kind).map(text_of);
        Some((family, text(NFTA_SET_TABLE)?, text(NFTA_SET_NAME)?))
    })?;
    let mut found = Vec::new();
    for (family, table, name) in named.into_iter().take(MAX_SETS) {
        let request = [text(NFTA_SET_TABLE, &table), text(NFTA_SET_NAME, &name)].concat();
        let keys = dump(GET_SET_ELEMENT, family, &request, |_, attributes| {
            let elements = find(attributes, NFTA_SET_ELEM_LIST_ELEMENTS)?;
            Some(parse_attributes(elements).filter_map(|(_, element)| key_of(element)).collect::<Vec<_>>())
        });
        // A set may be gone meanwhile.
        let keys = keys.unwrap_or_default().into_iter().flatten().take(MAX_VALUES).collect();
        found.push(Set { family, table, keys });
    }
    Ok(found)
}

fn key_of(element: &[u8]) -> Option<Vec<u8>> {
    find(find(element, NFTA_SET_ELEM_KEY)?, NFTA_DATA_VALUE).map(<[u8]>::to_vec)
}

/// A number in network byte order.
fn number_of(value: &[u8]) -> Option<u32> {
    value.first_chunk().map(|octets| u32::from_be_bytes(*octets))
}

/// Dumps objects: `read` gets the family and the attributes of each.
fn dump<T>(kind: u16, family: u8, attributes: &[u8], read: impl Fn(u8, &[u8]) -> Option<T>) -> Result<Vec<T>, Error> {
    let what = "nftables";
    // Without nftables there are none.
    let Ok(socket) = open(protocols::NETLINK_NETFILTER, what) else { return Ok(Vec::new()) };
    let request = encode(kind, NLM_F_DUMP, 0, &[&[family, 0, 0, 0][..], attributes].concat());
    repeat_dump(|| {
        let mut found = Vec::new();
        let changed = exchange(&socket, &request, 0, |message| {
            let payload = message.payload();
            let (family, rest) = (payload.first(), payload.get(HEAD..));
            if let (Some(family), Some(rest)) = (family, rest)
                && found.len() < MAX_VALUES
            {
                found.extend(read(*family, rest));
            }
        });
        match changed {
            // A kernel without nftables.
            Err((Errno::EINVAL | Errno::EOPNOTSUPP | Errno::EPROTONOSUPPORT, _)) => Ok((found, false)),
            Err((_, why)) => Err(Error::new(what, why)),
            Ok(changed) => Ok((found, changed)),
        }
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails at the assertion")]
mod tests {
    use super::*;

    #[test]
    fn rules_that_drop_whatever_reaches_them_are_recognised() {
        let expression = |name: &str, data: Vec<u8>| {
            nested(NFTA_LIST_ELEM, &[text(NFTA_EXPR_NAME, name), nested(NFTA_EXPR_DATA, &[data])])
        };
        let verdict = |code: u32| {
            let verdict = nested(NFTA_DATA_VERDICT, &[number(NFTA_VERDICT_CODE, code)]);
            expression("immediate", nested(NFTA_IMMEDIATE_DATA, &[verdict]))
        };
        let (counter, condition) = (expression("counter", Vec::new()), expression("cmp", Vec::new()));
        let rejects = expression("target", text(NFTA_TARGET_NAME, "REJECT"));
        for (rule, expected) in [
            (vec![counter.clone(), verdict(0)], true),
            (vec![expression("reject", Vec::new())], true),
            (vec![counter.clone(), rejects], true),
            (vec![condition, verdict(0)], false),
            (vec![verdict(1)], false),
            (vec![counter], false),
            (vec![], false),
        ] {
            let whole = rule.concat();
            assert_eq!(drops_all(&whole), expected, "{whole:?}");
            (0..whole.len()).for_each(|length| _ = drops_all(whole.get(..length).unwrap()));
        }
    }

    #[test]
    fn values_of_comparisons_are_found() {
        let value = nested(NFTA_CMP_DATA, &[attribute(NFTA_DATA_VALUE, b"lan0\0")]);
        let whole = [text(NFTA_EXPR_NAME, "cmp"), nested(NFTA_EXPR_DATA, &[value])].concat();
        assert_eq!(compared_by(&whole), Some(&b"lan0\0"[..]));
        for length in 0..whole.len() - 4 {
            assert_eq!(compared_by(whole.get(..length).unwrap()), None, "{length}");
        }
    }
}
