//! `roam6 join`: makes a mobile router of this host by an invitation, and waits for the first packet through the tunnel. It
//! writes two files and starts the service; of the host's own network settings it changes nothing.

pub(crate) mod args;
mod progress;

use super::output::to_json;
use super::prompt::Prompt;
use crate::config;
use crate::exit::Failure;
use crate::files::SECRET;
use crate::invitation::Invitation;
use crate::join::choose::{HostLinks, inside_prefix};
use crate::join::files::{self, KEY_FILE, Uplink};
use crate::join::uci;
use crate::paths::STATE_DIR;
use crate::service::{self, CONFIG_FILE, NewFiles};
use args::JoinArgs;
use core::time::Duration;
use progress::Joined;
use roam6_linux::survey::{Manager, clock_state, is_volatile, managers};
use roam6_wire::Prefix;
use serde::Serialize;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::UNIX_EPOCH;

/// What OpenWrt's service makes of the settings, for the daemon.
const PROCD_CONFIG: &str = "/var/etc/roam6.toml";
/// Longest text that is read for an invitation, octets.
const MAX_TEXT: u64 = 16 * 1024;
/// Before this time a clock was never set: 2025-01-01, seconds since 1970.
const CLOCK_IS_SET: u64 = 1_735_689_600;

/// What a mobile router is made of.
struct Plan {
    uplinks: Vec<Uplink>,
    inside: Vec<(String, Prefix)>,
}

/// The result for programs.
#[derive(Serialize)]
struct Document {
    schema: u8,
    files: Vec<PathBuf>,
    /// What the operator has to set beside it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    advice: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bound_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    first_packet_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rtt_ms: Option<f64>,
}

/// `roam6 join`.
///
/// # Errors
/// See [`Failure`].
pub(crate) fn join(args: &JoinArgs) -> Result<ExitCode, Failure> {
    let prompt = Prompt::new(args.yes, args.json);
    refuse_existing(args)?;
    let has_service = if args.uci.is_some() { service::has_procd() } else { service::has_service(&args.dir) };
    let start = has_service && !args.no_start;
    if start && !nix::unistd::geteuid().is_root() {
        return Err(Failure::Other("run this as root: it starts the service".to_owned()));
    }
    let invitation = read_invitation(args, prompt)?;
    refuse_expired(&invitation, prompt)?;
    let links = HostLinks::read()?;
    let plan = plan(args, &invitation, &links, prompt)?;
    if invitation.home_address.is_unique_local() && plan.inside.is_empty() {
        prompt.say(
            "The home address is a unique local one, so this host itself has no address that the Internet reaches.",
        );
    }
    tell_about_managers(&plan, &links, prompt);
    let config = args.uci.clone().unwrap_or_else(|| args.dir.join(CONFIG_FILE));
    let then = if start { ", and start roam6" } else { "" };
    prompt.confirm(&format!("3. Write {} and {KEY_FILE}{then}?", config.display()))?;
    let mut document = write(args, &config, (&invitation, &plan), prompt)?;
    if !start {
        prompt.say(format!("Written. Start it with:  {}", start_command(args)));
        return Ok(finished(args, &document));
    }
    let begun = service::now();
    if args.uci.is_some() {
        service::start_by_procd(prompt)?;
    } else {
        service::start(&args.dir, prompt)?;
    }
    let read_by_daemon = if args.uci.is_some() { Path::new(PROCD_CONFIG) } else { &config };
    let joined = progress::first_packet(&invitation, (read_by_daemon, &plan.inside), (begun, args.wait), prompt)?;
    let Joined { bound, first_packet, round_trip } = joined;
    let rounded = |value: f64| Some((value * 1000.0).round() / 1000.0);
    document.bound_s = rounded(bound.as_secs_f64());
    document.first_packet_s = rounded(first_packet.as_secs_f64());
    document.rtt_ms = rounded(round_trip.as_secs_f64() * 1000.0);
    for (interface, prefix) in &plan.inside {
        prompt.say(format!("Hosts on {interface} get addresses of {prefix} now."));
    }
    prompt.say("Look at it with:  roam6 show links, roam6 show bindings, roam6 watch");
    Ok(finished(args, &document))
}

