/* Next hops: a per-processor cache before the kernel's routing tables, because asking them for every packet costs as
 * much as all the rest. An entry's life is short, and at its end one packet goes the kernel's way, which keeps the
 * kernel's neighbour entry in use and therefore probed. */
#pragma once
#include "maps.h"
#include "packet.h"

#define HOP_LIFE_NS (256 * 1000 * 1000ULL)
#ifndef AF_INET6
#define AF_INET6 10
#endif

struct journey {
	struct addr from, to;
	__u32 wanted;   /* leave by this interface; 0: as the routing tables say */
	__u32 arrived;  /* the interface the packet comes from, for the tables */
	__u32 version;  /* of the tunnel; 0 for none */
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

/* Null: let the kernel take this packet. */
static __noinline struct hop *find_hop(struct __sk_buff *skb, const struct settings *set, const struct journey *journey)
{
	__u32 i = mix_addr(mix_addr(journey->wanted, &journey->from), &journey->to) & set->hop_mask;
	struct hop *hop = bpf_map_lookup_elem(&hops, &i);
	__u64 now = bpf_ktime_get_coarse_ns();
	struct bpf_fib_lookup answer;
	int known;

	if (!hop)
		return 0;
	known = hop->generation == set->generation && hop->version == journey->version &&
		hop->wanted == journey->wanted && same(&hop->to, &journey->to) && same(&hop->from, &journey->from);
	if (known && now - hop->stamp < HOP_LIFE_NS)
		return hop;
	if (ask(skb, journey, &answer) || answer.ifindex == set->device ||
	    (journey->wanted && answer.ifindex != journey->wanted)) {
		hop->generation = 0;
		return 0;
	}
	hop->from = journey->from;
	hop->to = journey->to;
	hop->wanted = journey->wanted;
	hop->version = journey->version;
	hop->generation = set->generation;
	hop->stamp = now;
	hop->link = answer.ifindex;
	hop->mtu = answer.mtu_result;
	__builtin_memcpy(hop->mac, answer.dmac, 6);
	__builtin_memcpy(hop->mac + 6, answer.smac, 6);
	return known ? 0 : hop;
}
