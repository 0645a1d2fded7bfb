/* How often a packet has been encapsulated by this host. Care-of addresses that lead back into tunnels would have it encapsulated
 * for ever. RFC 2473 §4.1.1 bounds that by an option that each entry of a tunnel counts down; as all outer headers of ours have
 * one of our ends for a source, they are counted instead, which costs packets without an outer header nothing. The
 * error message of RFC 2473 §8.1 would go to the entry that wrote the header before: to this host. */
#pragma once
#include "outer.h"

#define FRAGMENT_HEADER 44
#define ENCAPSULATION_LIMIT 4
#define NESTED_LAYERS (2 * ENCAPSULATION_LIMIT)  /* of anybody's: those of others may lie between ours */
#define NESTED_ROOM (NESTED_LAYERS * IP6)
#define CUT 0x100  /* one of the headers counted is that of a fragment */

/* The number of outer headers of ours that a packet begins with, and CUT. Of a fragment no more can be seen. A packet with too
 * many headers of anybody's is at the limit. */
static __noinline __u32 count_nested(packet *p)
{
	struct addr source BY_HALVES;
	struct ipv6hdr *ip;
	__u32 own = 0;
	__u8 next, in_fragment;

	for (int i = 0; i < NESTED_LAYERS; i++) {
		ip = header(p, i * IP6, 1);
		if (!ip)
			return own;
		next = ip->nexthdr;
		in_fragment = *(const __u8 *)(ip + 1);
		if (!is_tunnelled(next == FRAGMENT_HEADER ? in_fragment : next))
			return own;
		source = read_addr(&ip->saddr);
		if (bpf_map_lookup_elem(&ends, &source))
			own += next == FRAGMENT_HEADER ? 1 | CUT : 1;
		if (next != ENCAPSULATED_IP6)
			return own;
	}
	return ENCAPSULATION_LIMIT;
}

/* Whether the tunnelled packet at `at` may have an outer header of ours: the outermost is, or there are several. Where such a
 * packet goes into a tunnel once more, the tunnel device counts. */
static __always_inline int may_be_ours(packet *p, __u32 at)
{
	struct ipv6hdr *ip = header(p, at, IP6), *inner;
	struct addr source BY_HALVES;

	if (!ip || ip->nexthdr != ENCAPSULATED_IP6)
		return 1;
	inner = ip + 1;
	if (is_tunnelled(inner->nexthdr) || inner->nexthdr == DESTINATION_OPTIONS || inner->nexthdr == FRAGMENT_HEADER)
		return 1;
	source = read_addr(&ip->saddr);
	return bpf_map_lookup_elem(&ends, &source) != 0;
}

/* Whether it may have any. */
static __always_inline int may_be_nested(__u8 protocol)
{
	return is_tunnelled(protocol) || protocol == FRAGMENT_HEADER;
}
