/* The traffic of contexts, for the reachability protocol (RFC 5534 §4), and conversations that may need a context. */
#pragma once
#include "maps.h"

struct load { __u64 now, packets, octets; };

/* A GSO packet counts as the packets into which it will be segmented. */
static __always_inline struct load load_out(struct __sk_buff *skb, __u32 l2)
{
	struct load load = { bpf_ktime_get_coarse_ns(), skb->gso_segs ?: 1, skb->len - l2 };

	if (skb->gso_size && skb->wire_len > load.packets * l2)
		load.octets = skb->wire_len - load.packets * l2;
	return load;
}

static __always_inline struct load load_in(struct __sk_buff *skb, __u32 l2)
{
	return (struct load){ bpf_ktime_get_coarse_ns(), skb->gso_segs ?: 1, skb->len - l2 };
}

/* Notifies the daemon once if it has requested that. */
static __always_inline void notify(__u32 index, __u32 what)
{
	__u32 *wanted = bpf_map_lookup_elem(&asked, &index);
	struct activity_event event = { ACTIVITY, index };

	if (wanted && *wanted & what && __sync_fetch_and_and(wanted, ~what) & what)
		bpf_ringbuf_output(&events, &event, sizeof(event), 0);
}

static __always_inline void count_sent(__u32 index, const struct load *load)
{
	struct traffic *all = bpf_map_lookup_elem(&carried, &index);
	if (!all)
		return;
	all->sent = load->now;
	if (!all->unanswered)
		all->unanswered = load->now;
	if (all->unreturned)
		all->unreturned = 0;
	__sync_fetch_and_add(&all->packets_out, load->packets);
	__sync_fetch_and_add(&all->octets_out, load->octets);
	notify(index, NOTIFY_SENT);
}

static __always_inline void count_received(__u32 index, const struct load *load)
{
	struct traffic *all = bpf_map_lookup_elem(&carried, &index);
	if (!all)
		return;
	all->received = load->now;
	if (!all->unreturned)
		all->unreturned = load->now;
	if (all->unanswered)
		all->unanswered = 0;
	__sync_fetch_and_add(&all->packets_in, load->packets);
	__sync_fetch_and_add(&all->octets_in, load->octets);
	notify(index, NOTIFY_RECEIVED);
}

static __always_inline int is_over_threshold(const struct conversation *all, const struct shim_settings *set, __u64 now,
					     int outgoing)
{
	if (all->reported && now - all->reported < set->again)
		return 0;
	return (set->octets && all->octets >= set->octets) || (set->packets && all->packets >= set->packets) ||
	       (outgoing && set->age && now - all->since >= set->age);
}

/* Counts a packet of a conversation without a context. Only what this host sends begins a conversation: other hosts cannot
 * fill the table. */
static __always_inline void count_conversation(struct __sk_buff *skb, const struct pair *pair, const struct load *load,
					       int outgoing)
{
	struct shim_settings *set = get_shim_settings();
	struct conversation *all, begun = {};
	struct flow_event event = {};

	if (!set || !set->triggers)
		return;
	all = bpf_map_lookup_elem(&conversations, pair);
	if (!all || load->now - all->last > set->idle) {
		if (!outgoing)
			return;
		begun.since = begun.last = load->now;
		bpf_map_update_elem(&conversations, pair, &begun, BPF_ANY);
		all = bpf_map_lookup_elem(&conversations, pair);
		if (!all)
			return;
	}
	if (outgoing)
		all->last = load->now;
	__sync_fetch_and_add(&all->packets, load->packets);
	__sync_fetch_and_add(&all->octets, load->octets);
	if (!is_over_threshold(all, set, load->now, outgoing))
		return;
	all->reported = load->now;
	event.kind = FLOW;
	event.link = skb->ifindex;
	event.pair = *pair;
	event.packets = all->packets;
	event.octets = all->octets;
	event.since = all->since;
	bpf_ringbuf_output(&events, &event, sizeof(event), 0);
}
