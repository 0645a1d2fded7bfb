/* The tunnel encapsulation limit. A loop of care-of addresses and tunnels would encapsulate a packet for ever. RFC 2473
 * §4.1.1 bounds that by an option that each tunnel entry point decrements; since all outer headers of this host have one of
 * its tunnel endpoints as their source, they are counted instead, which costs packets without an outer header nothing. The
 * error message of RFC 2473 §8.1 would go to the entry point of the enclosing tunnel: to this host. */
#pragma once
#include "outer_udp6.h"

#define FRAGMENT_HEADER 44
#define ENCAPSULATION_LIMIT 4
#define NESTED_LAYERS (2 * ENCAPSULATION_LIMIT)  /* of any host: headers of others may be between ours */
#define NESTED_ROOM (NESTED_LAYERS * (IP6 + UDP_HEADER))
#define FRAGMENTED 0x100  /* one of the headers counted is that of a fragment */

/* The number of outer headers of this host that a packet begins with, and FRAGMENTED. Headers behind a fragment header are
 * not visible. A packet with too many headers of any host is at the limit. */
__noinline __u32 count_own_outer(packet *p)
{
	struct addr source ALIGN_HALF;
	struct ipv6hdr *ip;
	__u32 own = 0, at = 0, in_udp;
	__u8 next, in_fragment;

	for (int i = 0; i < NESTED_LAYERS; i++) {
		at = forget_bits(p, at, 0x1ff);
		own = forget_bits(p, own, 0xffff);
		ip = ip6_header(p, at, 1);
		if (!ip || ip->version != 6)
			return own;
		next = ip->nexthdr;
		in_fragment = *(const __u8 *)(ip + 1);
		in_udp = tunnel_ports(p, at) || (next == FRAGMENT_HEADER && in_fragment == UDP);
		if (!in_udp && !is_tunnelled(next == FRAGMENT_HEADER ? in_fragment : next))
			return own;
		source = read_addr(&ip->saddr);
		if (bpf_map_lookup_elem(&ends, &source))
			own += next == FRAGMENT_HEADER ? 1 | FRAGMENTED : 1;
		if (next != ENCAPSULATED_IP6 && next != UDP)
			return own;
		at += next == UDP ? IP6 + UDP_HEADER : IP6;
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

/* Whether the packets of the flow have outer headers. */
static __always_inline int has_outer(const struct flow *flow)
{
	int in_udp = flow->protocol == UDP && (flow->source_port == DSMIP_PORT || flow->destination_port == DSMIP_PORT);

	return is_tunnelled(flow->protocol) || in_udp;
}

/* Whether they may have, as fragments have. */
static __always_inline int may_have_outer(const struct flow *flow)
{
	return has_outer(flow) || flow->protocol == FRAGMENT_HEADER;
}
