/* What is too large for the stack. */
#pragma once
#include "prefix_slot.h"

/* The key of a next hop. */
struct nh_key {
	struct addr source, destination;
	__u32 required_link;  /* the route must lead out by this interface; 0: by any */
} ALIGN_HALF;

/* The outer headers of a packet to this host. */
struct parsed_outer {
	__u32 length;  /* octets of outer headers */
	__u32 is_ip4;  /* the inner packet is IPv4 */
	struct addr source, destination;  /* of the inner packet */
} ALIGN_HALF;

/* What outer headers with IPv4 or UDP say. */
struct outer {
	struct addr local, remote;
	__u32 ports;     /* of UDP over IPv6, as in a path */
	__u32 length;    /* octets of the outer headers */
	__u8 inner, ecn; /* the protocol of the inner packet; the ECN field */
	__u8 is_ip4;     /* the outer header is IPv4 */
	__u8 is_numbered;
	__u32 sequence;  /* the number before the inner packet, if it `is_numbered` */
} ALIGN_HALF;

/* A packet of a replicated flow. The paths are copies, so that both leave by one state of the tunnel: if the daemon removed a path
 * between them, the packet could be lost with the clone. */
struct member {
	struct path path, clone_path;
	__u32 sequence;  /* the number that both copies have */
	__u32 is_clone;  /* not 0: the next packet of the program is the copy for `clone_path` */
} ALIGN_HALF;

/* Working memory of the program that runs on this processor: too large for the 512 octets of stack that a program and all
 * functions it calls share. Programs do not interrupt each other, and each object has a map of its own, which is not
 * pinned. What a cached decision over IPv6 needs is on the stack. */
struct scratch {
	struct prefix_match match;
	struct path path;
	struct bpf_fib_lookup fib ALIGN_HALF;
	struct nh_key key;
	struct parsed_outer parsed;
	struct outer outer;
	struct flow flow;         /* of a packet from one tunnel to another */
	struct syn_packet cause;  /* the packet that caused an ICMP error, */
	struct flow caused;       /* and the flow of packets that answer it */
	__u32 stat;    /* of the path by which the packet has come */
	__u32 tunnel;  /* to which that path belongs */
	__u32 members; /* the two paths of a packet to be replicated, as `path_by_rule` returns them; 0: it has one path */
	struct member member;
};
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, __u32);
	__type(value, struct scratch);
	__uint(max_entries, 1);
} scratch SEC(".maps");

static __always_inline struct scratch *get_scratch(void)
{
	__u32 zero = 0;
	return bpf_map_lookup_elem(&scratch, &zero);
}
