//! Invitations of mobile routers: `roam6 invite`, which adds a row to the prefix table and prints the row's key with all else
//! that the mobile router needs; `roam6 invitations`; `roam6 revoke`.

pub(crate) mod args;

use super::enroll::new_key;
use super::output::{print, rendered, to_json};
use super::table_file::TableFile;
use crate::config::home_agent::PrefixTableConstraints;
use crate::config::toml_reader::{Anything, from_toml};
use crate::control::client;
use crate::control::part::Part;
use crate::exit::Failure;
use crate::files;
use crate::invitation::{self, Invitation, InvitationId, MAX_PREFIXES, is_name};
use crate::render::table::Table;
use crate::setup::allocate::{next_free, next_home_address};
use crate::setup::qr::Qr;
use args::{InvitationOutputArgs, InvitationsArgs, InviteArgs, QrKind, RevokeArgs};
use roam6_linux::survey::clock_state;
use roam6_proto::base::hex;
use roam6_proto::contract::view::InvitationView;
use roam6_wire::Prefix;
use serde::Serialize;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::IsTerminal;
use std::net::Ipv6Addr;
use std::ops::Range;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, UNIX_EPOCH};

/// Before this time a clock was never set: 2025-01-01, seconds since 1970.
const CLOCK_IS_SET: u64 = 1_735_689_600;

/// A row of the prefix table, as far as invitations go.
#[derive(Clone)]
struct Row {
    name: Option<String>,
    home_address: Ipv6Addr,
    prefixes: Vec<Prefix>,
    invitation: Option<RowInvitation>,
    spi: Option<u32>,
    key: Option<String>,
    /// Keys that an invitation cannot carry, or that are not in the row.
    auth: Option<Anything>,
    ipsec: Option<Anything>,
    key_file: Option<Anything>,
    next: Option<Anything>,
}

from_toml!(extract Row {
    name,
    home_address,
    prefixes = Vec::new(),
    invitation,
    spi,
    key,
    auth,
    ipsec,
    key_file,
    next,
});

#[derive(Clone)]
struct RowInvitation {
    id: String,
    expires: String,
    first: Option<String>,
    key: Option<Anything>,
}

from_toml!(extract RowInvitation { id, expires, first, key });

/// A new invitation, as it is shown.
#[derive(Serialize)]
pub(crate) struct Issued {
    name: String,
    text: String,
    home_address: Ipv6Addr,
    prefixes: Vec<Prefix>,
    expires_unix: u32,
}

impl Issued {
    /// The text of the invitation, in one piece.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }
}

/// A home agent that invites: its settings, and its prefix table, locked.
struct HomeAgentTable {
    settings: PrefixTableConstraints,
    table: TableFile,
    rows: Vec<(Option<Range<usize>>, Row)>,
}

impl HomeAgentTable {
    fn open(config: &Path) -> Result<HomeAgentTable, Failure> {
        let other = |hint: &str| Failure::Other(format!("{}: {hint}", config.display()));
        let settings = PrefixTableConstraints::read(config).ok_or_else(|| {
            other("no [home_agent] table that can be read; `roam6 setup` writes one, `roam6 check` says more")
        })?;
        let path = settings.prefix_table();
        let path =
            path.ok_or_else(|| other("[home_agent] has no prefix_table; write prefix_table = \"mobiles.toml\""))?;
        let table = TableFile::open(path)?;
        let rows = table.rows()?;
        Ok(HomeAgentTable { settings, table, rows })
    }

    fn named(&self, name: &str) -> Option<&(Option<Range<usize>>, Row)> {
        self.rows.iter().find(|(_, row)| row.name.as_deref() == Some(name))
    }

