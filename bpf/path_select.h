/* Which path of its tunnel a packet takes: a probe the path under test, a subflow of a relayed connection the encrypted path of
 * its address, a flow the path of its rule (RFC 6089), all other packets by weight. */
#pragma once
#include "maps.h"
#include "next_hop.h"
#include "packet.h"
#include "subflow.h"

#define NO_PATH PATHS
#define ECHO_REQUEST 128
#define ECHO_REPLY 129

/* The functions that choose a path are not static: the verifier checks each of them once, and not again in each state in which it is
 * called. Linux 6.1 loads the programs in a fifth of the time. */

__noinline __u32 path_by_bid(const struct tunnel *tunnel, __u16 bid)
{
	if (!tunnel)
		return NO_PATH;
	for (__u32 i = 0; i < PATHS; i++)
		if (i < tunnel->paths && tunnel->path_slot[i].path.bid == bid)
			return i;
	return NO_PATH;
}

/* Whether an echo is between the endpoints of the tunnel. Those of a path over IPv4 do not name the hosts inside: there the
 * sender is an address of signalling. */
static __always_inline int is_between_endpoints(const struct path *path, const struct flow *flow)
{
	/* On the stack: before Linux 6.2 an argument cannot be a key. */
	struct addr source ALIGN_HALF = flow->source;

	if (is_over_ip4(path) || (path->kind == PATH_ENCRYPTED && bpf_map_lookup_elem(&signalling, &source)))
		return bpf_map_lookup_elem(&signalling, &source) != 0;
	return addr_equal(&flow->source, &path->local) || addr_equal(&flow->destination, &path->remote);
}

/* The number of a path, known to be less than PATHS. The compiler may have kept a copy from before the comparison, and the verifier
 * of Linux 6.1 does not know that it is the same. */
static __always_inline __u32 path_number(__u32 i)
{
	asm volatile("" : "+r"(i));
	return i & (PATHS - 1);
}

/* Probes are echoes between the endpoints of the tunnel; their identifier is the BID of the path under test. */
static __always_inline __u32 path_of_probe(const struct tunnel *tunnel, const struct flow *flow)
{
	__u32 i;

	if (flow->protocol != ICMP6 || (flow->icmp_type != ECHO_REQUEST && flow->icmp_type != ECHO_REPLY))
		return NO_PATH;
	i = path_by_bid(tunnel, flow->echo_id);
	return i < PATHS && is_between_endpoints(&tunnel->path_slot[path_number(i)].path, flow) ? i : NO_PATH;
}

static __always_inline int rule_matches(const struct rule *rule, const struct flow *flow)
{
	if ((rule->protocol != ANY && rule->protocol != flow->protocol) || (rule->dscp != ANY && rule->dscp != flow->dscp) ||
	    (rule->ingress && rule->ingress != flow->ingress))
		return 0;
	if (!addr_in(&flow->source, &rule->source, &rule->source_mask) ||
	    !addr_in(&flow->destination, &rule->destination, &rule->destination_mask))
		return 0;
	if (rule->source_first == 0 && rule->source_last == 0xffff &&
	    rule->destination_first == 0 && rule->destination_last == 0xffff)
		return 1;
	return flow->has_ports && flow->source_port >= rule->source_first && flow->source_port <= rule->source_last &&
	       flow->destination_port >= rule->destination_first && flow->destination_port <= rule->destination_last;
}

/* The path of a rule; for packets to be replicated the second path plus 1 is in the next octet. With one of the two absent,
 * packets go by the other alone. */
static __always_inline __u32 paths_of_rule(const struct tunnel *tunnel, const struct rule *rule)
{
	__u32 path = path_by_bid(tunnel, rule->bid), second;

	if (!rule->replica)
		return path;
	second = path_by_bid(tunnel, rule->replica);
	if (path >= PATHS)
		return second;
	return second < PATHS ? path | (second + 1) << 8 : path;
}

/* If the path of a matching rule is absent, the next matching rule decides (RFC 6089 §4.3). The result is that of
 * `paths_of_rule`. */
__noinline __u32 path_by_rule(const struct tunnel *tunnel, const struct flow *flow)
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
		if (rule_matches(&all->rule[i], flow)) {
			__u32 path = paths_of_rule(tunnel, &all->rule[i]);
			if (path != NO_PATH)
				return path;
		}
	}
	return NO_PATH;
}

static __always_inline __u32 path_by_weight(const struct tunnel *tunnel, __u32 hash)
{
	__u32 share = tunnel->weight ? ((__u64)hash * tunnel->weight) >> 32 : 0;

	for (__u32 i = 0; i < PATHS; i++) {
		if (i >= tunnel->paths)
			break;
		if (share < tunnel->path_slot[i].path.weight)
			return i;
		share -= tunnel->path_slot[i].path.weight;
	}
	return NO_PATH;
}

/* The path of a packet of a subflow, which this host sends: never another one. */
__noinline __u32 path_of_subflow(const struct tunnel *tunnel, const struct flow *flow)
{
	__u32 bid;

	if (!tunnel || !flow || flow->ingress || !is_between_relays(flow))
		return NO_PATH;
	bid = subflow_of(flow) - 1;
	for (__u32 i = 0; i < PATHS; i++)
		if (i < tunnel->paths && has_subflows(&tunnel->path_slot[i].path, bid))
			return i;
	return NO_PATH;
}

/* The path of a flow; for packets to be replicated both, as `paths_of_rule` returns them. */
__noinline __u32 path_of_flow(const struct tunnel *tunnel, const struct flow *flow)
{
	__u32 i;

	if (!tunnel || !flow)
		return NO_PATH;
	if (subflow_of(flow))
		return path_of_subflow(tunnel, flow);
	i = path_of_probe(tunnel, flow);
	if (i >= PATHS && tunnel->rules)
		i = path_by_rule(tunnel, flow);
	return i == NO_PATH ? path_by_weight(tunnel, flow->hash) : i;
}

/* Copies the path, so that one packet never sees two states of a tunnel, and returns the route of the path. Null if the
 * tunnel has no path for the flow. `members`: both paths of a packet to be replicated, as
 * `path_by_rule` returns them, else 0. */
static __always_inline struct path_route *select_path(struct tunnel *tunnel, const struct flow *flow, struct path *selected,
						      __u32 *members)
{
	__u32 i = path_of_flow(tunnel, flow);

	*members = i >> 8 ? i : 0;
	i &= 0xff;
	if (i >= PATHS)
		return 0;
	i = path_number(i);
	*selected = tunnel->path_slot[i].path;
	return &tunnel->path_slot[i].route;
}
