/* Keys and values of the maps, which the daemon and the programs share. linux/src/bpf/abi.rs encodes the same layouts,
 * field by field. Any change of a layout needs a new LAYOUT there, so that programs never read the maps of an older one. */
#pragma once
#include <linux/bpf.h>
#include <linux/types.h>

#define PATHS 8             /* of one tunnel */
#define INLINE_PREFIXES 6   /* prefixes stored in a tunnel's value; a tunnel with more is checked by the prefix map */
#define RULES 16            /* flow rules of one tunnel */
#define PREFIX_LENGTHS 16   /* different prefix lengths in use, on each side */
#define NO_LENGTH 255
#define LOCAL_ENDPOINTS 256 /* local tunnel endpoints that a prefix entry can refer to */
#define OVER_IP4 (1 << 16)  /* in the index of an endpoint of tunnels over IPv4 (RFC 5555) */
#define SIGNALLING_ADDRESSES 64
#define ANY 0xffff          /* protocol, or DSCP, of a flow rule */
#define PATH_STATS 256      /* paths whose traffic is counted, from 1 on */
#define XDP_IFACES 256      /* interfaces with the XDP program */

/* BYPASS is no side of a tunnel: destinations that the host's routes reach better than any tunnel. */
enum side { FAR, NEAR, BYPASS, SIDES };

struct addr { __u32 w[4]; };

/* Addresses are read and written as two 64-bit halves, and aligned for that in all structures. */
typedef __u64 __attribute__((may_alias)) half;
#define ALIGN_HALF __attribute__((aligned(sizeof(half))))

struct settings {
	__u32 device;          /* interface index of the tunnel device */
	__u32 generation;      /* of routes: a cached next hop of another generation is void */
	__u32 length_set;      /* which of the two sets of prefix length tables is valid */
	__u32 cache_mask;      /* entries of the next hop cache and of the flow cache, a power of two, less 1 */
	__u32 epoch;           /* of tunnels: a cached decision of another epoch is void */
	__u32 has_bypass;      /* not 0: some destinations bypass the tunnels */
	__u32 lifetime_shift;  /* a cached next hop is valid for 2^this jiffies, a quarter of a second at most */
	__u32 slot_mask;       /* number of prefix slots, a power of two, less 1 */
	__u32 firewalled;      /* address families whose forwarded packets a firewall filters: the kernel forwards them */
};

/* Bits of `settings.firewalled`: families of inner packets; a firewall that tunnelled packets are to bypass; TCP connections
 * may be relayed. */
enum { FIREWALLED_IP6 = 1, FIREWALLED_IP4 = 2, FIREWALL_BYPASSED = 4, HAS_BONDING = 8 };

/* The prefix lengths in use on one side, longest first. An address is masked with each and looked up, unless it is outside
 * of the one network that covers all prefixes of this length. */
struct prefix_length { struct addr mask, cover, cover_mask; __u32 length; };
struct prefix_lengths { struct prefix_length entry[PREFIX_LENGTHS]; };

struct prefix_key { struct addr address; __u8 length, side; __u16 zero; };

/* Where packets to a prefix go. Nearly every tunnel of a home agent has one path and no flow rules, and accepts every near
 * address: then the entry holds all that its packets need (the inline path). With a hundred thousand tunnels each cache
 * line read is a cache miss, and an entry of this size takes two adjacent lines. */
struct prefix_entry {
	__u32 tunnel;
	__u32 route_generation;  /* in which gateway and link were resolved; the daemon writes zero */
	__u16 mtu;               /* largest inner packet, octets */
	__u8 has_inline_path;    /* not 0: the entry alone describes the path; its kind plus 1 */
	__u8 local_index;        /* the local endpoint of the path, by its index in `locals` */
	__u32 link;              /* towards the gateway */
	struct addr remote, gateway;
} ALIGN_HALF;

/* The entry of a far prefix of at most 64 bits, at the index that the lowest of these bits give. */
struct prefix_slot {
	__u64 network;   /* the bits of the prefix as a number */
	__u32 length;    /* of the prefix; 0: the slot is empty */
	__u32 checksum;  /* over what the daemon wrote */
	struct prefix_entry entry;
};

