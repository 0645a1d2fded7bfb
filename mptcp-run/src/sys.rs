//! System calls of seccomp notification, which `nix` does not wrap. All functions are safe with any argument.
#![allow(unsafe_code)]

use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};

/// One instruction of a classic BPF filter.
pub(crate) use libc::sock_filter as FilterStep;

/// Takes ownership of a descriptor that the kernel has just passed, as in a control message.
pub(crate) fn own(descriptor: RawFd) -> OwnedFd {
    // SAFETY: the descriptor is new and has no other owner: the caller has it from the kernel and keeps no copy.
    unsafe { OwnedFd::from_raw_fd(descriptor) }
}

/// Opens an MPTCP socket; `kind` is the type argument of socket(2), with its flags.
pub(crate) fn mptcp_socket(family: libc::c_int, kind: libc::c_int) -> io::Result<OwnedFd> {
    // SAFETY: takes no pointers.
    let fd = check(unsafe { libc::socket(family, kind | libc::SOCK_CLOEXEC, libc::IPPROTO_MPTCP) })?;
    // SAFETY: the descriptor is new and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Installs a filter on the system calls of this process and its descendants, for good. Returns the descriptor of the
/// notifications (seccomp_unotify(2)).
pub(crate) fn install_filter(program: &[FilterStep]) -> io::Result<OwnedFd> {
    const SET_FILTER: libc::c_int = 1;
    const NEW_LISTENER: libc::c_int = 8;
    let len = u16::try_from(program.len()).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))?;
    let filter = libc::sock_fprog { len, filter: program.as_ptr().cast_mut() };
    // SAFETY: `filter` points at `program`, which the kernel copies and does not write to.
    let fd = unsafe { libc::syscall(libc::SYS_seccomp, SET_FILTER, NEW_LISTENER, std::ptr::from_ref(&filter)) };
    let fd = check(libc::c_int::try_from(fd).unwrap_or(-1))?;
    // SAFETY: the descriptor is new and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// A system call that waits for an answer (`struct seccomp_notif`).
#[repr(C)]
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct SeccompCall {
    pub(crate) id: u64,
    pub(crate) process: u32,
    _flags: u32,
    _number: u32,
    _architecture: u32,
    _instruction: u64,
    pub(crate) arguments: [u64; 6],
}

/// The magic number of the ioctl requests (`SECCOMP_IOC_MAGIC`); their numbers depend on the processor.
const SECCOMP: u8 = b'!';

/// Waits for the next call.
pub(crate) fn next_call(listener: impl AsFd) -> io::Result<SeccompCall> {
    let request = nix::request_code_readwrite!(SECCOMP, 0, size_of::<SeccompCall>());
    let mut call = SeccompCall::default();
    // SAFETY: `SeccompCall` is all zeros and of the form and size the request names.
    check(unsafe { libc::ioctl(listener.as_fd().as_raw_fd(), request, std::ptr::from_mut(&mut call)) })?;
    Ok(call)
}

/// Answers a call with a duplicate of `socket`, which completes it.
pub(crate) fn answer_call(listener: impl AsFd, id: u64, socket: impl AsFd, close_on_exec: bool) -> io::Result<()> {
    #[repr(C)]
    struct AddFd {
        id: u64,
        flags: u32,
        from: u32,
        to: u32,
        descriptor_flags: u32,
    }
    const SEND: u32 = 2;
    let request = nix::request_code_write!(SECCOMP, 3, size_of::<AddFd>());
    let from = socket.as_fd().as_raw_fd().cast_unsigned();
    let descriptor_flags = if close_on_exec { libc::O_CLOEXEC.cast_unsigned() } else { 0 };
    let add = AddFd { id, flags: SEND, from, to: 0, descriptor_flags };
    // SAFETY: `AddFd` is of the form and size the request names, and only read.
    check(unsafe { libc::ioctl(listener.as_fd().as_raw_fd(), request, std::ptr::from_ref(&add)) }).map(drop)
}

/// Lets the kernel execute a call as without a filter.
pub(crate) fn continue_call(listener: impl AsFd, id: u64) -> io::Result<()> {
    #[repr(C)]
    struct Response {
        id: u64,
        value: i64,
        error: i32,
        flags: u32,
    }
    const CONTINUE: u32 = 1;
    let request = nix::request_code_readwrite!(SECCOMP, 1, size_of::<Response>());
    let mut response = Response { id, value: 0, error: 0, flags: CONTINUE };
    // SAFETY: `Response` is of the form and size the request names.
    check(unsafe { libc::ioctl(listener.as_fd().as_raw_fd(), request, std::ptr::from_mut(&mut response)) }).map(drop)
}

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}
