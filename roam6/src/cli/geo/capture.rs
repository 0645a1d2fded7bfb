//! Frames of captures: pcap and pcapng, of Ethernet interfaces.

/// Link type of Ethernet.
const ETHERNET: u32 = 1;
/// First octets of a pcapng file: its section header block reads the same in both byte orders.
const SECTION: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];
/// Octets of a block of a pcapng file beside its body.
const BLOCK_OVERHEAD: usize = 12;

/// Byte order of the fields of a capture.
#[derive(Clone, Copy)]
enum Order {
    Big,
    Little,
}

impl Order {
    fn u32(self, octets: &[u8], at: usize) -> Option<u32> {
        let field = octets.get(at..)?.first_chunk().copied()?;
        Some(match self {
            Order::Big => u32::from_be_bytes(field),
            Order::Little => u32::from_le_bytes(field),
        })
    }

    fn u16(self, octets: &[u8], at: usize) -> Option<u16> {
        let field = octets.get(at..)?.first_chunk().copied()?;
        Some(match self {
            Order::Big => u16::from_be_bytes(field),
            Order::Little => u16::from_le_bytes(field),
        })
    }

    fn size(self, octets: &[u8], at: usize) -> Option<usize> {
        usize::try_from(self.u32(octets, at)?).ok()
    }
}

/// The byte order of a pcap file, by its magic number: microseconds or nanoseconds.
fn classic(file: &[u8]) -> Option<Order> {
    match file.first_chunk()? {
        [0xa1, 0xb2, 0xc3, 0xd4] | [0xa1, 0xb2, 0x3c, 0x4d] => Some(Order::Big),
        [0xd4, 0xc3, 0xb2, 0xa1] | [0x4d, 0x3c, 0xb2, 0xa1] => Some(Order::Little),
        _ => None,
    }
}

/// Whether a file is a capture.
pub(super) fn is_capture(file: &[u8]) -> bool {
    classic(file).is_some() || file.first_chunk() == Some(&SECTION)
}

/// The Ethernet frames of a capture. A capture that is cut off has those before the cut.
///
/// # Errors
/// If it has another link type.
pub(super) fn frames(file: &[u8]) -> Result<Vec<Vec<u8>>, String> {
    match classic(file) {
        Some(order) => classic_frames(file, order),
        None => Ok(blocks(file)),
    }
}

fn classic_frames(file: &[u8], order: Order) -> Result<Vec<Vec<u8>>, String> {
    // The upper bits tell the length of a checksum.
    let link = order.u32(file, 20).ok_or("the capture has no header")? & 0xffff;
    if link != ETHERNET {
        return Err(format!("the capture has link type {link}; capture on an Ethernet or 802.11 OCB interface"));
    }
    let (mut frames, mut at) = (Vec::new(), 24);
    while let Some(frame) = order.size(file, at + 8).and_then(|length| file.get(at + 16..)?.get(..length)) {
        frames.push(frame.to_vec());
        at += 16 + frame.len();
    }
    Ok(frames)
}

/// The frames in the packet blocks of a pcapng file.
fn blocks(file: &[u8]) -> Vec<Vec<u8>> {
    let (mut frames, mut links) = (Vec::new(), Vec::new());
    let (mut at, mut order) = (0, Order::Little);
    while let Some(kind) = file.get(at..).and_then(|rest| rest.first_chunk::<4>()) {
        if *kind == SECTION {
            order = if file.get(at + 8) == Some(&0x1a) { Order::Big } else { Order::Little };
            links.clear();
        }
        let Some(total) = order.size(file, at + 4).filter(|total| *total >= BLOCK_OVERHEAD) else { break };
        let Some(body) = file.get(at + 8..).and_then(|rest| rest.get(..total - BLOCK_OVERHEAD)) else { break };
        match order.u32(kind, 0) {
            // Interface description.
            Some(1) => links.push(order.u16(body, 0).map(u32::from)),
            // Enhanced packet.
            Some(6) => {
                let link = order.size(body, 0).and_then(|interface| links.get(interface).copied().flatten());
                let frame = order.size(body, 12).and_then(|length| body.get(20..)?.get(..length));
                frames.extend(frame.filter(|_| link == Some(ETHERNET)).map(<[u8]>::to_vec));
            }
            _ => {}
        }
        at += total.next_multiple_of(4);
    }
    frames
}
