//! `roam6 setup`: makes a home agent of this host, from what it finds and at most three answers, and invites the first mobile
//! router. It writes two files and starts the service; it opens no firewall and changes no setting of the network.

pub(crate) mod args;

use super::invite::args::{AgentConfigArgs, InviteArgs, QrKind};
use super::invite::{Issued, described, issue, write_svg};
use super::output::{print, to_json};
use super::prompt::Prompt;
use crate::config;
use crate::config::home_agent::is_shared;
use crate::exit::Failure;
use crate::files;
use crate::invitation::{MAX_NAME, is_name};
use crate::service::{self, CONFIG_FILE, NewFiles};
use crate::setup::firewall::{DroppingChain, commands};
use crate::setup::host::{AgentHost, Delivery};
use crate::setup::plan::{AgentPlan, SharedLink, TABLE_FILE, divide};
use args::{Ipv4Choice, SetupArgs};
use roam6_linux::survey::{base_chains, managers};
use roam6_wire::Prefix;
use serde::Serialize;
use std::fs;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The result for programs.
#[derive(Serialize)]
struct Document<'a> {
    schema: u8,
    files: Vec<PathBuf>,
    firewall: Vec<String>,
    invitation: &'a Issued,
}

/// `roam6 setup`.
///
/// # Errors
/// See [`Failure`].
pub(crate) fn setup(args: &SetupArgs) -> Result<ExitCode, Failure> {
    let prompt = Prompt::new(args.yes, args.invitation.json);
    refuse_existing(&args.dir)?;
    if !nix::unistd::geteuid().is_root() {
        return Err(Failure::Other("run this as root: it looks at the firewall, and asks the router".to_owned()));
    }
    let host = AgentHost::read()?;
    let address = agent_address(args, &host)?;
    prompt.say(host.describe(address));
    let plan = AgentPlan { ipv4: agent_ipv4(args, &host, prompt)?, ..prefixes(args, &host, address, prompt)? };
    let name = router_name(args, prompt)?;
    let config = args.dir.join(CONFIG_FILE);
    let start = service::has_service(&args.dir) && !args.no_start;
    prompt.say(format!(
        "Will write {} and {TABLE_FILE}: home network {}, a /{} of {} for each mobile router.",
        config.display(),
        plan.home,
        plan.length,
        plan.pool
    ));
    let then = if start { " and start roam6" } else { "" };
    prompt.confirm(&format!("3. Write the files{then}?"))?;
    let (files, issued) = write(args, (&plan, &name), &config)?;
    if start {
        service::start(&args.dir, prompt)?;
        prompt.say(format!("ready: home agent {address}"));
    } else {
        prompt.say(format!("Written. Start it with:  {}", service::start_command(&args.dir).join(" ")));
    }
    let firewall = firewall(&plan, prompt);
    if let Some(svg) = &args.invitation.svg {
        write_svg(svg, issued.text())?;
    }
    if args.invitation.json {
        return Ok(print(&to_json(&Document { schema: 1, files, firewall, invitation: &issued })));
    }
    prompt.say(format!("\n{}", described(&issued, args.invitation.qr)));
    prompt
        .say("On the mobile router:  roam6 join     (paste it there)       Another mobile router:  roam6 invite NAME");
    Ok(ExitCode::SUCCESS)
}

/// Never overwrites anything.
fn refuse_existing(dir: &Path) -> Result<(), Failure> {
    let files = [CONFIG_FILE, TABLE_FILE].map(|name| dir.join(name));
    match files.into_iter().find(|path| fs::symlink_metadata(path).is_ok()) {
        None => Ok(()),
        Some(path) => Err(Failure::Other(format!(
            "already set up: {} exists; `roam6 invite NAME` adds a mobile router",
            path.display()
        ))),
    }
}

/// The address of the home agent.
fn agent_address(args: &SetupArgs, host: &AgentHost) -> Result<Ipv6Addr, Failure> {
    match args.address {
        Some(address) if host.has(address) => Ok(address),
        Some(address) => Err(Failure::Usage(format!("--address {address} is on no interface of this host"))),
        None => host.address().ok_or_else(|| {
            Failure::Other(
                "this host has no global IPv6 address, and a home agent needs one: enable IPv6 in the provider's console, or get a \
                 prefix from a tunnel broker"
                    .to_owned(),
            )
        }),
    }
}

/// The IPv4 address for uplinks that have IPv4 only.
fn agent_ipv4(
    args: &SetupArgs,
    host: &AgentHost,
    prompt: Prompt,
) -> Result<Option<(Ipv4Addr, Option<Ipv4Addr>)>, Failure> {
    let own = match args.ipv4 {
        Some(Ipv4Choice::None) => return Ok(None),
        Some(Ipv4Choice::Address(address)) if host.has(address.to_ipv6_mapped()) => Some(address),
        Some(Ipv4Choice::Address(address)) => {
            return Err(Failure::Usage(format!("--ipv4 {address} is on no interface of this host")));
        }
        None => host.ipv4,
    };
    if let Some(address) =
        own.filter(|address| args.public_ipv4.is_none() && (address.is_private() || is_shared(*address)))
    {
        prompt.say(format!(
            "{address} is private: uplinks that have IPv4 only do without this home agent. If a 1:1 NAT leads here, say so with --public-ipv4."
        ));
    }
    Ok(own.map(|address| (address, args.public_ipv4)))
}