/// Writes the files, all or none: the key, and the configuration, which is TOML or the settings of OpenWrt.
fn write(
    args: &JoinArgs,
    config: &Path,
    (invitation, plan): (&Invitation, &Plan),
    prompt: Prompt,
) -> Result<Document, Failure> {
    let mut written = NewFiles::new();
    let key = args.dir.join(KEY_FILE);
    written.create(&key, &files::key(invitation), SECRET)?;
    // Where /var is in memory, as on OpenWrt, a restart would lose the key that that of the invitation is exchanged for.
    let state_dir = std::path::absolute(&args.dir).unwrap_or_else(|_| args.dir.clone()).join("state");
    let state_dir = Some(&*state_dir).filter(|_| is_volatile(Path::new(STATE_DIR)) && !is_volatile(&args.dir));
    let toml = files::config(invitation, &plan.uplinks, &plan.inside, state_dir);
    let mut advice = Vec::new();
    if args.uci.is_some() {
        // Settings of OpenWrt become the same TOML, which is tried here and removed again.
        let trial = args.dir.join("join.toml");
        let mut on_trial = NewFiles::new();
        on_trial.create(&trial, &toml, SECRET)?;
        config::load(&trial).map_err(Failure::Config)?;
        drop(on_trial);
        let networks = uci::Networks::read();
        uci::replace(
            config,
            &args.dir,
            &uci::config(invitation, (&plan.uplinks, &plan.inside), (&key, state_dir), &networks),
        )?;
        advice = uci::advice(&plan.inside, &networks);
        advice.iter().for_each(|line| prompt.say(line));
    } else {
        written.create(config, &toml, 0o644)?;
        config::load(config).map_err(Failure::Config)?;
    }
    let mut files = written.keep();
    files.extend(args.uci.clone());
    Ok(Document { schema: 1, files, advice, bound_s: None, first_packet_s: None, rtt_ms: None })
}

fn start_command(args: &JoinArgs) -> String {
    match args.uci {
        Some(_) => service::procd_commands().map(|command| command.join(" ")).join("; "),
        None => service::start_command(&args.dir).join(" "),
    }
}

fn finished(args: &JoinArgs, document: &Document) -> ExitCode {
    if args.json { super::output::print(&to_json(document)) } else { ExitCode::SUCCESS }
}

/// Never overwrites anything, but for settings of OpenWrt that are not enabled: the package's example.
fn refuse_existing(args: &JoinArgs) -> Result<(), Failure> {
    if let Some(file) = args.uci.as_deref().filter(|file| uci::is_enabled(file)) {
        let why = format!("already set up: roam6 is enabled in {}; disable it there to join again", file.display());
        return Err(Failure::Other(why));
    }
    let names: &[&str] = if args.uci.is_some() { &[KEY_FILE] } else { &[CONFIG_FILE, KEY_FILE] };
    match names.iter().map(|name| args.dir.join(name)).find(|path| fs::symlink_metadata(path).is_ok()) {
        None => Ok(()),
        Some(path) => Err(Failure::Other(format!(
            "already set up: {} exists; move it away to join again, or name another folder with --dir",
            path.display()
        ))),
    }
}

fn read_invitation(args: &JoinArgs, prompt: Prompt) -> Result<Invitation, Failure> {
    let limited = |source: &mut dyn Read, name: &str| {
        let mut text = String::new();
        let read = source.take(MAX_TEXT).read_to_string(&mut text);
        read.map(|_| text).map_err(|error| Failure::Other(format!("{name}: {error}")))
    };
    let text = match (&args.file, args.invitation.as_deref()) {
        (Some(file), _) => {
            let name = file.display().to_string();
            let mut opened = fs::File::open(file).map_err(|error| Failure::Other(format!("{name}: {error}")))?;
            limited(&mut opened, &name)?
        }
        (None, Some("-")) => limited(&mut std::io::stdin(), "standard input")?,
        (None, Some(text)) => text.to_owned(),
        (None, None) => prompt.secret("Invitation", "it as an argument, or with --file")?,
    };
    Invitation::decode(&text).map_err(|why| Failure::Other(why.to_string()))
}

fn refuse_expired(invitation: &Invitation, prompt: Prompt) -> Result<(), Failure> {
    let now = clock_state().unix;
    let expires = u64::from(invitation.expires_unix);
    let prefixes: Vec<String> = invitation.prefixes.iter().map(Prefix::to_string).collect();
    let from = format!("From {} for {}", invitation.home_agent, prefixes.join(", "));
    if now < CLOCK_IS_SET {
        prompt.say(format!(
            "{from}. The clock of this host is not set: the home agent decides whether the invitation has expired."
        ));
        return Ok(());
    }
    if expires <= now {
        let when = humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_secs(expires));
        let name = if invitation.name.is_empty() { "NAME" } else { &invitation.name };
        let clock = humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_secs(now));
        let cure = format!("ask for another one (at the home agent: roam6 invite {name} --again)");
        return Err(Failure::Other(format!(
            "the invitation has expired at {when}; {cure}. The clock of this host says {clock}: if that is wrong, set it and \
             try again"
        )));
    }
    let left = crate::config::duration::format_duration(Duration::from_secs(expires - now));
    prompt.say(format!("{from}, valid for {left}."));
    Ok(())
}