/* How packets leave by a path: with an outer IPv6 header; as they are, `remote` being a neighbour on `link`; with an outer
 * IPv4 header, which UDP follows on PATH_UDP4 (RFC 5555); with an outer IPv6 header and UDP; or as they are into the device
 * `link`, which encrypts them. An IPv4 endpoint is an
 * IPv4-mapped address with its port in the 16 bits before ffff. The daemon sends what has to be fragmented or cannot be
 * encapsulated with IPv4 or UDP: it gets the packet with an outer IPv6 header of these addresses alone, and a flow label
 * that tells it the rest. */
enum { PATH_ENCAPSULATED, PATH_DIRECT, PATH_IP4, PATH_UDP4, PATH_UDP6, PATH_ENCRYPTED };

struct path {
	struct addr local, remote;
	__u32 link;        /* 0: as the routing tables say */
	__u32 mtu;         /* largest inner packet, octets */
	__u16 bid, weight;
	__u8 kind, service;  /* service: the DSCP of outer packets << 2, and 1; 0: that of the inner packet */
	__u16 stat;          /* under which its traffic is counted; 0: it is not */
	__u32 ports;         /* of PATH_UDP6, the local one first, in network byte order; else 0 */
} ALIGN_HALF;

/* The route of a path: what the routing tables answered last, for which version of the tunnel. The daemon writes zeros. */
struct path_route {
	__u32 link, route_generation, version, zero;
	struct addr gateway;
};

struct path_slot { struct path path; struct path_route route; };
struct inline_prefix { struct addr address, mask; };

/* Shifted by the side: the tunnel accepts every address; it has more prefixes than the inline ones. */
enum { ALL_ADDRESSES = 1, MORE_PREFIXES = 4 };

struct tunnel {
	__u32 id, version;
	__u8 flags, paths, inline_prefixes, near;  /* near: bit i is set if inline prefix i is of the near side */
	__u32 rules, weight, zero;
	struct path_slot path_slot[PATHS];
	struct inline_prefix inline_prefix[INLINE_PREFIXES];
};

/* Flow rules are a value of their own because few tunnels have any. The version ties them to the tunnel's value. */
struct rules_key { __u32 tunnel, version; };
struct rule {
	struct addr source, source_mask, destination, destination_mask;
	__u16 protocol, source_first, source_last, destination_first, destination_last, bid, dscp;
	__u16 replica;     /* the BID of a second path, by which each packet leaves too; 0: none */
	__u32 ingress;     /* the interface the packet came in by; 0: any, or none */
};
struct rules { struct rule rule[RULES]; };

/* The value of `next_hop.epoch` that has the next packet use the kernel's neighbour entry; no epoch has this number. */
#define USE_NEIGHBOUR (~0U)

/* An entry of the next hop cache of each processor. Its key is a packet's addresses, or the gateway of a path (`source`
 * unspecified, `required_link` its link). */
struct next_hop {
	struct addr source, destination;
	union {
		struct { struct addr outer_local, outer_remote; };  /* with which such packets were accepted in `epoch`, */
		struct { __u32 zero[3]; struct bpf_redir_neigh neighbour; };  /* where `epoch` is USE_NEIGHBOUR */
	};
	__u64 resolved;      /* jiffies: reading a clock costs as much as all else here */
	__u32 link, generation, mtu, epoch;
	__u8 mac[12];        /* destination, source */
	__u32 required_link;
	__u32 outer_ports;   /* and these ports of UDP over IPv6 */
	__u32 outer_stat;    /* under which the traffic of their path is counted */
};

/* An entry of the flow cache of each processor: how the last packet of a flow was encapsulated. */
struct flow_entry {
	struct addr source, destination;
	struct path path;
	__u64 resolved;      /* when the next hop was */
	__u32 hash, ports, kind;  /* kind: protocol and DSCP */
	__u32 link, generation, epoch;
	__u8 mac[12];        /* destination, source */
	__u32 ingress;       /* the interface the packet came in by, and FORWARDED; 0: sent by this host */
};

/* An interface with the XDP program, at its index modulo XDP_IFACES. */
struct xdp_iface {
	__u32 link;
	__u16 mac[3];
	__u8 can_transmit, zero;  /* can_transmit: not 0 if frames redirected from other interfaces can be sent by it */
};

