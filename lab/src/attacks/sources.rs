//! A host on the visited link sends packets to the mobile router with sources of the mobile network, or with the home
//! address.

use crate::bed::Host;
use crate::clock;
use crate::topology::nemo::{CORRESPONDENT, NO_DAD, NemoNetwork};
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::net::{Ipv6Addr, SocketAddrV6, UdpSocket};
use std::time::Duration;

const PORT: u16 = 9400;
/// Packets of each source address.
const COUNT: usize = 9;
/// How long packets may take to arrive; later ones are not counted.
const TIMEOUT: Duration = Duration::from_secs(2);

/// The number of such packets that were forwarded to the correspondent or to the mobile network node, and a result row
/// for each source.
pub(crate) fn forwarded_spoofed() -> Result<(usize, Vec<Value>)> {
    let (network, vehicle) = NemoNetwork::with_vehicle(Duration::ZERO, NO_DAD, "")?;
    let attacker = Host::new("evil")?;
    attacker.set_sysctl("ipv6/conf/default/accept_dad", "0")?;
    attacker.set_sysctl("ipv6/conf/default/accept_ra", "0")?;
    let port = network.emulator.add_port(&attacker, "eth0")?;
    network.emulator.plug(port, network.visited[0].link)?;
    let node = vehicle.mnn_address;
    let unused = Ipv6Addr::from_bits(node.to_bits() ^ 0xdead);
    let victim = network.emulator.link_local(vehicle.uplink(0)?)?;
    let mac = network.emulator.link_layer_address(vehicle.uplink(0)?).context("no such port")?;
    attacker.ip(&[
        &format!("neighbour replace {victim} lladdr {mac} dev eth0 nud permanent"),
        &format!("route add {CORRESPONDENT}/128 via {victim} dev eth0"),
        &format!("route add {node}/128 via {victim} dev eth0"),
    ])?;
    let correspondent = network.cn.in_namespace(|| UdpSocket::bind(SocketAddrV6::new(CORRESPONDENT, PORT, 0, 0)))??;
    let inside = vehicle.mnn.in_namespace(|| UdpSocket::bind(SocketAddrV6::new(node, PORT, 0, 0)))??;
    // From the mobile network to the Internet, and to the mobile network itself.
    let cases = [
        ("the node inside", node, CORRESPONDENT, &correspondent),
        ("the mobile network", unused, CORRESPONDENT, &correspondent),
        ("the home address", vehicle.home_address, CORRESPONDENT, &correspondent),
        ("the mobile network, to the node inside", unused, node, &inside),
    ];
    let (mut total, mut rows) = (0, Vec::new());
    for (name, source, to, receiver) in cases {
        // The host cannot have the node's own address while it has a route to it by the link.
        if source == node {
            attacker.ip(&[&format!("route delete {node}/128 via {victim} dev eth0")])?;
        }
        attacker.ip(&[&format!("address add {source}/128 dev eth0 nodad")])?;
        let sender = attacker.in_namespace(|| UdpSocket::bind(SocketAddrV6::new(source, 0, 0, 0)))??;
        for _ in 0..COUNT {
            sender.send_to(b"spoofed", SocketAddrV6::new(to, PORT, 0, 0))?;
        }
        let arrived = count_datagrams(receiver)?;
        attacker.ip(&[&format!("address delete {source}/128 dev eth0")])?;
        if source == node {
            attacker.ip(&[&format!("route add {node}/128 via {victim} dev eth0")])?;
        }
        total += arrived;
        rows.push(
            json!({ "attack": format!("from the visited link, source: {name}"), "sent": COUNT, "forwarded": arrived }),
        );
    }
    Ok((total, rows))
}

/// Datagrams that arrive at a socket until all have arrived or the timeout ends.
fn count_datagrams(receiver: &UdpSocket) -> Result<usize> {
    receiver.set_read_timeout(Some(Duration::from_millis(100)))?;
    let end = clock::now() + TIMEOUT;
    let mut arrived = 0;
    while arrived < COUNT && clock::now() < end {
        arrived += usize::from(receiver.recv(&mut [0; 16]).is_ok());
    }
    Ok(arrived)
}
