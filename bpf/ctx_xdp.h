/* The context of an XDP program: one frame, before the kernel has allocated a socket buffer. ctx_tc.h defines the same for
 * TC. */
#pragma once
#include "maps.h"
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/ipv6.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

typedef struct xdp_md packet;

#define ACT_PASS XDP_PASS        /* on to the TC program */
#define ACT_DROP XDP_DROP
#define REFRESHES_NEXT_HOPS 0    /* but leaves an expired next hop to the TC program */
#define HAS_SKB 0
#define COUNT_ENCAP COUNT_ENCAPSULATED_XDP
#define COUNT_DECAP COUNT_DECAPSULATED_XDP
#define COUNT_HAIRPIN COUNT_HAIRPINNED_XDP

/* The verifier accepts the difference of two pointers only where neither was stored in 32 bits, as the compiler might. */
static __always_inline __u32 packet_length(const packet *p)
{
	long length = p->data_end, begin = p->data;

	asm volatile("%0 -= %1" : "+r"(length) : "r"(begin));
	return length;
}

static __always_inline __u32 gso_size(const packet *p) { return (void)p, 0; }
static __always_inline __u32 segments(const packet *p) { return (void)p, 1; }
static __always_inline __u32 ingress_ifindex(const packet *p) { return p->ingress_ifindex; }

/* The entry of this interface, if it has the XDP program. */
static __always_inline struct xdp_iface *xdp_iface_of(__u32 link)
{
	__u32 index = link % XDP_IFACES;
	struct xdp_iface *iface = bpf_map_lookup_elem(&fronts, &index);

	return iface && iface->link == link ? iface : 0;
}

/* Whether frames can be redirected to this interface: a driver that accepts none drops them. */
static __always_inline int can_transmit(__u32 link)
{
	struct xdp_iface *iface = link ? xdp_iface_of(link) : 0;

	return iface && iface->can_transmit;
}

static __always_inline __u32 forget_bits(packet *p, __u32 number, __u32 bits) { return (void)p, number & bits; }
static __always_inline int pull(packet *p, __u32 wanted) { return (void)p, (void)wanted, 0; }
static __always_inline long add_outer_room(packet *p, __u32 room) { return bpf_xdp_adjust_head(p, -(int)room); }
static __always_inline long add_outer4_room(packet *p, __u32 room) { return bpf_xdp_adjust_head(p, -(int)room); }
static __always_inline long remove_outer(packet *p, __u32 room) { return bpf_xdp_adjust_head(p, room); }
static __always_inline long remove_outer4_of_ip6(packet *p, __u32 room) { return remove_outer(p, room); }
