/* Packets like one before. What was decided of that holds for them, as long as nothing has changed that it was decided by
 * (generation: routes; epoch: tunnels), and as its next hop lives. */
#pragma once
#include "hop.h"
#include "outer.h"
#include <linux/pkt_cls.h>

static __always_inline void remember(struct hop *hop, const struct settings *set, const struct ipv6hdr *outer)
{
	hop->local = read_addr(&outer->daddr);
	hop->remote = read_addr(&outer->saddr);
	hop->epoch = set->epoch;
}

/* Whether the next hop takes the packet as it is: one that the kernel is to judge it takes in any state. */
static __always_inline int takes(const struct hop *hop, struct __sk_buff *skb, const struct settings *set, __u32 at,
				 const struct ipv6hdr *ip)
{
	return hop->link == set->device || (ip->hop_limit > 1 && length_on_wire(skb, at) <= hop->mtu);
}

/* Takes the outer header off and sends the packet on. */
static __always_inline int send_on(struct __sk_buff *skb, const struct settings *set, __u32 room, struct ipv6hdr *inner,
				   const struct hop *hop)
{
	void *frame;

	if (hop->link != set->device)
		inner->hop_limit--;
	if (shrink(skb, room)) {
		count(DROPPED_ROOM);
		return TC_ACT_SHOT;
	}
	count(DECAPSULATED);
	if (hop->link == set->device)
		return bpf_redirect(set->device, BPF_F_INGRESS);
	frame = begin(skb);
	if (frame + ETH_HLEN > end(skb))
		return TC_ACT_SHOT;
	write_ethernet(frame, hop->mac);
	return bpf_redirect(hop->link, 0);
}

/* Out of a tunnel like the one before it: same ends, same addresses inside, and all that was decided of that holds still.
 * Not 0 if the packet was taken. */
static __always_inline int leave_again(struct __sk_buff *skb, struct settings *set)
{
	struct ipv6hdr *outer = header(skb, ETH_HLEN, IP6), *inner;
	struct journey journey = {};
	struct hop *hop;

	if (!outer || outer->nexthdr != ENCAPSULATED_IP6)
		return 0;
	inner = outer + 1;
	journey.from = read_addr(&inner->saddr);
	journey.to = read_addr(&inner->daddr);
	hop = hop_of(set, &journey);
	if (!hop || hop->epoch != set->epoch || !knows(hop, set, &journey) ||
	    !same(&hop->local, (void *)&outer->daddr) || !same(&hop->remote, (void *)&outer->saddr) ||
	    bpf_ktime_get_coarse_ns() - hop->stamp >= HOP_LIFE_NS)
		return 0;
	if (inner->version != 6 || is_tunnelled(inner->nexthdr) || inner->nexthdr == DESTINATION_OPTIONS ||
	    !takes(hop, skb, set, ETH_HLEN + IP6, inner))
		return 0;
	if (merge_ecn(outer, inner)) {
		count(DROPPED_ECN);
		return TC_ACT_SHOT;
	}
	return send_on(skb, set, IP6, inner, hop);
}

static __always_inline __u32 ports_of(const struct flow *flow)
{
	return flow->ports ? (__u32)flow->source_port << 16 | flow->destination_port : 0;
}

static __always_inline struct passage *passage_of(const struct settings *set, const struct flow *flow)
{
	__u32 i = flow->hash & set->hop_mask;

	return bpf_map_lookup_elem(&passages, &i);
}

/* How the flow's last packet entered a tunnel, unless it has to be decided anew. A flow of this host's own and one that
 * came in are two, as only one of them may have an address of this host for a source. */
static __always_inline struct passage *noted(const struct settings *set, const struct flow *flow, __u32 own)
{
	struct passage *last = passage_of(set, flow);

	if (!last || last->hash != flow->hash || last->epoch != set->epoch || last->generation != set->generation ||
	    last->own != own || last->ports != ports_of(flow) || last->protocol != flow->protocol ||
	    !same(&last->to, &flow->destination) || !same(&last->from, &flow->source))
		return 0;
	return bpf_ktime_get_coarse_ns() - last->stamp < HOP_LIFE_NS ? last : 0;
}

/* Notes how a flow enters a tunnel. Echoes of ICMPv6 may be probes, of which each has its own path. */
static __always_inline void note(const struct settings *set, const struct flow *flow, __u32 own, const struct path *path,
				 const struct hop *hop)
{
	struct passage *last = passage_of(set, flow);

	if (!last || flow->protocol == ICMP6)
		return;
	last->from = flow->source;
	last->to = flow->destination;
	last->own = own;
	last->hash = flow->hash;
	last->ports = ports_of(flow);
	last->protocol = flow->protocol;
	last->path = *path;
	last->stamp = hop->stamp;
	last->link = hop->link;
	last->generation = set->generation;
	last->epoch = set->epoch;
	__builtin_memcpy(last->mac, hop->mac, sizeof(last->mac));
}

/* Puts the outer header before a packet that has room for an Ethernet header, and sends it on. `inner` is what it is, `word`
 * the first of its header. */
static __always_inline int wrap(struct __sk_buff *skb, __u8 inner, __be32 word, const struct path *path, __u32 hash, __u32 link,
				const __u8 *mac, __u32 as)
{
	__u32 length = skb->len - ETH_HLEN;
	struct ipv6hdr *ip;

	if (grow(skb)) {
		count(DROPPED_ROOM);
		return TC_ACT_SHOT;
	}
	ip = header(skb, ETH_HLEN, 0);
	if (!ip)
		return TC_ACT_SHOT;
	write_outer(ip, inner, word, path, hash, length);
	write_ethernet((void *)ip - ETH_HLEN, mac);
	count(as);
	return bpf_redirect(link, 0);
}