    /// Home address and prefixes of one more mobile router.
    fn allocate(&self, args: &InviteArgs) -> Result<(Ipv6Addr, Vec<Prefix>), String> {
        let home = self.settings.home_prefix().ok_or("the home agent has no home prefix")?;
        let agent = self.settings.address();
        let addresses = self.rows.iter().map(|(_, row)| row.home_address).chain([agent]).collect::<BTreeSet<_>>();
        let home_address =
            next_home_address(home, &addresses).ok_or_else(|| format!("no home address is left in {home}"))?;
        if !args.prefix.is_empty() {
            return Ok((home_address, args.prefix.clone()));
        }
        let (pool, usual) = self.settings.prefix_pool().ok_or(
            "there is no pool of prefixes: name the prefix with --prefix, or write [home_agent.prefix_pool] into the configuration",
        )?;
        let network = Prefix::new(agent, 64).filter(|network| self.settings.shared_prefix() != Some(*network));
        let own = [network, Some(home)];
        let rows = self.rows.iter().flat_map(|(_, row)| row.prefixes.iter().copied());
        let taken: Vec<Prefix> = own.into_iter().flatten().chain(rows).collect();
        let length = args.length.unwrap_or(usual);
        let prefix =
            next_free(pool, length, &taken).ok_or_else(|| format!("no /{length} is left in the pool {pool}"))?;
        Ok((home_address, vec![prefix]))
    }
}

/// `roam6 invite`.
///
/// # Errors
/// See [`Failure`].
pub(crate) fn invite(args: &InviteArgs) -> Result<ExitCode, Failure> {
    let issued = issue(args)?;
    if let Some(svg) = &args.output.svg {
        write_svg(svg, &issued.text)?;
    }
    Ok(print(&shown(&issued, &args.output)))
}

/// Adds the row of a mobile router, or gives it a new key, and makes the invitation.
///
/// # Errors
/// See [`Failure`].
pub(crate) fn issue(args: &InviteArgs) -> Result<Issued, Failure> {
    if !is_name(&args.name) {
        let rule = format!("a name has letters, digits, `-`, `_` and `.`, {} octets at most", invitation::MAX_NAME);
        return Err(Failure::Usage(format!("\"{}\": {rule}", args.name.escape_debug())));
    }
    if args.prefix.len() > MAX_PREFIXES {
        return Err(Failure::Usage(format!("an invitation has {MAX_PREFIXES} prefixes at most")));
    }
    let now = clock_state().unix;
    if now < CLOCK_IS_SET {
        return Err(Failure::Other("the clock of this host is not set; set it first: invitations expire".to_owned()));
    }
    let agent = HomeAgentTable::open(&args.config.config)?;
    let former = agent.named(&args.name);
    let mut kept = KeptKeys::default();
    let (replaced, (home_address, prefixes)) = match (former, args.again) {
        (None, false) => (None, agent.allocate(args)?),
        (Some((place, row)), true) => {
            kept = KeptKeys::of(row);
            (Some(replaceable(place.as_ref(), row)?), (row.home_address, row.prefixes.clone()))
        }
        (None, true) => return Err(Failure::Other(format!("no row of the prefix table has the name {}", args.name))),
        (Some((_, row)), false) => {
            let hint = "choose another name, or give the same mobile router a new key with --again";
            return Err(Failure::Other(format!(
                "{} is in the prefix table already ({}); {hint}",
                args.name, row.home_address
            )));
        }
    };
    let expires = now.saturating_add(args.output.expires.as_secs());
    let invitation = new_invitation(&agent.settings, (&args.name, home_address, prefixes), expires)?;
    let row = row_text(&invitation, &kept);
    let refused = |why: String| Failure::Other(format!("{} not invited: {why}", args.name));
    agent.table.check(&row, replaced.as_ref(), || agent.settings.home_network()).map_err(refused)?;
    match &replaced {
        Some(place) => drop(agent.table.replace(place, Some(row.trim_start()), agent.settings.home_network())?),
        None => agent.table.add(&row)?,
    }
    let Invitation { prefixes, name, expires_unix, .. } = invitation.clone();
    Ok(Issued { text: invitation.encode(), name, home_address, prefixes, expires_unix })
}

