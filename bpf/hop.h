/* Next hops, remembered because asking the routing tables for every packet costs as much as all the rest: of packets out
 * of tunnels by their addresses, of packets into tunnels by the gateway of their path, so that a hundred thousand paths
 * share the few neighbours there are. A neighbour's entry lives briefly, and at its end one packet goes the kernel's way,
 * which keeps the kernel's own entry in use and therefore probed. */
#pragma once
#include "find.h"

#define ERA 6  /* lives in an era, as a power of 2: routes are asked for anew each 16 s, should nobody hear of changes */

struct journey {
	struct addr from, to;
	__u32 wanted;  /* it must lead out by this interface; 0: as the routing tables say */
} BY_HALVES;

/* Asks the routing tables of a packet that arrived by an interface. What it returns is that of bpf_fib_lookup, and the MTU is in `mtu_result`. Always as for a
 * packet that came in: asked as for one of this host's own, the kernel lets rules with a source choose that source
 * themselves, and an outer header's is chosen already. */
static __always_inline long ask(packet *p, __u32 arrived, const struct addr *from, const struct addr *to,
				struct bpf_fib_lookup *answer)
{
	__builtin_memset(answer, 0, sizeof(*answer));
	answer->family = AF_INET6;
	answer->tot_len = 1;
	answer->ifindex = arrived;
	*(struct addr *)answer->ipv6_src = *from;
	*(struct addr *)answer->ipv6_dst = *to;
	return bpf_fib_lookup(p, answer, sizeof(*answer), 0);
}

static __always_inline struct hop *hop_of(const struct settings *set, const struct journey *journey)
{
	__u32 i = stir(mix_addrs(&journey->from, &journey->to) + journey->wanted) & set->hop_mask;
	return bpf_map_lookup_elem(&hops, &i);
}

static __always_inline int knows(const struct hop *hop, const struct settings *set, const struct journey *journey)
{
	return hop->generation == set->generation && hop->wanted == journey->wanted &&
	       same(&hop->to, &journey->to) && same(&hop->from, &journey->from);
}

/* Whether what is of the time `stamp` is still to be believed. */
static __always_inline int lives(const struct settings *set, __u64 stamp, __u64 now)
{
	return !((now - stamp) >> set->life);
}

static __always_inline void learn(struct hop *hop, const struct settings *set, const struct journey *journey,
				  const struct bpf_fib_lookup *answer, __u64 now)
{
	hop->from = journey->from;
	hop->to = journey->to;
	hop->wanted = journey->wanted;
	hop->generation = set->generation;
	hop->epoch = 0;
	hop->stamp = now;
	hop->link = answer->ifindex;
	hop->mtu = answer->mtu_result;
	__builtin_memcpy(hop->mac, answer->dmac, 6);
	__builtin_memcpy(hop->mac + 6, answer->smac, 6);
}

/* Whether the program behind this one is to renew what has grown old, and have the kernel use it. It does so at once, unless
 * it works on another processor. */
static __always_inline int is_left_to_other(const struct settings *set, const struct hop *hop, __u64 now)
{
	return !RENEWS && !((now - hop->stamp) >> set->life >> 1);
}

/* The next hop of a packet that belongs into no tunnel; its link is the tunnel device if no route leads on, as for this
 * host's own addresses. Null: let the kernel take it. */
static __noinline struct hop *find_hop(packet *p, const struct settings *set, const struct journey *journey)
{
	struct hop *hop = hop_of(set, journey);
	__u64 now = bpf_jiffies64();
	struct bpf_fib_lookup answer BY_HALVES;
	long refused;
	int known;

	if (!hop)
		return 0;
	known = knows(hop, set, journey);
	if (known && lives(set, hop->stamp, now))
		return hop;
	if (known && is_left_to_other(set, hop, now))
		return 0;
	refused = ask(p, arrived_by(p), &journey->from, &journey->to, &answer);
	if (refused == BPF_FIB_LKUP_RET_NOT_FWDED) {
		answer.ifindex = set->device;
	} else if (refused || answer.ifindex == set->device) {
		hop->generation = 0;
		return 0;
	}
	learn(hop, set, journey, &answer, now);
	return known ? 0 : hop;
}

/* What was learnt of the routing tables in another era is void: the daemon begins a new one when it hears of a change.
 * Without it they begin at another moment for each end, lest a hundred thousand routes are asked for at once. So the
 * eras of one end are not those of another, and what was learnt of the one while its slot became the other's is void too. */
static __always_inline __u32 era_of(const struct settings *set, const struct addr *end, __u64 now)
{
	__u32 phase = (end->w[1] ^ end->w[3]) * 0x9e3779b9U;

	return (set->generation + (__u32)((now + phase) >> set->life >> ERA)) | 1U << 31;
}

/* Asks for the next hop of a path. Null: let the kernel take the packet. */
static __noinline struct hop *ask_way(packet *p, const struct settings *set, const struct path *path,
				      struct journey *last)
{
	__u64 now = bpf_jiffies64();
	struct bpf_fib_lookup answer BY_HALVES;
	struct hop *hop;
	int known;

	last->wanted = 0;
	if (ask(p, set->device, &path->local, &path->remote, &answer) || answer.ifindex == set->device ||
	    (path->link && answer.ifindex != path->link))
		return 0;
	last->to = *(struct addr *)answer.ipv6_dst;
	last->wanted = answer.ifindex;
	hop = hop_of(set, last);
	if (!hop)
		return 0;
	known = knows(hop, set, last);
	if (known && lives(set, hop->stamp, now))
		return hop;
	if (known && is_left_to_other(set, hop, now))
		return 0;
	learn(hop, set, last, &answer, now);
	return known ? 0 : hop;
}

/* The next hop of a path whose gateway is known. Null: it has to be asked for. */
static __always_inline struct hop *recall(const struct settings *set, const struct journey *last, __u64 now)
{
	struct hop *hop = hop_of(set, last);

	return hop && knows(hop, set, last) && lives(set, hop->stamp, now) ? hop : 0;
}

/* The next hop of a path, which is of this version of its tunnel. Null: let the kernel take the packet. */
static __noinline struct hop *find_way(packet *p, const struct settings *set, const struct path *path,
				       struct route *route, __u32 version)
{
	struct journey last = { .to = route->gateway, .wanted = route->link };
	__u64 now = bpf_jiffies64();
	__u32 era = era_of(set, &path->remote, now);
	struct hop *hop = 0;

	if (route->era == era && route->version == version)
		hop = recall(set, &last, now);
	if (hop)
		return hop;
	route->version = 0;
	hop = ask_way(p, set, path, &last);
	if (last.wanted) {
		route->gateway = last.to;
		route->link = last.wanted;
		route->era = era;
		route->version = version;
	}
	return hop;
}

/* The same for a path that its prefix tells. */
static __always_inline struct hop *find_whole(packet *p, const struct settings *set, const struct path *path,
					 const struct found *found)
{
	struct journey last = { .to = found->way.gateway, .wanted = found->way.link };
	__u64 now = bpf_jiffies64();
	__u32 era = era_of(set, &path->remote, now);
	struct hop *hop = 0;
	struct way *way;

	if (found->way.era == era)
		hop = recall(set, &last, now);
	if (hop)
		return hop;
	hop = ask_way(p, set, path, &last);
	way = place_of(found);
	/* It may have moved meanwhile. */
	if (last.wanted && way && same(&way->remote, &found->way.remote)) {
		way->gateway = last.to;
		way->link = last.wanted;
		way->era = era;
	}
	return hop;
}
