/* Keys and values of the Shim6 maps, which the daemon and the programs share. linux/src/shim/abi.rs encodes the same
 * layouts, field by field. Times are nanoseconds of the coarse monotonic clock; 0 is never. */
#pragma once
#include "../packet.h"

#define LOCATORS 16      /* of the peer, from which a context accepts packets */
#define EVENT_OCTETS 128 /* of a packet passed to the daemon */

struct pair { struct addr local, peer; };

/* When a conversation of two hosts is reported, to have a context established; 0: not for this reason. */
struct shim_settings {
	__u64 octets, packets, age, idle, again;
	__u32 triggers;           /* whether conversations are counted at all */
	__u32 segmentation_link;  /* the interface on which the kernel segments large packets */
};

struct context_key { struct pair ulids; __u32 fork; };
struct context {
	struct pair locators;
	struct addr next_hop;  /* 0: as the routing tables say */
	__u64 tag;             /* the peer's */
	__u64 own_tag;         /* for the daemon, which keeps no table of its own */
	__u32 index, link, rewrites, zero;
};

/* Found by the context tag of this host. */
struct tagged {
	struct pair ulids;
	__u32 index, sources;
	struct addr source[LOCATORS];
};

/* The traffic of a context. */
struct traffic {
	__u64 sent, received;
	__u64 unanswered;  /* first sent after the last received */
	__u64 unreturned;  /* first received after the last sent */
	__u64 packets_out, octets_out, packets_in, octets_in;
};
enum { NOTIFY_SENT = 1, NOTIFY_RECEIVED = 2 };

struct conversation { __u64 since, last, reported, packets, octets; };

enum event_kind { FLOW = 1, ACTIVITY, PACKET };
struct flow_event { __u32 kind, link; struct pair pair; __u64 packets, octets, since; };
struct activity_event { __u32 kind, index; };
struct packet_event { __u32 kind, link, length, zero; __u8 octets[EVENT_OCTETS]; };