/// The place of a row whose key may be replaced.
fn replaceable(place: Option<&Range<usize>>, row: &Row) -> Result<Range<usize>, Failure> {
    let other_keys = row.ipsec.is_some() || row.key_file.is_some() || row.next.is_some() || row.auth.is_some();
    match place.filter(|_| !other_keys && row.prefixes.len() <= MAX_PREFIXES) {
        Some(place) => Ok(place.clone()),
        None => Err(Failure::Other(format!(
            "the row of {} was written by hand, with more than an invitation has; revoke it and invite again, or change its key by hand",
            row.home_address
        ))),
    }
}

fn new_invitation(
    settings: &PrefixTableConstraints,
    (name, home_address, prefixes): (&str, Ipv6Addr, Vec<Prefix>),
    expires: u64,
) -> Result<Invitation, Failure> {
    let mut id = [0; InvitationId::LENGTH];
    files::random(&mut id)?;
    let outside = || Failure::Other(format!("home address {home_address} is in no home prefix"));
    let invitation = Invitation {
        id: InvitationId(id),
        expires_unix: u32::try_from(expires).map_err(|_| Failure::Usage("--expires: too late".to_owned()))?,
        home_agent: settings.address(),
        home_agent_ipv4: settings.public_ipv4(),
        home_address,
        home_prefix: settings.home_prefix_of(home_address).ok_or_else(outside)?,
        prefixes,
        key: new_key()?,
        name: name.to_owned(),
    };
    // What the mobile router would refuse is not given out.
    let own = Invitation::decode(&invitation.encode());
    own.map_err(|why| Failure::Other(format!("{name} not invited: {why}")))
}

/// What stays of a row that is invited again: the former keys are accepted until the new invitation is used.
#[derive(Default)]
struct KeptKeys {
    /// SPI and key of the row, if they are not those of the former invitation.
    own: Option<(u32, String)>,
    /// The first invitation, if the key of the row was one: what it was exchanged for is known by that.
    first: Option<String>,
}

impl KeptKeys {
    fn of(row: &Row) -> KeptKeys {
        match &row.invitation {
            Some(former) if former.key.is_none() => {
                KeptKeys { own: None, first: former.first.clone().or_else(|| Some(former.id.clone())) }
            }
            _ => KeptKeys { own: row.spi.zip(row.key.clone()), first: None },
        }
    }
}

/// The row of the prefix table.
fn row_text(invitation: &Invitation, kept: &KeptKeys) -> String {
    let Invitation { id, name, home_address, prefixes, key, .. } = invitation;
    let secret = hex::encode(&key.secret);
    let first = kept.first.as_ref().map(|first| format!(", first = \"{first}\"")).unwrap_or_default();
    let (beside, (spi, secret)) = match &kept.own {
        Some((spi, own)) => (format!(", spi = {}, key = \"{secret}\"", key.spi), (*spi, own.clone())),
        None => (String::new(), (key.spi, secret)),
    };
    let prefixes: Vec<String> = prefixes.iter().map(|prefix| format!("\"{prefix}\"")).collect();
    format!(
        "\n[[mobile]]\nname = \"{name}\"\nhome_address = \"{home_address}\"\nprefixes = [{}]\n\
         invitation = {{ id = \"{id}\", expires = \"{}\"{first}{beside} }}\nspi = {spi}\nkey = \"{secret}\"\n",
        prefixes.join(", "),
        time(invitation.expires_unix)
    )
}

/// A time as RFC 3339 has it.
fn time(unix: u32) -> String {
    humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_secs(unix.into())).to_string()
}

/// Writes the QR code of an invitation to a file.
///
/// # Errors
/// See [`Failure`].
pub(crate) fn write_svg(path: &Path, text: &str) -> Result<(), Failure> {
    let code = Qr::new(text).ok_or_else(|| Failure::Other("too long for a QR code".to_owned()))?;
    let written = files::create(path, &code.svg(), files::SECRET);
    written.map_err(|error| Failure::Other(format!("{}: {error}; the invitation itself was made", path.display())))
}

