//! `roam6 doctor`: follows the path of a packet and names the first thing that is wrong, with its cure. All input and output
//! is in `gather`; the judgement is a pure function from facts to findings, in the order of the path.

mod agent;
mod facts;
mod finding;
mod gather;
mod general;
mod inside;
mod registration;
mod render;
#[cfg(test)]
mod tests;
mod uplinks;

pub(crate) use finding::Level;
pub(crate) use gather::{Scope, gather};
pub(crate) use render::{to_json, to_text};

use facts::Facts;
use finding::Findings;

/// What the facts tell.
pub(crate) fn diagnose(facts: &Facts) -> Findings {
    let mut found = Findings::default();
    general::judge(facts, &mut found);
    let (Ok(config), Ok(state)) = (&facts.config, &facts.daemon) else { return found };
    if let Some(router) = &config.mobile_router {
        uplinks::judge(facts, router, state, &mut found);
        registration::judge(facts, router, state, &mut found);
        inside::judge(facts, router, state, &mut found);
    }
    if let Some(agent) = &config.home_agent {
        agent::judge(facts, agent, state, &mut found);
    }
    found
}
