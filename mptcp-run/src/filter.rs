//! The seccomp filter in the command's process.

use crate::of_filter;
use crate::sys::{self, FilterStep};
use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};
use std::io::{self, IoSlice};
use std::os::fd::{AsRawFd, RawFd};

/// Makes the kernel notify a supervisor of all TCP sockets that this process and its descendants open. The supervisor has
/// the other end of `supervisor`, a Unix socket that this process inherited and that is closed here. This cannot be undone.
/// Without root, programs started from now on gain no privileges by set-user-ID bits.
///
/// # Errors
/// The kernel's, as where it is too old or has another such filter already; or the architecture is unknown.
pub(crate) fn install(supervisor: RawFd) -> io::Result<()> {
    let supervisor = sys::own(supervisor);
    let program = program().ok_or_else(|| of_filter(io::Error::other("unknown processor architecture")))?;
    let listener = match sys::install_filter(&program) {
        Err(error) if error.raw_os_error() == Some(libc::EACCES) => {
            nix::sys::prctl::set_no_new_privs().map_err(of_filter)?;
            sys::install_filter(&program)
        }
        result => result,
    };
    let listener = listener.map_err(|error| match error.raw_os_error() {
        Some(libc::EBUSY) => {
            of_filter(io::Error::new(error.kind(), "another program supervises system calls here already"))
        }
        _ => of_filter(error),
    })?;
    let descriptors = [listener.as_raw_fd()];
    let message = [ControlMessage::ScmRights(&descriptors)];
    sendmsg::<()>(supervisor.as_raw_fd(), &[IoSlice::new(&[0])], &message, MsgFlags::empty(), None)
        .map_err(of_filter)?;
    Ok(())
}

const fn step(code: u32, jt: u8, jf: u8, k: u32) -> FilterStep {
    FilterStep { code: code as u16, jt, jf, k }
}

/// Notifies of `socket(AF_INET or AF_INET6, SOCK_STREAM with flags, 0 or IPPROTO_TCP)`, allows all else.
fn program() -> Option<[FilterStep; 15]> {
    const NUMBER: u32 = 0;
    const ARCHITECTURE: u32 = 4;
    const NOTIFY: u32 = 0x7fc0_0000;
    const ALLOW: u32 = 0x7fff_0000;
    /// Offset of the lower half of an argument.
    const LOWER_HALF: u32 = if cfg!(target_endian = "little") { 0 } else { 4 };
    let architecture: u32 = match std::env::consts::ARCH {
        "x86_64" => 0xc000_003e,
        "aarch64" => 0xc000_00b7,
        "riscv64" => 0xc000_00f3,
        "arm" => 0x4000_0028,
        _ => return None,
    };
    let load = |at| step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, at);
    let argument = |number: u32| load(16 + 8 * number + LOWER_HALF);
    let is = |value: u32, yes, no| step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, yes, no, value);
    let verdict = |value| step(libc::BPF_RET | libc::BPF_K, 0, 0, value);
    Some([
        load(ARCHITECTURE),
        is(architecture, 0, 12),
        load(NUMBER),
        is(libc::SYS_socket as u32, 0, 10),
        argument(0),
        is(libc::AF_INET6.cast_unsigned(), 1, 0),
        is(libc::AF_INET.cast_unsigned(), 0, 7),
        argument(1),
        step(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, 0, 0, 0xf),
        is(libc::SOCK_STREAM.cast_unsigned(), 0, 4),
        argument(2),
        is(0, 1, 0),
        is(libc::IPPROTO_TCP.cast_unsigned(), 0, 1),
        verdict(NOTIFY),
        verdict(ALLOW),
    ])
}
