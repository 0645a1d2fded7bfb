/* Next hops, remembered because asking the routing tables for every packet costs as much as all the rest: of packets out
 * of tunnels by their addresses, of packets into tunnels by the gateway of their path, so that a hundred thousand paths
 * share the few neighbours there are. A neighbour's entry lives briefly, and at its end one packet goes the kernel's way,
 * which keeps the kernel's own entry in use and therefore probed. */
#pragma once
#include "maps.h"
#include "packet.h"

#define HOP_LIFE_NS (256 * 1000 * 1000ULL)
#define ROUTE_LIFE_NS (4 * 1000 * 1000 * 1000ULL)  /* the daemon voids it when it hears of a change */

struct journey {
	struct addr from, to;
	__u32 wanted;   /* it must lead out by this interface; 0: as the routing tables say */
	__u32 arrived;  /* the interface the packet comes from, for the tables */
};

/* Asks the routing tables. What it returns is that of bpf_fib_lookup, and the MTU is in `mtu_result`. Always as for a
 * packet that came in: asked as for one of this host's own, the kernel lets rules with a source choose that source
 * themselves, and an outer header's is chosen already. */
static __always_inline long ask(struct __sk_buff *skb, const struct journey *journey, struct bpf_fib_lookup *answer)
{
	__builtin_memset(answer, 0, sizeof(*answer));
	answer->family = AF_INET6;
	answer->tot_len = 1;
	answer->ifindex = journey->arrived;
	*(struct addr *)answer->ipv6_src = journey->from;
	*(struct addr *)answer->ipv6_dst = journey->to;
	return bpf_fib_lookup(skb, answer, sizeof(*answer), 0);
}

static __always_inline struct hop *hop_of(const struct settings *set, const struct journey *journey)
{
	__u32 i = mix_addr(mix_addr(journey->wanted, &journey->from), &journey->to) & set->hop_mask;
	return bpf_map_lookup_elem(&hops, &i);
}

static __always_inline int knows(const struct hop *hop, const struct settings *set, const struct journey *journey)
{
	return hop->generation == set->generation && hop->wanted == journey->wanted &&
	       same(&hop->to, &journey->to) && same(&hop->from, &journey->from);
}

static __always_inline void learn(struct hop *hop, const struct settings *set, const struct journey *journey,
				  const struct bpf_fib_lookup *answer, __u64 now)
{
	hop->from = journey->from;
	hop->to = journey->to;
	hop->wanted = journey->wanted;
	hop->generation = set->generation;
	hop->stamp = now;
	hop->link = answer->ifindex;
	hop->mtu = answer->mtu_result;
	__builtin_memcpy(hop->mac, answer->dmac, 6);
	__builtin_memcpy(hop->mac + 6, answer->smac, 6);
}

/* The next hop of a packet that belongs into no tunnel. Null: let the kernel take it. */
static __noinline struct hop *find_hop(struct __sk_buff *skb, const struct settings *set, const struct journey *journey)
{
	struct hop *hop = hop_of(set, journey);
	__u64 now = bpf_ktime_get_coarse_ns();
	struct bpf_fib_lookup answer;
	int known;

	if (!hop)
		return 0;
	known = knows(hop, set, journey);
	if (known && now - hop->stamp < HOP_LIFE_NS)
		return hop;
	if (ask(skb, journey, &answer) || answer.ifindex == set->device) {
		hop->generation = 0;
		return 0;
	}
	learn(hop, set, journey, &answer, now);
	return known ? 0 : hop;
}

static __always_inline int holds(const struct route *route, const struct settings *set, __u32 version, __u64 now)
{
	return route->generation == set->generation && route->version == version && now - route->stamp < ROUTE_LIFE_NS;
}

/* The next hop of a path, which is of this version of its tunnel. Null: let the kernel take the packet. */
static __noinline struct hop *find_way(struct __sk_buff *skb, const struct settings *set, const struct path *path,
				       struct route *route, __u32 version)
{
	struct journey journey = { path->local, path->remote, path->link, set->device };
	struct journey last = { .to = route->gateway, .wanted = route->link };
	__u64 now = bpf_ktime_get_coarse_ns();
	struct bpf_fib_lookup answer;
	struct hop *hop;

	if (holds(route, set, version, now)) {
		hop = hop_of(set, &last);
		if (hop && knows(hop, set, &last) && now - hop->stamp < HOP_LIFE_NS)
			return hop;
	}
	route->version = 0;
	if (ask(skb, &journey, &answer) || answer.ifindex == set->device ||
	    (path->link && answer.ifindex != path->link))
		return 0;
	last.to = *(struct addr *)answer.ipv6_dst;
	last.wanted = answer.ifindex;
	hop = hop_of(set, &last);
	if (!hop)
		return 0;
	route->gateway = last.to;
	route->link = last.wanted;
	route->generation = set->generation;
	route->stamp = now;
	route->version = version;
	if (!knows(hop, set, &last)) {
		learn(hop, set, &last, &answer, now);
		return hop;
	}
	if (now - hop->stamp < HOP_LIFE_NS)
		return hop;
	learn(hop, set, &last, &answer, now);
	return 0;
}