/// The prefix of mobile networks, and how it is divided.
fn prefixes(args: &SetupArgs, host: &AgentHost, address: Ipv6Addr, prompt: Prompt) -> Result<AgentPlan, Failure> {
    if !host.has_router() {
        prompt.say("There is no IPv6 default route: this host is unreachable until there is one.");
    }
    let on_link: Vec<Prefix> = host.on_link().collect();
    let mut random = [0; 5];
    files::random(&mut random)?;
    let plan = |pool: Prefix, shared: Option<SharedLink>| {
        let others: Vec<Prefix> = on_link.iter().copied().filter(|_| shared.is_none()).collect();
        let (home, length) = divide(pool, address, (args.length, &others), random)?;
        Ok(AgentPlan { address, home, pool, length, shared, ipv4: None })
    };
    let divided = |pool: Prefix| plan(pool, None);
    let checked = |pool: Prefix| {
        let shared = host.shared_link(address).filter(|link| link.prefix == pool);
        if let Some(link) = shared.filter(|_| is_shareable(host, address, pool)) {
            prompt.say(format!("{pool} is on-link: the home agent answers for its addresses. {ALONE}"));
            return plan(pool, Some(link));
        }
        let plan = divided(pool).map_err(|why: String| format!("{why}. {ASK_PROVIDER}"))?;
        match host.delivery(address, pool) {
            Delivery::Routed => prompt.say(format!("{pool} is routed to this host: a packet for it came back.")),
            Delivery::Unknown => prompt.say(format!(
                "Whether {pool} is routed to this host is not known: {} returns no packet for it. If it is not, no packet for a mobile network arrives.",
                host.router_name()
            )),
            Delivery::OnLink => {
                let router = host.router_name();
                return Err(format!("{pool} is not routed to this host: {router} looks for its addresses on the link. {ASK_PROVIDER}"));
            }
            Delivery::NotRouted(router) => {
                return Err(format!("{pool} is not routed to this host: {router} has no route to it. {ASK_PROVIDER}"));
            }
        }
        Ok(plan)
    };
    if let Some(pool) = args.prefix {
        return checked(pool).map_err(Failure::Other);
    }
    let found = host.routed_prefix(address).filter(|pool| divided(*pool).is_ok());
    match found {
        Some(pool) => {
            prompt.say(format!("Routed prefix: {pool} (a packet for it came back from {}).", host.router_name()))
        }
        None => prompt.say(format!("Routed prefix: none found. {ASK_PROVIDER}")),
    }
    let own = host.shared_link(address).filter(|link| found.is_none() && is_shareable(host, address, link.prefix));
    if let Some(link) = &own {
        prompt.say(format!(
            "Or: {} is on-link, and can be the network of one mobile router; the home agent answers for its addresses. {ALONE}",
            link.prefix
        ));
    }
    let default = found.or(own.as_ref().map(|link| link.prefix)).map(|pool| pool.to_string());
    prompt.ask("1. Prefix for mobile networks", (default.as_deref(), "--prefix"), |text| {
        let pool = text.parse::<Prefix>().map_err(|why| why.to_string())?;
        match own.clone().filter(|link| link.prefix == pool) {
            Some(link) => plan(pool, Some(link)),
            None if Some(pool) == found => divided(pool),
            None => checked(pool),
        }
    })
}

/// Whether packets for a network of this host come to it if it answers for their addresses.
fn is_shareable(host: &AgentHost, address: Ipv6Addr, network: Prefix) -> bool {
    matches!(host.delivery(address, network), Delivery::OnLink | Delivery::Routed)
}

/// On which condition an on-link prefix can be a mobile network's.
const ALONE: &str = "Only if no other customer has addresses in it: ask the provider";

/// What a provider has to do.
const ASK_PROVIDER: &str = "Ask the provider to route a prefix (a /56, or at least a second /64) to the address of this host; some \
                            have a button for it in their console";

fn router_name(args: &SetupArgs, prompt: Prompt) -> Result<String, Failure> {
    let check = |text: &str| {
        let rule = || format!("a name has letters, digits, `-`, `_` and `.`, {MAX_NAME} octets at most");
        is_name(text).then(|| text.to_owned()).ok_or_else(rule)
    };
    match &args.name {
        Some(name) => check(name).map_err(Failure::Usage),
        None => prompt.ask("2. Name of the first mobile router", (Some("van"), "--name"), check),
    }
}

/// Writes the configuration, and the prefix table with the first invitation.
fn write(args: &SetupArgs, (plan, name): (&AgentPlan, &str), path: &Path) -> Result<(Vec<PathBuf>, Issued), Failure> {
    let mut written = NewFiles::new();
    written.create(path, &plan.config(), 0o644)?;
    written.adopt(args.dir.join(TABLE_FILE));
    let output = super::invite::args::InvitationOutputArgs {
        expires: args.invitation.expires,
        svg: None,
        qr: QrKind::None,
        json: false,
    };
    let config = AgentConfigArgs { config: path.to_owned() };
    let invite = InviteArgs { name: name.to_owned(), prefix: Vec::new(), length: None, again: false, output, config };
    let issued = issue(&invite)?;
    let loaded = config::load(path).map_err(Failure::Config)?;
    match loaded.refused_rows() {
        [] => Ok((written.keep(), issued)),
        refused => Err(Failure::Config(refused.to_vec())),
    }
}

/// Prints what a firewall of this host has to let in.
fn firewall(plan: &AgentPlan, prompt: Prompt) -> Vec<String> {
    let chains: Vec<DroppingChain> = base_chains().unwrap_or_default().iter().filter_map(DroppingChain::of).collect();
    let commands = commands(&chains, &managers(), (plan.pool, plan.ipv4.is_some()));
    if commands.is_empty() {
        prompt.say("No firewall of this host drops anything. Where the provider's console has one, let ICMPv6, the IPv6 protocols 135 \
                    and 41, and UDP port 4191 in.");
    } else {
        prompt.say("Your firewall drops what it does not know: open it yourself, also for the next boot, and that of the provider's \
                    console if it has one:");
        commands.iter().for_each(|command| prompt.say(format!("    {command}")));
    }
    commands
}