/// Uplinks and inside, by flags or answers.
fn plan(args: &JoinArgs, invitation: &Invitation, links: &HostLinks, prompt: Prompt) -> Result<Plan, Failure> {
    prompt.say("Interfaces:");
    for interface in links.usable() {
        prompt.say(format!("  {:<15} {}", interface.name, links.describe(interface)));
    }
    let is_free = |name: &str| {
        links
            .named(name)
            .map(|_| name.to_owned())
            .ok_or_else(|| format!("there is no interface {}", name.escape_debug()))
    };
    let uplinks = |text: &str| {
        let names =
            text.split([' ', ',']).filter(|name| !name.is_empty()).map(is_free).collect::<Result<Vec<_>, _>>()?;
        match names.iter().enumerate().find(|(at, name)| names.iter().take(*at).any(|other| other == *name)) {
            Some((_, twice)) => Err(format!("{twice} is named twice")),
            None if names.is_empty() => Err("name one uplink at least".to_owned()),
            None => Ok(names),
        }
    };
    let found = links.uplinks().iter().map(|interface| interface.name.as_str()).collect::<Vec<_>>().join(" ");
    let found = Some(found.as_str()).filter(|found| !found.is_empty());
    let names = match args.uplink.is_empty() {
        true => prompt.ask("1. Uplinks, the preferred first", (found, "--uplink"), uplinks)?,
        false => uplinks(&args.uplink.join(" ")).map_err(Failure::Usage)?,
    };
    let inside = inside(args, invitation, (links, &names), prompt)?;
    let metered: Vec<String> =
        args.metered.iter().map(|name| is_free(name)).collect::<Result<_, _>>().map_err(Failure::Usage)?;
    if let Some(other) = metered.iter().find(|name| !names.contains(name)) {
        return Err(Failure::Usage(format!("--metered {other} is no uplink")));
    }
    let uplink = |interface: String| Uplink { metered: metered.contains(&interface), interface };
    Ok(Plan { uplinks: names.into_iter().map(uplink).collect(), inside })
}

/// The interfaces that lead inside, each with its /64.
fn inside(
    args: &JoinArgs,
    invitation: &Invitation,
    (links, uplinks): (&HostLinks, &[String]),
    prompt: Prompt,
) -> Result<Vec<(String, Prefix)>, Failure> {
    let usual = inside_prefix(&invitation.prefixes);
    let chosen = |name: &str, prefix: Option<Prefix>| {
        if links.named(name).is_none() {
            return Err(format!("there is no interface {}", name.escape_debug()));
        }
        if uplinks.iter().any(|uplink| uplink == name) {
            return Err(format!("{name} is an uplink"));
        }
        let prefix = prefix.or(usual).ok_or("no prefix of the invitation has room for a /64; answer none")?;
        let own = invitation.prefixes.iter().any(|own| own.covers(prefix));
        if own && prefix.length() == 64 {
            Ok((name.to_owned(), prefix))
        } else {
            Err(format!("{prefix} is no /64 of the mobile network"))
        }
    };
    if args.no_inside {
        return Ok(Vec::new());
    }
    if !args.inside.is_empty() {
        let all = args.inside.iter().map(|(name, prefix)| chosen(name, *prefix));
        return all.collect::<Result<_, _>>().map_err(Failure::Usage);
    }
    let found = links.inside().filter(|interface| !uplinks.contains(&interface.name)).zip(usual);
    let default = found.map_or_else(|| "none".to_owned(), |(interface, prefix)| format!("{} {prefix}", interface.name));
    prompt.ask("2. Inside: interface and its /64, or none", (Some(&default), "--inside or --no-inside"), |text| {
        let words: Vec<&str> = text.split_whitespace().collect();
        match *words.as_slice() {
            ["none"] => Ok(Vec::new()),
            [name] => chosen(name, None).map(|one| vec![one]),
            [name, prefix] => {
                let prefix = prefix.parse::<Prefix>().map_err(|why| why.to_string())?;
                chosen(name, Some(prefix)).map(|one| vec![one])
            }
            _ => Err("write one interface, and its /64 if you like".to_owned()),
        }
    })
}

/// Other programs have to leave IPv6 of the uplinks alone: what to do, never done.
fn tell_about_managers(plan: &Plan, links: &HostLinks, prompt: Prompt) {
    for manager in managers() {
        let managed = |name: &&str| links.named(name).is_some_and(|interface| manager.manages(interface.index));
        let names: Vec<&str> = plan.uplinks.iter().map(|uplink| uplink.interface.as_str()).filter(managed).collect();
        if names.is_empty() {
            continue;
        }
        prompt.say(format!(
            "{manager} manages {}: it must leave IPv6 there alone (docs/beside.md). Do:",
            names.join(", ")
        ));
        for name in names {
            prompt.say(format!("    {}", cure(manager, name)));
        }
    }
}

/// How a program leaves IPv6 of an interface alone.
fn cure(manager: Manager, interface: &str) -> String {
    match manager {
        Manager::NetworkManager => {
            format!(
                "nmcli connection modify \"$(nmcli -g GENERAL.CONNECTION device show {interface})\" ipv6.method ignore"
            )
        }
        Manager::Networkd => format!("in the .network file of {interface}: [Network] IPv6AcceptRA=no, DHCP=ipv4"),
        Manager::Dhcpcd => format!("in /etc/dhcpcd.conf: interface {interface}, and below it: noipv6"),
        Manager::Ufw | Manager::Firewalld | Manager::Mwan3 => format!("see docs/beside.md for {interface}"),
    }
}

#[cfg(test)]
mod tests;
