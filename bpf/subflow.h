/* The packets of subflows by encrypted paths (docs/bonding.md): one end has an address that tells the BID of the path, by which
 * alone they pass, in both directions; and at the other end is the relay of a home agent. All else with such an address is dropped. */
#pragma once
#include "packet.h"

/* The BID in an address of subflows, plus 1; 0: it is none. */
static __always_inline __u32 subflow_bid(const struct addr *a)
{
	if (a->w[0] != bpf_htonl(SUBFLOW_NETWORK >> 16) || bpf_ntohl(a->w[1]) >> 16 != (SUBFLOW_NETWORK & 0xffff))
		return 0;
	return bpf_ntohl(a->w[3]) % SUBFLOW_BIDS + 1;
}

/* The same of a packet. */
static __always_inline __u32 subflow_of(const struct flow *flow)
{
	__u32 bid = subflow_bid(&flow->source);

	return bid ? bid : subflow_bid(&flow->destination);
}

/* Whether a packet of a subflow is between it and the relay of a home agent. */
static __always_inline int is_between_relays(const struct flow *flow)
{
	int is_outbound = subflow_bid(&flow->source) != 0, is_inbound = subflow_bid(&flow->destination) != 0;

	if (flow->protocol != TCP || !flow->has_ports || is_outbound == is_inbound)
		return 0;
	return (is_outbound ? flow->destination_port : flow->source_port) == RELAY_PORT;
}

/* Whether packets with this BID in their address pass by the path. The BID of a path without a session may have a bit that hides it
 * from flow rules. */
static __always_inline int has_subflows(const struct path *path, __u32 bid)
{
	return path->kind == PATH_ENCRYPTED && path->bid % SUBFLOW_BIDS == bid;
}

/* Whether a packet that has come by this path may have. */
static __always_inline int may_come_by(const struct path *path, const struct flow *flow)
{
	__u32 bid = subflow_of(flow);

	return !bid || (has_subflows(path, bid - 1) && is_between_relays(flow));
}
