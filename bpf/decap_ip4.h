/* Decapsulation of IPv4 packets (RFC 5555 §4.5.1), in TC only. */
#pragma once
#include "decap.h"

/* From one tunnel into another: the outer header is rewritten in place, because a GSO buffer that has lost it accepts no
 * other (see `add_outer_room`). */
static __always_inline int hairpin4(packet *p, __u32 l2, struct settings *set, struct parsed_outer *parsed)
{
	struct ipv6hdr *outer;
	struct tunnel *tunnel;
	struct path_route *route;
	struct iphdr *inner;
	struct flow flow;
	struct scratch *scratch = get_scratch();
	struct path *path;
	__u32 version;

	tunnel = find_tunnel(&parsed->source, &parsed->destination);
	inner = ip4_header(p, l2 + IP6);
	if (!tunnel || !scratch || !inner || inner->ttl <= 1 || bpf_ntohs(inner->tot_len) != packet_length(p) - l2 - IP6)
		return 0;
	parse_flow4(p, inner, &flow);
	if (may_be_relayed(p, l2 + IP6 + IP4, set, &flow))
		return 0;
	version = tunnel->version;
	path = &scratch->path;
	route = select_path(tunnel, &flow, path, &scratch->members);
	if (!route || scratch->members || path->kind != PATH_ENCAPSULATED || wire_length4(p, l2 + IP6) > path->mtu)
		return 0;
	nh_of_path(p, set, path, route, version);
	outer = ip6_header(p, l2, IP4);
	if (!route->link || !outer)
		return 0;
	inner = (void *)(outer + 1);
	decrement_ttl(inner);
	write_outer(outer, ENCAPSULATED_IP4, ip6_word_of(inner), path, flow.hash, p->len - l2 - IP6);
	count(COUNT_HAIRPINNED);
	return bpf_redirect_neigh(route->link, 0, 0, 0);
}

/* An inner IPv4 packet: the tunnel device receives it, and the kernel routes it. */
static __always_inline int decap4(packet *p, __u32 l2, struct settings *set, struct parsed_outer *parsed)
{
	int fast = l2 && parsed->length == IP6 && !(set->firewalled & FIREWALLED_IP4);
	int handled = fast ? hairpin4(p, l2, set, parsed) : 0;

	if (handled)
		return handled;
	if (remove_outer_of_ip4(p, parsed->length)) {
		count(COUNT_DROPPED_ROOM);
		return TC_ACT_SHOT;
	}
	return receive_inner(set);
}