/// The text for the terminal, or JSON.
fn shown(issued: &Issued, output: &InvitationOutputArgs) -> String {
    #[derive(Serialize)]
    struct Document<'a> {
        schema: u8,
        invitation: &'a Issued,
    }
    if output.json {
        return to_json(&Document { schema: 1, invitation: issued });
    }
    format!("{}On the mobile router:  roam6 join     (paste it there)\n", described(issued, output.qr))
}

/// The invitation for people.
pub(crate) fn described(issued: &Issued, qr: QrKind) -> String {
    let prefixes: Vec<String> = issued.prefixes.iter().map(Prefix::to_string).collect();
    let expires = time(issued.expires_unix);
    let mut text = format!(
        "Invitation for {}: {}, home address {}, valid until {expires}. It contains the key: keep it secret.\n",
        issued.name,
        prefixes.join(", "),
        issued.home_address
    );
    let _ = writeln!(text, "\n{}", grouped(&issued.text));
    let code = Qr::new(&issued.text);
    if let Some(code) = code {
        match qr {
            QrKind::Utf8 => text.push_str(&code.half_blocks()),
            QrKind::Ascii => text.push_str(&code.ascii()),
            QrKind::Auto if !std::io::stdout().is_terminal() => {}
            QrKind::Auto if is_utf8() => text.push_str(&code.half_blocks()),
            QrKind::Auto => text.push_str(&code.ascii()),
            QrKind::None => {}
        }
    }
    text
}

/// The text of an invitation in lines of ten groups of five letters.
fn grouped(text: &str) -> String {
    let (begin, letters) = text.split_once(':').unwrap_or(("", text));
    let letters: Vec<char> = letters.chars().collect();
    let groups: Vec<String> = letters.chunks(5).map(|group| group.iter().collect()).collect();
    let lines: Vec<String> = groups.chunks(10).map(|line| line.join("-")).collect();
    format!("    {begin}:{}\n", lines.join("-\n    "))
}

/// Whether the terminal has half blocks.
fn is_utf8() -> bool {
    let set =
        ["LC_ALL", "LC_CTYPE", "LANG"].iter().find_map(|name| std::env::var(name).ok().filter(|set| !set.is_empty()));
    set.is_some_and(|set| set.to_ascii_uppercase().replace('-', "").contains("UTF8"))
}

/// One line of `roam6 invitations`.
#[derive(Serialize)]
struct Listed {
    id: Option<String>,
    name: Option<String>,
    home_address: Ipv6Addr,
    prefixes: Vec<Prefix>,
    expires_unix: Option<u64>,
    /// When the key of the invitation was first used, and from which address.
    #[serde(skip_serializing_if = "Option::is_none")]
    used_unix: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    used_by: Option<Ipv6Addr>,
    /// `open`: the invitation may be used; `exchanging`: it was used, and its key is being exchanged; `bound`: it may not be used,
    /// and the mobile router is registered now; `used` and `expired`: the same, and not registered; `enrolled`: not registered,
    /// and the key came by a file.
    state: &'static str,
}

/// The state of a row, see [`Listed`].
fn state_of(expires_unix: Option<u64>, used: Option<&InvitationView>, is_bound: bool, now: u64) -> &'static str {
    match (expires_unix, used) {
        (Some(_), Some(used)) if !used.exchanged => "exchanging",
        (Some(expires), None) if now < expires => "open",
        _ if is_bound => "bound",
        (Some(_), Some(_)) => "used",
        (Some(_), None) => "expired",
        (None, _) => "enrolled",
    }
}

