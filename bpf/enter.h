/* Into a tunnel, unless only the kernel may judge. */
#pragma once
#include "again.h"
#include "hop.h"
#include "outer.h"
#include "path.h"

/* Puts the outer header before a packet that has room for an Ethernet header, and sends it on. `inner` is what it is, `word`
 * the first of its header. */
static __always_inline int wrap(packet *p, __u8 inner, __be32 word, const struct path *path, __u32 hash, __u32 link,
				const __u8 *mac, __u32 as)
{
	__u32 length = length_of(p) - ETH_HLEN;
	struct ipv6hdr *ip;

	if (grow(p)) {
		count(DROPPED_ROOM);
		return SWALLOWED;
	}
	ip = header(p, ETH_HLEN, 0);
	if (!ip)
		return SWALLOWED;
	write_outer(ip, inner, word, path, hash, length);
	write_ethernet((void *)ip - ETH_HLEN, mac);
	count(as);
	return bpf_redirect(link, 0);
}

/* What only the kernel may judge: scope, neighbour discovery for proxied addresses, a spent hop limit. */
static __always_inline int is_for_kernel(const struct ipv6hdr *ip, const struct flow *flow)
{
	if (stays_on_link(&flow->source) || stays_on_link(&flow->destination) || ip->hop_limit <= 1)
		return 1;
	return flow->protocol == ICMP6 && flow->type >= 133 && flow->type <= 137;
}

/* Whether the routing tables lead a packet that came in by this interface into a tunnel: rules tell which interfaces the near
 * side is behind, and nobody else speaks from its addresses (RFC 3963 §9). */
static __noinline int is_led_in(packet *p, const struct settings *set, const struct flow *flow)
{
	struct bpf_fib_lookup answer BY_HALVES;
	long refused;

	if (!set || !flow)
		return 0;
	refused = ask(p, arrived_by(p), &flow->source, &flow->destination, &answer);
	return (!refused || refused == BPF_FIB_LKUP_RET_NO_NEIGH) && answer.ifindex == set->device;
}

/* An address that the near side names by itself is this host's own: nobody who sends to us speaks from it. */
static __always_inline int is_own(const struct addr *a)
{
	struct prefix key = { .address = *a, .bits = 128, .side = NEAR };

	return bpf_map_lookup_elem(&prefixes, &key) != 0;
}

/* The path of a tunnel that its prefix tells. */
static __always_inline int tell(const struct way *way, struct path *path)
{
	__u32 place = way->local;
	struct addr *local = bpf_map_lookup_elem(&locals, &place);

	if (!local)
		return 0;
	*path = (struct path){ .local = *local, .remote = way->remote, .mtu = way->mtu };
	return 1;
}

/* The path of any other, and what is known of its route. */
static __always_inline struct route *find_path(packet *p, const struct settings *set, struct found *found,
						const struct flow *flow, struct path *path, __u32 *version)
{
	struct tunnel *tunnel = find_by(found, &flow->source, &flow->destination);

	if (!tunnel)
		return 0;
	if (!(tunnel->flags & ALL << NEAR) && (within(tunnel, NEAR, &flow->destination, found) ||
					       is_own(&flow->source) || !is_led_in(p, set, flow)))
		return 0;
	*version = tunnel->version;
	return choose(tunnel, flow, path);
}

/* Into a tunnel. */
static __always_inline int enter(packet *p, struct settings *set)
{
	__u32 length = length_of(p) - ETH_HLEN, version = 0;
	struct found found = {};
	struct passage *again;
	struct route *route = 0;
	struct ipv6hdr *ip;
	struct flow flow;
	struct path path;
	struct hop *hop;

	ip = header(p, ETH_HLEN, 0);
	if (!ip)
		return PASSED;
	read_flow(p, ip, &flow);
	if (is_for_kernel(ip, &flow) || !is_whole(p, ETH_HLEN, ip))
		return PASSED;
	again = noted(set, &flow, arrived_by(p));
	if (again) {
		if (length_on_wire(p, ETH_HLEN) > again->path.mtu || length > 0xffff || !may_send(again->link))
			return PASSED;
		ip->hop_limit--;
		return wrap(p, ENCAPSULATED_IP6, *(__be32 *)ip, &again->path, flow.hash, again->link, again->mac, ENTERED);
	}
	if (set->past && longest(PAST, &flow.destination, &found))
		return PASSED;
	if (!(longest_here(FAR, &flow.destination, &found, 1) && found.way.whole && tell(&found.way, &path))) {
		route = find_path(p, set, &found, &flow, &path, &version);
		if (!route || path.kind == CARRIED)
			return PASSED;
	}
	if (same(&flow.destination, &path.local) || length_on_wire(p, ETH_HLEN) > path.mtu || length > 0xffff)
		return PASSED;
	hop = route ? find_way(p, set, &path, route, version) : find_whole(p, set, &path, &found);
	ip = header(p, ETH_HLEN, 0);
	if (!hop || !ip || !may_send(hop->link))
		return PASSED;
	ip->hop_limit--;
	if (path.kind == HANDED) {
		write_ethernet((void *)ip - ETH_HLEN, hop->mac);
		count(HANDED_OVER);
		return bpf_redirect(hop->link, 0);
	}
	note(set, &flow, arrived_by(p), &path, hop);
	return wrap(p, ENCAPSULATED_IP6, *(__be32 *)ip, &path, flow.hash, hop->link, hop->mac, ENTERED);
}
