//! What `roam6 join` makes of an invitation: which interfaces become uplinks, which one leads inside, and the files.

pub(crate) mod choose;
pub(crate) mod files;
pub(crate) mod uci;
