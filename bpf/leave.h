/* Out of a tunnel, and on at once: to the next hop, or into another tunnel. */
#pragma once
#include "again.h"
#include "hop.h"
#include "open.h"
#include "path.h"

/* Whether the next hop takes the packet as it is: one that the kernel is to judge it takes in any state, and from a socket
 * buffer only. */
static __always_inline int takes(const struct hop *hop, packet *p, const struct settings *set, __u32 at,
				 const struct ipv6hdr *ip)
{
	if (hop->link == set->device)
		return HAS_BUFFER;
	return may_send(hop->link) && ip->hop_limit > 1 && is_whole(p, at, ip) && length_on_wire(p, at) <= hop->mtu;
}

/* Takes the outer header off and sends the packet on. */
static __always_inline int send_on(packet *p, const struct settings *set, __u32 room, struct ipv6hdr *inner,
				   const struct hop *hop)
{
	void *frame;

	if (hop->link != set->device)
		inner->hop_limit--;
	if (shrink(p, room)) {
		count(DROPPED_ROOM);
		return SWALLOWED;
	}
	count(LEFT);
	if (HAS_BUFFER && hop->link == set->device)
		return bpf_redirect(set->device, BPF_F_INGRESS);
	frame = begin(p);
	if (frame + ETH_HLEN > end(p))
		return SWALLOWED;
	write_ethernet(frame, hop->mac);
	return bpf_redirect(hop->link, 0);
}

/* Out of a tunnel like the one before it: same ends, same addresses inside, and all that was decided of that holds still.
 * Not 0 if the packet was taken. */
static __always_inline int leave_again(packet *p, struct settings *set)
{
	struct ipv6hdr *outer = header(p, ETH_HLEN, IP6), *inner;
	struct journey journey = {};
	struct hop *hop;

	if (!outer || outer->nexthdr != ENCAPSULATED_IP6 || !is_whole(p, ETH_HLEN, outer))
		return 0;
	inner = outer + 1;
	journey.from = read_addr(&inner->saddr);
	journey.to = read_addr(&inner->daddr);
	hop = hop_of(set, &journey);
	if (!hop || hop->epoch != set->epoch || !knows(hop, set, &journey) ||
	    !same(&hop->local, (void *)&outer->daddr) || !same(&hop->remote, (void *)&outer->saddr) ||
	    !lives(set, hop->stamp, bpf_jiffies64()))
		return 0;
	if (inner->version != 6 || is_tunnelled(inner->nexthdr) || inner->nexthdr == DESTINATION_OPTIONS ||
	    !takes(hop, p, set, ETH_HLEN + IP6, inner))
		return 0;
	if (merge_ecn(outer, inner)) {
		count(DROPPED_ECN);
		return SWALLOWED;
	}
	return send_on(p, set, IP6, inner, hop);
}

/* From one tunnel into another: the outer header is written anew in place. Not 0 if the packet was taken. */
static __always_inline int hairpin(packet *p, __u32 l2, struct settings *set, struct opened *opened)
{
	struct ipv6hdr *outer, *inner;
	struct tunnel *tunnel;
	struct route *route;
	struct flow flow;
	struct path path;
	struct hop *hop;
	__u32 version;

	tunnel = find(&opened->source, &opened->destination);
	inner = header(p, l2 + IP6, 0);
	if (!tunnel || !inner || inner->hop_limit <= 1 || !is_whole(p, l2 + IP6, inner))
		return 0;
	read_flow(p, inner, &flow);
	version = tunnel->version;
	route = choose(tunnel, &flow, &path);
	if (!route || path.kind != WRAPPED || length_on_wire(p, l2 + IP6) > path.mtu)
		return 0;
	hop = find_way(p, set, &path, route, version);
	outer = header(p, l2, IP6);
	if (!hop || !outer || !may_send(hop->link))
		return 0;
	inner = outer + 1;
	inner->hop_limit--;
	write_outer(outer, ENCAPSULATED_IP6, *(__be32 *)inner, &path, flow.hash, length_of(p) - l2 - IP6);
	write_ethernet((void *)outer - ETH_HLEN, hop->mac);
	count(TURNED);
	return bpf_redirect(hop->link, 0);
}

/* Out of a tunnel. Not 0 if the packet was taken. */
static __always_inline int leave_at_once(packet *p, __u32 l2, struct settings *set, struct opened *opened)
{
	struct journey journey = { opened->source, opened->destination, 0 };
	struct ipv6hdr *outer, *inner;
	struct hop *hop;
	int taken = opened->room == IP6 ? hairpin(p, l2, set, opened) : 0;

	if (taken)
		return taken;
	hop = find_hop(p, set, &journey);
	outer = header(p, l2, IP6);
	inner = header(p, l2 + opened->room, 0);
	if (!hop || !outer || !inner || !takes(hop, p, set, l2 + opened->room, inner))
		return 0;
	if (opened->room == IP6)
		remember(hop, set, outer);
	return send_on(p, set, opened->room, inner, hop);
}
