/* The flow cache: the forwarding decision for the last packet of a flow is reused, as long as nothing has changed on which
 * it was based (generation: routes; epoch: tunnels), and as long as its next hop is fresh. */
#pragma once
#include "next_hop.h"

/* Notes in the next hop of a decapsulated packet with which outer header the packet was accepted, unless the packet uses the
 * kernel's neighbour entry. */
static __always_inline void note_outer(struct next_hop *hop, __u32 epoch, const void *local, const void *remote, __u32 ports,
				       __u32 stat)
{
	if (hop->epoch == USE_NEIGHBOUR)
		return;
	copy_addr(&hop->outer_local, local);
	copy_addr(&hop->outer_remote, remote);
	hop->outer_ports = ports;
	hop->outer_stat = stat;
	hop->epoch = epoch;
}

/* Whether packets with these outer addresses have been accepted in this epoch, and still are. The epoch of outer IPv4 headers
 * is the inverse one, so that no IPv6 header stands for IPv4 endpoints. */
static __always_inline int accepts_outer(const struct next_hop *hop, const struct settings *set, const struct nh_key *key,
					 __u32 epoch, const void *local, const void *remote, __u32 ports)
{
	return hop && hop->epoch == epoch && hop->outer_ports == ports && nh_matches(hop, set, key) && addr_equal(&hop->outer_local, local) &&
	       addr_equal(&hop->outer_remote, remote) && is_fresh(set, hop->resolved, bpf_jiffies64());
}

/* In the ingress interface of a flow: the kernel has forwarded its packets. */
#define FORWARDED (1U << 31)

static __always_inline struct flow_entry *flow_entry_of(const struct settings *set, const struct flow *flow)
{
	__u32 i = flow->hash & set->cache_mask;

	return bpf_map_lookup_elem(&passages, &i);
}

/* How the last packet of the flow was encapsulated; null on a cache miss. Packets from another interface are
 * another flow, and so are this host's own (`ingress` 0), because the source of each may have to be another. What the kernel
 * has forwarded into the tunnel device is a flow of its own as well: it opens no fast path. */
static __always_inline struct flow_entry *flow_lookup(const struct settings *set, const struct flow *flow, __u32 ingress)
{
	struct flow_entry *entry = flow_entry_of(set, flow);

	if (!entry || entry->hash != flow->hash || entry->epoch != set->epoch || entry->generation != set->generation ||
	    entry->ingress != ingress || entry->ports != ports_of(flow) || entry->kind != kind_of(flow) ||
	    !addr_equal(&entry->destination, &flow->destination) || !addr_equal(&entry->source, &flow->source))
		return 0;
	return is_fresh(set, entry->resolved, bpf_jiffies64()) ? entry : 0;
}

/* Stores the path of a flow, and the interface by which its packets leave. Null: it is not cached. ICMPv6 is not: echoes may be
 * probes, each of which has a path of its own. */
static __always_inline struct flow_entry *flow_store_path(const struct settings *set, const struct flow *flow, __u32 ingress,
							  const struct path *path, __u32 link, __u64 resolved)
{
	struct flow_entry *entry = flow_entry_of(set, flow);

	if (!entry || flow->protocol == ICMP6)
		return 0;
	entry->source = flow->source;
	entry->destination = flow->destination;
	entry->ingress = ingress;
	entry->hash = flow->hash;
	entry->ports = ports_of(flow);
	entry->kind = kind_of(flow);
	entry->path = *path;
	entry->resolved = resolved;
	entry->link = link;
	entry->generation = set->generation;
	entry->epoch = set->epoch;
	return entry;
}

/* Stores how a flow is encapsulated. */
static __always_inline void flow_store(const struct settings *set, const struct flow *flow, __u32 ingress,
				       const struct path *path, const struct next_hop *hop)
{
	struct flow_entry *entry = flow_store_path(set, flow, ingress, path, hop->link, hop->resolved);

	if (entry)
		__builtin_memcpy(entry->mac, hop->mac, sizeof(entry->mac));
}

/* Stores which device encrypts a flow. */
static __always_inline void flow_store_encrypted(const struct settings *set, const struct flow *flow, __u32 ingress,
						 const struct path *path)
{
	flow_store_path(set, flow, ingress, path, path->link, bpf_jiffies64());
}
