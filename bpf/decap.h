/* Decapsulation on the fast path: on to the next hop, or into another tunnel. */
#pragma once
#include "flow_cache.h"
#include "next_hop.h"
#include "outer_parse.h"
#include "path_select.h"
#include "path_stamps.h"
#include "relay.h"

/* Whether the packet can be redirected to the next hop as it is. Whatever its hop limit and length, the tunnel device
 * receives it, but needs a socket buffer. Where a firewall filters forwarded packets, nothing else does. */
static __always_inline int can_forward(const struct next_hop *hop, packet *p, const struct settings *set, __u32 at,
				       const struct ipv6hdr *ip)
{
	if (hop->link == set->device)
		return HAS_SKB;
	return !(set->firewalled & FIREWALLED_IP6) && can_transmit(hop->link) && ip->hop_limit > 1 && has_stated_length(p, at, ip) && wire_length(p, at) <= hop->mtu;
}

/* The tunnel device receives a packet that has lost its outer headers. */
static __always_inline int receive_inner(const struct settings *set)
{
	count(COUNT_DECAP);
	return bpf_redirect(set->device, BPF_F_INGRESS);
}

/* Redirects a packet that has lost its outer headers. */
static __always_inline int redirect_inner(packet *p, const struct settings *set, struct next_hop *hop)
{
	void *frame;

	if (HAS_SKB && hop->link == set->device)
		return receive_inner(set);
	count(COUNT_DECAP);
	frame = packet_begin(p);
	if (frame + ETH_HLEN > packet_end(p))
		return ACT_DROP;
	return redirect_to(hop, frame, ETH_P_IPV6);
}

/* Removes the outer headers and redirects the packet. */
static __always_inline int decap_and_redirect(packet *p, const struct settings *set, __u32 room, struct ipv6hdr *inner,
					      struct next_hop *hop)
{
	if (hop->link != set->device)
		inner->hop_limit--;
	if (remove_outer(p, room)) {
		count(COUNT_DROPPED_ROOM);
		return ACT_DROP;
	}
	return redirect_inner(p, set, hop);
}

/* Decapsulates a packet by the cached decision for its tunnel endpoints and inner addresses, if that is still valid. 0 if the
 * packet was not handled. */
static __always_inline int decap_cached(packet *p, struct settings *set)
{
	struct ipv6hdr *outer = ip6_header(p, ETH_HLEN, IP6), *inner;
	struct nh_key key = {};
	struct next_hop *hop;

	if (!outer || outer->nexthdr != ENCAPSULATED_IP6 || !has_stated_length(p, ETH_HLEN, outer))
		return 0;
	inner = outer + 1;
	key.source = read_addr(&inner->saddr);
	key.destination = read_addr(&inner->daddr);
	hop = nh_entry(set, &key);
	if (!accepts_outer(hop, set, &key, set->epoch, &outer->daddr, &outer->saddr, 0))
		return 0;
	if (inner->version != 6 || is_tunnelled(inner->nexthdr) || inner->nexthdr == DESTINATION_OPTIONS ||
	    !can_forward(hop, p, set, ETH_HLEN + IP6, inner))
		return 0;
	if (merge_ecn(ecn_of(outer), inner)) {
		count(COUNT_DROPPED_ECN);
		return ACT_DROP;
	}
	note_inner(p, hop->outer_stat, ETH_HLEN + IP6, inner);
	return decap_and_redirect(p, set, IP6, inner, hop);
}

/* From one tunnel into another: the outer header is rewritten in place. 0 if the packet was not handled. */
static __always_inline int hairpin(packet *p, __u32 l2, struct settings *set, struct parsed_outer *parsed)
{
	struct ipv6hdr *outer, *inner;
	struct tunnel *tunnel;
	struct path_route *route;
	struct scratch *scratch = get_scratch();
	struct flow *flow;
	struct path *path;
	struct next_hop *hop;
	__u32 version;

	tunnel = find_tunnel(&parsed->source, &parsed->destination);
	inner = ip6_header(p, l2 + IP6, 0);
	if (!tunnel || !scratch || !inner || inner->hop_limit <= 1 || !has_stated_length(p, l2 + IP6, inner))
		return 0;
	flow = &scratch->flow;
	parse_flow(p, inner, flow);
	if (may_be_relayed(p, l2 + 2 * IP6, set, flow))
		return 0;
	version = tunnel->version;
	path = &scratch->path;
	route = select_path(tunnel, flow, path, &scratch->members);
	if (!route || scratch->members || path->kind != PATH_ENCAPSULATED || wire_length(p, l2 + IP6) > path->mtu)
		return 0;
	hop = nh_of_path(p, set, path, route, version);
	outer = ip6_header(p, l2, IP6);
	if (!hop || !outer || !can_transmit(hop->link))
		return 0;
	inner = outer + 1;
	inner->hop_limit--;
	write_outer(outer, ENCAPSULATED_IP6, *(__be32 *)inner, path, flow->hash, packet_length(p) - l2 - IP6);
	count(COUNT_HAIRPIN);
	return redirect_to(hop, (void *)outer - ETH_HLEN, ETH_P_IPV6);
}

/* Decapsulates a packet of the path with this number, whose outer headers are parsed, and forwards it. 0 if the packet was not handled. */
static __always_inline int decap_forward(packet *p, __u32 l2, struct settings *set, struct parsed_outer *parsed, __u32 stat)
{
	struct nh_key key = { parsed->source, parsed->destination, 0 };
	struct ipv6hdr *outer, *inner;
	struct next_hop *hop;
	int is_hairpin = parsed->length == IP6 && !(set->firewalled & FIREWALLED_IP6);
	int handled = is_hairpin ? hairpin(p, l2, set, parsed) : 0;

	if (handled)
		return handled;
	hop = nh_lookup(p, set, &key);
	outer = ip6_header(p, l2, IP6);
	inner = ip6_header(p, l2 + parsed->length, 0);
	if (!hop || !outer || !inner || !can_forward(hop, p, set, l2 + parsed->length, inner))
		return 0;
	if (parsed->length == IP6)
		note_outer(hop, set->epoch, &outer->daddr, &outer->saddr, 0, stat);
	return decap_and_redirect(p, set, parsed->length, inner, hop);
}
