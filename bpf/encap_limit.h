/* The tunnel encapsulation limit. A loop of care-of addresses and tunnels would encapsulate a packet for ever. RFC 2473
 * §4.1.1 bounds that by an option that each tunnel entry point decrements; since all outer headers of this host have one of
 * its tunnel endpoints as their source, they are counted instead, which costs packets without an outer header nothing. The
 * error message of RFC 2473 §8.1 would go to the entry point of the enclosing tunnel: to this host. */
#pragma once
#include "outer_header.h"

#define FRAGMENT_HEADER 44
#define ENCAPSULATION_LIMIT 4
#define NESTED_LAYERS (2 * ENCAPSULATION_LIMIT)  /* of any host: headers of others may be between ours */
#define NESTED_ROOM (NESTED_LAYERS * IP6)
#define FRAGMENTED 0x100  /* one of the headers counted is that of a fragment */

/* The number of outer headers of this host that a packet begins with, and FRAGMENTED. Headers behind a fragment header are
 * not visible. A packet with too many headers of any host is at the limit. */
static __noinline __u32 count_own_outer(packet *p)
{
	struct addr source ALIGN_HALF;
	struct ipv6hdr *ip;
	__u32 own = 0;
	__u8 next, in_fragment;

	for (int i = 0; i < NESTED_LAYERS; i++) {
		ip = ip6_header(p, i * IP6, 1);
		if (!ip)
			return own;
		next = ip->nexthdr;
		in_fragment = *(const __u8 *)(ip + 1);
		if (!is_tunnelled(next == FRAGMENT_HEADER ? in_fragment : next))
			return own;
		source = read_addr(&ip->saddr);
		if (bpf_map_lookup_elem(&ends, &source))
			own += next == FRAGMENT_HEADER ? 1 | FRAGMENTED : 1;
		if (next != ENCAPSULATED_IP6)
			return own;
	}
	return ENCAPSULATION_LIMIT;
}

/* Whether the tunnelled packet at `at` may have an outer header of this host: the outermost is one, or there are several.
 * Where such a packet enters a tunnel once more, the slow path counts its headers. */
static __always_inline int may_have_own_outer(packet *p, __u32 at)
{
	struct ipv6hdr *ip = ip6_header(p, at, IP6), *inner;
	struct addr source ALIGN_HALF;

	if (!ip || ip->nexthdr != ENCAPSULATED_IP6)
		return 1;
	inner = ip + 1;
	if (is_tunnelled(inner->nexthdr) || inner->nexthdr == DESTINATION_OPTIONS || inner->nexthdr == FRAGMENT_HEADER)
		return 1;
	source = read_addr(&ip->saddr);
	return bpf_map_lookup_elem(&ends, &source) != 0;
}

/* Whether a packet of this protocol may have an outer header at all. */
static __always_inline int may_have_outer(__u8 protocol)
{
	return is_tunnelled(protocol) || protocol == FRAGMENT_HEADER;
}
