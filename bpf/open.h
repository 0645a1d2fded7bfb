/* Outer headers of packets to this host: whether they are a tunnel's, and what is in them allowed. */
#pragma once
#include "find.h"
#include "outer.h"
#include "packet.h"

struct opened {
	__u32 room;  /* octets of outer headers */
	__u32 ip4;   /* what is within is IPv4 */
	struct addr source, destination;
} BY_HALVES;
enum verdict { OURS, NOT_OURS, DROP };

static __always_inline enum verdict drop(__u32 why)
{
	count(why);
	return DROP;
}

__noinline int has_path(const struct tunnel *tunnel, const struct addr *local, const struct addr *remote)
{
	if (!tunnel || !local || !remote)
		return 0;
	for (int i = 0; i < PATHS; i++) {
		if (i >= tunnel->paths)
			break;
		if (tunnel->lane[i].path.kind != HANDED && same(&tunnel->lane[i].path.remote, remote) &&
		    same(&tunnel->lane[i].path.local, local))
			return 1;
	}
	return 0;
}

/* Whether the inner packet is one of the tunnel between these two. */
static __noinline int may_come(const struct opened *opened, __u32 place, const struct addr *local,
			       const struct addr *remote)
{
	struct found found = {};
	struct tunnel *tunnel;

	if (longest_far(&opened->source, &found) && found.way.whole && found.way.local == place && same(&found.way.remote, remote))
		return 1;
	tunnel = find_by(&found, &opened->destination, &opened->source);
	return tunnel && has_path(tunnel, local, remote);
}

/* Outer headers that stand for IPv4 come from the daemon alone. */
static __always_inline int is_on_device(packet *p)
{
	struct settings *set = get_settings();

	return set && arrived_by(p) == set->device;
}

/* What is in an outer header, if it is IPv6. Congestion marks go inside, also of what is dropped then. */
static __always_inline enum verdict look_inside(packet *p, __u32 at, const struct ipv6hdr *outer,
						struct opened *opened)
{
	struct ipv6hdr *inner = header(p, at, 0);

	if (!inner || inner->version != 6)
		return drop(DROPPED_FORM);
	opened->source = read_addr(&inner->saddr);
	opened->destination = read_addr(&inner->daddr);
	if (stays_on_link(&opened->source) || stays_on_link(&opened->destination))
		return drop(DROPPED_SCOPE);
	return merge_ecn(outer, inner) ? drop(DROPPED_ECN) : OURS;
}

/* The same if it is IPv4. */
static __always_inline enum verdict look_inside4(packet *p, __u32 at, const struct ipv6hdr *outer,
						 struct opened *opened)
{
	struct iphdr *inner = header4(p, at);

	if (!inner || inner->version != 4)
		return drop(DROPPED_FORM);
	opened->source = mapped(inner->saddr);
	opened->destination = mapped(inner->daddr);
	if (stays_on_link4(inner->saddr) || stays_on_link4(inner->daddr))
		return drop(DROPPED_SCOPE);
	return merge_ecn4(outer, inner) ? drop(DROPPED_ECN) : OURS;
}

/* One outer header: whether it is ours to take off, and what is in it allowed (RFC 3963 §6.5, §9). */
static __always_inline enum verdict open_one(packet *p, __u32 at, struct opened *opened)
{
	struct ipv6hdr *outer = header(p, at, 8);
	struct addr local BY_HALVES, remote BY_HALVES;
	enum verdict verdict;
	__u32 room, *place;
	__u8 protocol;

	if (!outer || !is_whole(p, at, outer) || !(room = outer_room(outer, &protocol)))
		return NOT_OURS;
	local = read_addr(&outer->daddr);
	remote = read_addr(&outer->saddr);
	place = bpf_map_lookup_elem(&ends, &local);
	if (!place || (*place == CARRIED_END && !is_on_device(p)))
		return NOT_OURS;
	opened->ip4 = protocol == ENCAPSULATED_IP4;
	verdict = opened->ip4 ? look_inside4(p, at + room, outer, opened) : look_inside(p, at + room, outer, opened);
	if (verdict != OURS)
		return verdict;
	if (!may_come(opened, *place, &local, &remote))
		return drop(DROPPED_SOURCE);
	opened->room += room;
	return OURS;
}
