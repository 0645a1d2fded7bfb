//! Output to the terminal.

pub(crate) mod event_printer;
pub(crate) mod progress;
pub(crate) mod terminal;

pub(crate) use event_printer::print_events_of;
pub(crate) use progress::Progress;
pub(crate) use terminal::{LineStyle, Terminal};
