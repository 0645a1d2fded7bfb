//! Commands to Shim6.

use crate::base::ids::{AddressPair, ContextId};
use crate::contract::config::shim::ShimConfig;
use roam6_wire::shim6::Fork;
use serde::{Deserialize, Serialize};

/// A command to Shim6.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ShimCommand {
    /// Replaces the settings of the shim.
    #[serde(rename = "shim")]
    Reload(Box<ShimConfig>),
    /// Switches to another locator pair if it is known to work: in one context, or in all contexts that have both
    /// locators.
    #[serde(rename = "use_path")]
    SwitchPath {
        /// The ULID pair of the context; `None` for all contexts.
        ulids: Option<AddressPair>,
        /// The forked instance identifier: packets of sockets with this mark.
        #[serde(default)]
        fork: Fork,
        /// The local and the peer locator.
        path: AddressPair,
    },
    /// Deletes a context.
    #[serde(rename = "end_context")]
    DeleteContext(ContextId),
}