/// `roam6 invitations`.
///
/// # Errors
/// See [`Failure`].
pub(crate) fn list(args: &InvitationsArgs) -> Result<ExitCode, Failure> {
    let agent = HomeAgentTable::open(&args.config.config)?;
    // Without a daemon no router is bound.
    let bindings =
        client::view(Part::Bindings, &args.socket.path()).map(|state| state.view.bindings).unwrap_or_default();
    let bound: BTreeSet<Ipv6Addr> = bindings.iter().map(|binding| binding.home_address.0).collect();
    let used =
        client::view(Part::Invitations, &args.socket.path()).map(|state| state.view.invitations).unwrap_or_default();
    let now = clock_state().unix;
    let listed = agent.rows.iter().map(|(_, row)| {
        let written = row.invitation.as_ref().and_then(|one| humantime::parse_rfc3339(&one.expires).ok());
        let expires_unix = written.and_then(|time| Some(time.duration_since(UNIX_EPOCH).ok()?.as_secs()));
        let (id, name) = (row.invitation.as_ref().map(|one| one.id.clone()), row.name.clone());
        let used = used.iter().find(|used| Some(&used.id) == id.as_ref());
        let state = state_of(expires_unix, used, bound.contains(&row.home_address), now);
        let (used_unix, used_by) = (used.map(|used| used.used_unix), used.map(|used| used.used_by));
        let (home_address, prefixes) = (row.home_address, row.prefixes.clone());
        Listed { id, name, home_address, prefixes, expires_unix, used_unix, used_by, state }
    });
    let listed: Vec<Listed> = listed.collect();
    Ok(print(&rendered(args.json, &listed, || {
        Table::of(
            &listed,
            &[
                ("NAME", |row| row.name.clone().unwrap_or_default()),
                ("HOME ADDRESS", |row| row.home_address.to_string()),
                ("PREFIXES", |row| row.prefixes.iter().map(Prefix::to_string).collect::<Vec<_>>().join(" ")),
                ("EXPIRES", |row| row.expires_unix.and_then(|at| u32::try_from(at).ok()).map(time).unwrap_or_default()),
                ("ID", |row| row.id.clone().unwrap_or_default()),
                ("USED FROM", |row| row.used_by.map(|by| by.to_string()).unwrap_or_default()),
                ("STATE", |row| row.state.to_owned()),
            ],
        )
    })))
}

/// `roam6 revoke`.
///
/// # Errors
/// See [`Failure`].
pub(crate) fn revoke(args: &RevokeArgs) -> Result<ExitCode, Failure> {
    let agent = HomeAgentTable::open(&args.config.config)?;
    let which = args.which.as_str();
    let is_meant = |row: &Row| {
        row.name.as_deref() == Some(which)
            || which.parse() == Ok(row.home_address)
            || row.invitation.as_ref().is_some_and(|one| one.id == which)
    };
    let mut meant = agent.rows.iter().filter(|(_, row)| is_meant(row));
    let (place, row) = match (meant.next(), meant.next()) {
        (Some(found), None) => found,
        (Some(_), Some(_)) => {
            return Err(Failure::Other(format!("several rows have the name {which}; give the home address")));
        }
        (None, _) => {
            let hint = "`roam6 invitations` lists them";
            return Err(Failure::Other(format!(
                "no row of the prefix table has this name, home address or invitation: {hint}"
            )));
        }
    };
    let by_hand = || {
        Failure::Other(format!("the row of {} is no [[mobile]] table of its own; remove it by hand", row.home_address))
    };
    let place = place.as_ref().ok_or_else(by_hand)?;
    report_kept(&agent.table.replace(place, None, agent.settings.home_network())?)?;
    let name = row.name.as_deref().unwrap_or("the row");
    Ok(print(&format!("{name} ({}) revoked: its key is worthless, its prefixes are free\n", row.home_address)))
}

/// A home agent keeps missing rows in force while it refuses others.
fn report_kept(problems: &[crate::config::source::Problem]) -> Result<(), Failure> {
    let Some(first) = problems.first() else { return Ok(()) };
    Err(Failure::Other(format!(
        "the row is removed, but a running home agent keeps it in force until this is corrected: {}",
        first.line()
    )))
}

#[cfg(test)]
mod tests;
