//! How long connecting takes, relayed and through the tunnel, over two equal uplinks.

use crate::experiments::prelude::*;
use crate::topology::bonding::{BONDED, BondingBed, TUNNELLED, link};
use std::net::{TcpListener, TcpStream};

/// Connections of each kind, in turn.
const CONNECTIONS: [usize; 2] = [20, 100];
/// Between two of them: the relays open another bearer meanwhile.
const PAUSE: Duration = Duration::from_millis(100);

pub(super) fn measure(run: &mut Run) -> Result<()> {
    let bed = BondingBed::new([link(20, 40), link(20, 40)])?;
    let [node, correspondent] = bed.ends(true);
    let ports = [TUNNELLED, BONDED];
    let listen = |port| correspondent.host.in_namespace(|| TcpListener::bind((correspondent.address, port)));
    let listeners = ports.map(listen).into_iter().map(|it| it?.map_err(Into::into)).collect::<Result<Vec<_>>>()?;
    let mut taken: [Vec<f64>; 2] = Default::default();
    let connections = if run.quick { CONNECTIONS[0] } else { CONNECTIONS[1] };
    for _ in 0..connections {
        for ((port, of), listener) in ports.into_iter().zip(&mut taken).zip(&listeners) {
            let began = clock::now();
            let near = node.host.in_namespace(|| TcpStream::connect((correspondent.address, port)))??;
            of.push(began.elapsed().as_secs_f64() * 1000.0);
            drop((near, listener.accept()?));
            sleep(PAUSE);
        }
    }
    let [tunnelled, bonded] = &taken;
    run.estimate("connect_over_unbonded", ratio_of_medians(bonded, tunnelled, LEVEL));
    run.rows
        .push(json!({ "kind": "connect", "tunnelled_ms": distribution(tunnelled), "bonded_ms": distribution(bonded) }));
    Ok(())
}
