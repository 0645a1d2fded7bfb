//! Makes the TCP sockets of a program MPTCP, unmodified and statically linked ones too: a filter on its system calls asks
//! us about each TCP socket it wants, and we give it one that speaks MPTCP (seccomp_unotify(2), Linux 5.14). The kernel
//! can do it by itself since 6.6, but for root only, and only where BPF may change what functions return.

use crate::error::{Context, Error};
use crate::sys::{self, FilterStep, filter_step};
use nix::cmsg_space;
use nix::errno::Errno;
use nix::sched::{CloneFlags, setns};
use nix::sys::socket::{ControlMessage, ControlMessageOwned, MsgFlags, recvmsg, sendmsg};
use std::fs::{self, File};
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;

/// Lets all TCP sockets this process and those it starts will make be asked about, by whoever has the other end of
/// `passage`, a socket this process inherited and that is closed here. This cannot be undone. Without root, programs started from now on gain no privileges by set-user-ID bits.
///
/// # Errors
/// The kernel's, as where it is too old or another such filter is there already.
pub fn install_filter(passage: RawFd) -> Result<(), Error> {
    let what = "a filter of system calls";
    let passage = sys::own(passage);
    let filter = filter().ok_or_else(|| Error::new(what, "this processor is not known"))?;
    let listener = match sys::filter_calls(&filter) {
        Err(error) if error.raw_os_error() == Some(libc::EACCES) => {
            nix::sys::prctl::set_no_new_privs().context(what)?;
            sys::filter_calls(&filter)
        }
        result => result,
    };
    let listener = listener.map_err(|error| match error.raw_os_error() {
        Some(libc::EBUSY) => io::Error::new(error.kind(), "another program asks about system calls here already"),
        _ => error,
    });
    let listener = listener.context(what)?;
    let descriptors = [listener.as_raw_fd()];
    let message = [ControlMessage::ScmRights(&descriptors)];
    sendmsg::<()>(passage.as_raw_fd(), &[IoSlice::new(&[0])], &message, MsgFlags::empty(), None).context(what)?;
    Ok(())
}

/// Gives out sockets that speak MPTCP.
#[derive(Debug)]
pub struct Supervisor {
    listener: OwnedFd,
}

impl Supervisor {
    /// Waits for [`submit`] at the other end; `None` if it ended without.
    ///
    /// # Errors
    /// The kernel's.
    pub fn receive(from: &UnixStream) -> Result<Option<Supervisor>, Error> {
        let what = "a filter of system calls";
        let mut space = cmsg_space!(RawFd);
        let mut octet = [0];
        let mut buffer = [IoSliceMut::new(&mut octet)];
        let flags = MsgFlags::MSG_CMSG_CLOEXEC;
        let message = recvmsg::<()>(from.as_raw_fd(), &mut buffer, Some(&mut space), flags).context(what)?;
        let descriptors = message.cmsgs().context(what)?.find_map(|control| match control {
            ControlMessageOwned::ScmRights(descriptors) => descriptors.first().copied(),
            _ => None,
        });
        Ok(descriptors.map(|descriptor| Supervisor { listener: sys::own(descriptor) }))
    }

    /// Goes on with a listener another process has received.
    pub fn resume(listener: OwnedFd) -> Supervisor {
        Supervisor { listener }
    }

    /// The listener, for another process to go on with.
    pub fn into_listener(self) -> OwnedFd {
        self.listener
    }

    /// Answers one call, for which it may have to wait. A program that may have no MPTCP socket gets what it asked for.
    ///
    /// # Errors
    /// The kernel's, but for a call that has ended meanwhile.
    pub fn serve_call(&self) -> Result<(), Error> {
        let answered = sys::next_call(&self.listener).and_then(|call| {
            let kind = call.arguments.get(1).map_or(0, |kind| low(*kind));
            let family = call.arguments.first().map_or(0, |family| low(*family));
            match socket_in_place_of(call.process, family, kind) {
                Ok(socket) => sys::answer_call(&self.listener, call.id, socket, kind & libc::SOCK_CLOEXEC != 0),
                Err(_) => sys::continue_call(&self.listener, call.id),
            }
        });
        match answered {
            // The program was interrupted or has ended.
            Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::EINTR | libc::EINPROGRESS)) => {
                Ok(())
            }
            result => result.context("a filter of system calls"),
        }
    }
}

impl AsFd for Supervisor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

/// A socket in the network namespace of a process.
fn socket_in_place_of(process: u32, family: libc::c_int, kind: libc::c_int) -> io::Result<OwnedFd> {
    let its = format!("/proc/{process}/ns/net");
    let same = fs::metadata(&its)?.ino() == fs::metadata("/proc/self/ns/net")?.ino();
    if same {
        return sys::mptcp_socket(family, kind);
    }
    // Only the thread moves, and it ends at once.
    let make = move || {
        setns(File::open(its)?, CloneFlags::CLONE_NEWNET)?;
        sys::mptcp_socket(family, kind)
    };
    std::thread::spawn(make).join().unwrap_or_else(|_| Err(Errno::EIO.into()))
}

fn low(argument: u64) -> libc::c_int {
    (argument & u64::from(u32::MAX)) as libc::c_int
}

/// Asks about `socket(AF_INET or AF_INET6, SOCK_STREAM with flags, 0 or IPPROTO_TCP)`, allows all else.
fn filter() -> Option<[FilterStep; 15]> {
    const NUMBER: u32 = 0;
    const ARCHITECTURE: u32 = 4;
    const ASK: u32 = 0x7fc0_0000;
    const ALLOW: u32 = 0x7fff_0000;
    /// Of an argument, the half that counts.
    const HALF: u32 = if cfg!(target_endian = "little") { 0 } else { 4 };
    let architecture: u32 = match std::env::consts::ARCH {
        "x86_64" => 0xc000_003e,
        "aarch64" => 0xc000_00b7,
        "riscv64" => 0xc000_00f3,
        "arm" => 0x4000_0028,
        _ => return None,
    };
    let load = |at| filter_step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, at);
    let argument = |number: u32| load(16 + 8 * number + HALF);
    let is = |value: u32, yes, no| filter_step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, yes, no, value);
    let answer = |value| filter_step(libc::BPF_RET | libc::BPF_K, 0, 0, value);
    Some([
        load(ARCHITECTURE),
        is(architecture, 0, 12),
        load(NUMBER),
        is(libc::SYS_socket as u32, 0, 10),
        argument(0),
        is(libc::AF_INET6.cast_unsigned(), 1, 0),
        is(libc::AF_INET.cast_unsigned(), 0, 7),
        argument(1),
        filter_step(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, 0, 0, 0xf),
        is(libc::SOCK_STREAM.cast_unsigned(), 0, 4),
        argument(2),
        is(0, 1, 0),
        is(libc::IPPROTO_TCP.cast_unsigned(), 0, 1),
        answer(ASK),
        answer(ALLOW),
    ])
}