/* The traffic of a path without probes. Times are nanoseconds of the coarse monotonic clock; 0 is never. A tick (jiffies) is
 * that of the last packet at this processor. */
struct path_stamp {
	__u64 sent, received;  /* the last packet, to within a tick */
	__u64 unanswered;      /* the first sent after the last received */
};
struct path_count { __u64 packets_out, octets_out, packets_in, octets_in, tick_out, tick_in; };

/* The sequence generation and recovery of a tunnel with replicated flows (IEEE 802.1CB §7.4.1, §7.4.3). Bit n of `history` is
 * set if the packet with this number, modulo RECOVERY_HISTORY, was accepted. */
#define RECOVERY_WINDOW 4096   /* numbers behind the highest one that are told from one another */
#define RECOVERY_HISTORY 8192  /* a power of two */
#define RECOVERY_WORDS (RECOVERY_HISTORY / 64)
struct sequence_state {
	struct bpf_spin_lock lock;  /* for all below but `next` */
	__u32 next;         /* the number of the next packet that is replicated */
	__u32 highest;      /* the highest number accepted */
	__u32 started;      /* not 0: there is one */
	__u64 accepted;     /* when the last packet was, nanoseconds of the coarse monotonic clock */
	__u64 history[RECOVERY_WORDS];
};
/* The mark of packets that are delivered to the relay; linux/src/relay/ has the routing rule. */
#define RELAY_MARK 0x72360000
#define RELAY_PORT 4191  /* of the relay of a home agent */
/* The addresses of subflows by encrypted paths: they begin with these 48 bits, and end with the BID of their path.
 * proto/src/contract/item/subflow.rs has the same. */
#define SUBFLOW_NETWORK 0xfd726f616d36
#define SUBFLOW_BIDS 16
#define SYN_OCTETS 100  /* the longest IPv6 and TCP headers without extension headers */
#define RELAYED_CONNECTIONS 65536

/* A relayed connection by the addresses and ports of the packets that this host receives of it, IPv4 as IPv4-mapped addresses;
 * ports in the byte order of the host. */
struct relay_key {
	struct addr source, destination;
	__u16 source_port, destination_port;
	__u32 zero;
} ALIGN_HALF;

/* Its state: open; closed, until no packet of it is on the way any more; left to the tunnel. */
enum relay_state { RELAY_ACTIVE = 1, RELAY_CLOSED, RELAY_REFUSED };

/* The rules by which connections of a prefix are relayed; a rule without a BID says so, others that they are not. */
struct bond {
	__u32 rules, zero;
	struct rule rule[RULES];
} ALIGN_HALF;

/* The headers of a SYN, from the IP header on, and the interface by which it came. */
struct syn_packet { __u32 link, length; __u8 octets[SYN_OCTETS]; } ALIGN_HALF;

/* In the order of COUNTERS in linux/src/bpf/abi.rs, which has the names of the metrics. */
enum counter {
	COUNT_ENCAPSULATED, COUNT_ENCAPSULATED_SLOW, COUNT_DECAPSULATED, COUNT_HAIRPINNED,
	COUNT_DROPPED_SOURCE, COUNT_DROPPED_SCOPE, COUNT_DROPPED_ECN, COUNT_DROPPED_FORM, COUNT_DROPPED_NO_TUNNEL,
	COUNT_DROPPED_NO_PATH, COUNT_DROPPED_NO_ROUTE, COUNT_DROPPED_TOO_BIG, COUNT_DROPPED_ROOM, COUNT_HANDED_OVER,
	COUNT_FRAGMENTED, COUNT_CARRIED, COUNT_ENCAPSULATED_XDP, COUNT_DECAPSULATED_XDP, COUNT_HAIRPINNED_XDP,
	COUNT_SEGMENTED, COUNT_DROPPED_NESTED,
	COUNT_REPLICATED, COUNT_UNREPLICATED, COUNT_ELIMINATED, COUNT_DROPPED_ROGUE, COUNT_RECOVERY_RESETS,
	COUNT_RELAYED, COUNT_HELD_SYN,
	COUNTERS
};
