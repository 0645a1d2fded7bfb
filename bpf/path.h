/* Which path of its tunnel a packet takes: a probe its own, a flow its rule's (RFC 6089), the rest by weight. */
#pragma once
#include "maps.h"
#include "packet.h"

#define NO_PATH PATHS
#define ECHO_REQUEST 128
#define ECHO_REPLY 129

static __always_inline __u32 find_bid(const struct tunnel *tunnel, __u16 bid)
{
	for (__u32 i = 0; i < PATHS; i++)
		if (i < tunnel->paths && tunnel->lane[i].path.bid == bid)
			return i;
	return NO_PATH;
}

/* Liveness probes are echoes between the ends of the tunnel; their identifier names the path under test. */
static __always_inline __u32 find_probed(const struct tunnel *tunnel, const struct flow *flow)
{
	__u32 i;

	if (flow->protocol != ICMP6 || (flow->type != ECHO_REQUEST && flow->type != ECHO_REPLY))
		return NO_PATH;
	i = find_bid(tunnel, flow->echo);
	if (i < PATHS && (same(&flow->source, &tunnel->lane[i].path.local) || same(&flow->destination, &tunnel->lane[i].path.remote)))
		return i;
	return NO_PATH;
}

static __always_inline int matches(const struct rule *rule, const struct flow *flow)
{
	if (rule->protocol != ANY_PROTOCOL && rule->protocol != flow->protocol)
		return 0;
	if (!inside(&flow->source, &rule->source, &rule->source_mask) ||
	    !inside(&flow->destination, &rule->destination, &rule->destination_mask))
		return 0;
	if (rule->source_first == 0 && rule->source_last == 0xffff &&
	    rule->destination_first == 0 && rule->destination_last == 0xffff)
		return 1;
	return flow->ports && flow->source_port >= rule->source_first && flow->source_port <= rule->source_last &&
	       flow->destination_port >= rule->destination_first && flow->destination_port <= rule->destination_last;
}

/* A rule whose path is absent lets the flow fall through to the next (RFC 6089 §4.3). */
__noinline __u32 find_ruled(const struct tunnel *tunnel, const struct flow *flow)
{
	struct rules_key key = {};
	struct rules *all;

	if (!tunnel || !flow)
		return NO_PATH;
	key.tunnel = tunnel->id;
	key.version = tunnel->version;
	all = bpf_map_lookup_elem(&rules, &key);
	if (!all)
		return NO_PATH;
	for (__u32 i = 0; i < RULES; i++) {
		if (i >= tunnel->rules)
			break;
		if (matches(&all->of[i], flow)) {
			__u32 path = find_bid(tunnel, all->of[i].bid);
			if (path < PATHS)
				return path;
		}
	}
	return NO_PATH;
}

static __always_inline __u32 find_weighted(const struct tunnel *tunnel, __u32 hash)
{
	__u32 share = tunnel->weight ? ((__u64)hash * tunnel->weight) >> 32 : 0;

	for (__u32 i = 0; i < PATHS; i++) {
		if (i >= tunnel->paths)
			break;
		if (share < tunnel->lane[i].path.weight)
			return i;
		share -= tunnel->lane[i].path.weight;
	}
	return NO_PATH;
}

/* Copies the path out, so that one packet never sees two states of a tunnel, and returns what is known of its route. Null
 * if there is no path to take. */
static __always_inline struct route *choose(struct tunnel *tunnel, const struct flow *flow, struct path *chosen)
{
	__u32 i = find_probed(tunnel, flow);

	if (i >= PATHS && tunnel->rules)
		i = find_ruled(tunnel, flow);
	if (i >= PATHS)
		i = find_weighted(tunnel, flow->hash);
	if (i >= PATHS)
		return 0;
	*chosen = tunnel->lane[i].path;
	return &tunnel->lane[i].route;
}
