//! The supervisor, which opens MPTCP sockets for the filtered processes.

use crate::of_filter;
use crate::sys;
use nix::cmsg_space;
use nix::errno::Errno;
use nix::sched::{CloneFlags, setns};
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg};
use std::fs::{self, File};
use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;

/// Answers notifications of a filter.
#[derive(Debug)]
pub(crate) struct Supervisor {
    listener: OwnedFd,
}

impl Supervisor {
    /// Waits for [`crate::filter::install`] at the other end; `None` if that process ended without.
    ///
    /// # Errors
    /// The kernel's.
    pub(crate) fn receive(from: &UnixStream) -> io::Result<Option<Supervisor>> {
        let mut space = cmsg_space!(RawFd);
        let mut octet = [0];
        let mut buffer = [IoSliceMut::new(&mut octet)];
        let flags = MsgFlags::MSG_CMSG_CLOEXEC;
        let message = recvmsg::<()>(from.as_raw_fd(), &mut buffer, Some(&mut space), flags).map_err(of_filter)?;
        let descriptors = message.cmsgs().map_err(of_filter)?.find_map(|control| match control {
            ControlMessageOwned::ScmRights(descriptors) => descriptors.first().copied(),
            _ => None,
        });
        Ok(descriptors.map(|descriptor| Supervisor { listener: sys::own(descriptor) }))
    }

    /// Continues with a listener that another process has received.
    pub(crate) fn resume(listener: OwnedFd) -> Supervisor {
        Supervisor { listener }
    }

    /// The listener, for another process to continue with.
    pub(crate) fn into_listener(self) -> OwnedFd {
        self.listener
    }

    /// Waits for one system call and answers it. A program that may open no MPTCP socket gets the requested one.
    ///
    /// # Errors
    /// The kernel's, but for a call that has ended meanwhile.
    pub(crate) fn serve_call(&self) -> io::Result<()> {
        let answered = sys::next_call(&self.listener).and_then(|call| {
            let kind = call.arguments.get(1).map_or(0, |kind| lower_half(*kind));
            let family = call.arguments.first().map_or(0, |family| lower_half(*family));
            match socket_for(call.process, family, kind) {
                Ok(socket) => sys::answer_call(&self.listener, call.id, socket, kind & libc::SOCK_CLOEXEC != 0),
                Err(_) => sys::continue_call(&self.listener, call.id),
            }
        });
        match answered {
            // The program was interrupted or has ended.
            Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::EINTR | libc::EINPROGRESS)) => {
                Ok(())
            }
            result => result.map_err(of_filter),
        }
    }
}

impl AsFd for Supervisor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

/// Opens an MPTCP socket in the network namespace of a process.
fn socket_for(process: u32, family: libc::c_int, kind: libc::c_int) -> io::Result<OwnedFd> {
    let namespace = format!("/proc/{process}/ns/net");
    let same = fs::metadata(&namespace)?.ino() == fs::metadata("/proc/self/ns/net")?.ino();
    if same {
        return sys::mptcp_socket(family, kind);
    }
    // Only this thread enters the namespace, and it ends at once.
    let open = move || {
        setns(File::open(namespace)?, CloneFlags::CLONE_NEWNET)?;
        sys::mptcp_socket(family, kind)
    };
    std::thread::spawn(open).join().unwrap_or_else(|_| Err(Errno::EIO.into()))
}

fn lower_half(argument: u64) -> libc::c_int {
    (argument & u64::from(u32::MAX)) as libc::c_int
}
