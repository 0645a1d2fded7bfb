//! Repair of what other programs have removed or changed.

use super::Host;
use crate::error::Error;
use crate::nft::TableMonitor;
use core::time::Duration;

/// Shortest and longest interval between repairs.
pub(super) const REPAIR_PAUSE: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(60));

/// Interval of reconciliations of the whole plan, which happen only while nothing else does.
pub(super) const RECONCILE_INTERVAL: Duration = Duration::from_secs(300);

/// Time in which MPTCP endpoints of an earlier daemon must be put again: routers answer a solicitation sooner.
pub(super) const ENDPOINT_ADOPTION: Duration = Duration::from_secs(10);

/// Shortest interval between comparisons of the sysctls, changes of which the kernel does not announce. The host does not wake
/// for them.
const SYSCTL_INTERVAL: Duration = Duration::from_secs(10);

impl Host {
    pub(super) fn schedule_repair(&mut self) {
        if self.repair_at.is_none() && self.executor.is_incomplete() {
            self.repair_at = Some(self.now() + self.repair_pause);
        }
    }

    /// Installs again what others removed, at growing intervals while that is refused; and reconciles the whole plan
    /// when nothing else happens.
    pub(super) fn repair(&mut self) -> Result<(), Error> {
        let now = self.now();
        if self.repair_at.is_some_and(|at| at <= now) {
            self.repair_at = None;
            let repaired = self.executor.repair();
            self.repair_pause = if repaired > 0 { REPAIR_PAUSE.0 } else { (self.repair_pause * 2).min(REPAIR_PAUSE.1) };
        }
        if now.since(self.sysctls_checked) >= SYSCTL_INTERVAL {
            self.sysctls_checked = now;
            self.executor.check_sysctls(now);
            self.executor.check_devices();
        }
        if self.reconcile_at.is_some_and(|at| at <= now) {
            let quiet = self.queue.is_empty();
            self.reconcile_at = Some(now + if quiet { RECONCILE_INTERVAL } else { REPAIR_PAUSE.0 });
            if quiet {
                self.executor.mptcp.adopting = false;
                self.executor.reconcile()?;
            }
        }
        Ok(())
    }

    /// New chains may be those of a firewall. Loading a firewall usually removes all tables first, those of roam6 too.
    pub(super) fn read_nft_changes(&mut self) -> Result<(), Error> {
        let changed = self.nft_changes.as_ref().map(TableMonitor::read).unwrap_or_default();
        if changed.chains {
            self.check_firewall()?;
        }
        if !changed.removed {
            return Ok(());
        }
        for repaired in [self.receiver.repair(), self.executor.repair_source_filters()] {
            match repaired {
                Ok(true) => self.executor.notice("restored nftables rules that another program had removed"),
                Ok(false) => {}
                Err(error) => self.executor.notice(error),
            }
        }
        Ok(())
    }

    pub(super) fn check_firewall(&mut self) -> Result<(), Error> {
        let news = self.firewall.check(self.clock.now(), self.executor.tunnels.as_mut())?;
        news.into_iter().for_each(|text| self.executor.notice(text));
        Ok(())
    }
}
