/* Packets like one before. What was decided of that holds for them, as long as nothing has changed that it was decided by
 * (generation: routes; epoch: tunnels), and as its next hop lives. */
#pragma once
#include "hop.h"

static __always_inline void remember(struct hop *hop, const struct settings *set, const struct ipv6hdr *outer)
{
	hop->local = read_addr(&outer->daddr);
	hop->remote = read_addr(&outer->saddr);
	hop->epoch = set->epoch;
}

static __always_inline struct passage *passage_of(const struct settings *set, const struct flow *flow)
{
	__u32 i = flow->hash & set->hop_mask;

	return bpf_map_lookup_elem(&passages, &i);
}

/* How the flow's last packet entered a tunnel, unless it has to be decided anew. What comes in by another interface is another
 * flow, and so is this host's own (`arrived` 0), as the source of each may have to be another. */
static __always_inline struct passage *noted(const struct settings *set, const struct flow *flow, __u32 arrived)
{
	struct passage *last = passage_of(set, flow);

	if (!last || last->hash != flow->hash || last->epoch != set->epoch || last->generation != set->generation ||
	    last->arrived != arrived || last->ports != ports_of(flow) || last->protocol != flow->protocol ||
	    !same(&last->to, &flow->destination) || !same(&last->from, &flow->source))
		return 0;
	return lives(set, last->stamp, bpf_jiffies64()) ? last : 0;
}

/* Notes how a flow enters a tunnel. Echoes of ICMPv6 may be probes, of which each has its own path. */
static __always_inline void note(const struct settings *set, const struct flow *flow, __u32 arrived,
				 const struct path *path, const struct hop *hop)
{
	struct passage *last = passage_of(set, flow);

	if (!last || flow->protocol == ICMP6)
		return;
	last->from = flow->source;
	last->to = flow->destination;
	last->arrived = arrived;
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
