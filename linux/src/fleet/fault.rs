//! What the errors of etcd mean (codes of gRPC, texts of etcd's `rpctypes`).

use etcd_client::Error as EtcdError;
use roam6_proto::contract::fleet::StoreFault;
use std::fmt;

/// Why the store does not do what it was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Fault {
    /// A node does not answer, or answers with an invalid message.
    Unreachable(String),
    /// A fault of the store that the operator must correct.
    Store(StoreFault),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Unreachable(why) => f.write_str(why),
            Fault::Store(fault) => fault.fmt(f),
        }
    }
}

/// What is known of a request that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Failure {
    /// The store has refused it: nothing was changed.
    Refused(Fault),
    /// The store may have executed it, or may still.
    Doubtful(Fault),
}

impl Failure {
    /// The fault behind it.
    pub(super) fn fault(self) -> Fault {
        match self {
            Failure::Refused(fault) | Failure::Doubtful(fault) => fault,
        }
    }
}

// Codes of gRPC.
const INVALID_ARGUMENT: i32 = 3;
const PERMISSION_DENIED: i32 = 7;
const UNAUTHENTICATED: i32 = 16;

/// What an error of the client means.
pub(super) fn failure(error: &EtcdError) -> Failure {
    match error {
        EtcdError::GRpcStatus(status) => judge(i32::from(status.code()), status.message()),
        other => Failure::Doubtful(Fault::Unreachable(other.to_string())),
    }
}

fn judge(code: i32, text: &str) -> Failure {
    let is = |part: &str| text.contains(part);
    let credentials = matches!(code, PERMISSION_DENIED | UNAUTHENTICATED)
        || code == INVALID_ARGUMENT && ["authentication failed", "user name is empty"].into_iter().any(is);
    if credentials {
        return Failure::Refused(Fault::Store(StoreFault::Credentials(text.to_owned())));
    }
    if is("database space exceeded") {
        return Failure::Refused(Fault::Store(StoreFault::Full));
    }
    if is("no leader") {
        return Failure::Refused(Fault::Store(StoreFault::NoQuorum));
    }
    // The request was given to a leader, and what became of it is unknown.
    if is("request timed out") || is("leader changed") {
        return Failure::Doubtful(Fault::Store(StoreFault::NoQuorum));
    }
    let fault = Fault::Unreachable(text.to_owned());
    if code == INVALID_ARGUMENT || is("too many requests") { Failure::Refused(fault) } else { Failure::Doubtful(fault) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_the_store_are_told_apart() {
        let refused = |code, text| match judge(code, text) {
            Failure::Refused(fault) => fault,
            Failure::Doubtful(fault) => panic!("{text}: {fault}"),
        };
        let credentials = |fault| matches!(fault, Fault::Store(StoreFault::Credentials(_)));
        assert!(credentials(refused(3, "etcdserver: user name is empty")));
        assert!(credentials(refused(7, "etcdserver: permission denied")));
        assert!(credentials(refused(16, "etcdserver: invalid auth token")));
        assert_eq!(refused(8, "etcdserver: mvcc: database space exceeded"), Fault::Store(StoreFault::Full));
        assert_eq!(refused(14, "etcdserver: no leader"), Fault::Store(StoreFault::NoQuorum));
        assert!(matches!(refused(3, "etcdserver: too many operations in txn request"), Fault::Unreachable(_)));
        for doubtful in ["etcdserver: request timed out", "etcdserver: leader changed", "transport error", ""] {
            assert!(matches!(judge(14, doubtful), Failure::Doubtful(_)), "{doubtful}");
        }
    }
}
