/* What the daemon and the shim's programs both know. linux/src/shim/abi.rs writes the same, field by field. Times are
 * nanoseconds of the coarse monotonic clock; 0 is never. */
#pragma once
#include "../packet.h"

#define LOCATORS 16  /* from which a context takes packets */
#define HEAD 128     /* octets of a packet handed up */

struct pair { struct addr local, peer; };

/* When a conversation is worth a context; 0: not for this reason. */
struct settings6 {
	__u64 octets, packets, age, idle, again;
	__u32 triggers;  /* whether conversations are counted at all */
	__u32 bounce;    /* interface that cuts large packets to size */
};

struct context_key { struct pair ulids; __u32 fork; };
struct context {
	struct pair locators;
	struct addr next_hop;  /* 0: as the routing tables say */
	__u64 tag;             /* the peer's */
	__u64 own_tag;         /* for the daemon, which keeps no table of its own */
	__u32 slot, link, rewrites, zero;
};

/* Found by our tag. */
struct tagged {
	struct pair ulids;
	__u32 slot, sources;
	struct addr source[LOCATORS];
};

struct carried {
	__u64 sent, received;
	__u64 unanswered;  /* first sent after the last received */
	__u64 unreturned;  /* first received after the last sent */
	__u64 packets_out, octets_out, packets_in, octets_in;
};
enum { TELL_SENT = 1, TELL_RECEIVED = 2 };

struct conversation { __u64 since, last, told, packets, octets; };

enum kind { FLOW = 1, ACTIVITY, PACKET };
struct flow_event { __u32 kind, link; struct pair pair; __u64 packets, octets, since; };
struct activity_event { __u32 kind, slot; };
struct packet_event { __u32 kind, link, length, zero; __u8 octets[HEAD]; };
