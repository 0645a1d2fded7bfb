/* A packet as a driver has it: one frame, not yet a socket buffer. at_tc.h says the same of a socket buffer. */
#pragma once
#include "maps.h"
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/ipv6.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

typedef struct xdp_md packet;

#define PASSED XDP_PASS      /* on to the next, which is the program in traffic control */
#define SWALLOWED XDP_DROP
#define RENEWS 0             /* next hops are renewed by the other program, which has a packet go the kernel's way */
#define HAS_BUFFER 0
#define ENTERED ENCAPSULATED_XDP
#define LEFT DECAPSULATED_XDP
#define TURNED HAIRPINNED_XDP

/* The verifier takes the difference of two pointers only where neither has been kept in 32 bits, as the compiler might. */
static __always_inline __u32 length_of(const packet *p)
{
	long length = p->data_end, begin = p->data;

	asm volatile("%0 -= %1" : "+r"(length) : "r"(begin));
	return length;
}

static __always_inline __u32 segment_of(const packet *p) { return (void)p, 0; }
static __always_inline __u32 arrived_by(const packet *p) { return p->ingress_ifindex; }

/* The interface of this number, if frames are taken from it. */
static __always_inline struct front *front_of(__u32 link)
{
	__u32 place = link % FRONTS;
	struct front *front = bpf_map_lookup_elem(&fronts, &place);

	return front && front->link == link ? front : 0;
}

/* Whether frames can be sent by this interface: a driver that takes them there drops what another cannot send. */
static __always_inline int may_send(__u32 link)
{
	struct front *front = link ? front_of(link) : 0;

	return front && front->sends;
}

static __always_inline int pull(packet *p, __u32 wanted) { return (void)p, (void)wanted, 0; }
static __always_inline long grow(packet *p) { return bpf_xdp_adjust_head(p, -(int)sizeof(struct ipv6hdr)); }
static __always_inline long shrink(packet *p, __u32 room) { return bpf_xdp_adjust_head(p, room); }
