/* Hands TCP connections to the relay of this host (docs/bonding.md). The packets of a relayed connection, and the ICMP errors
 * for it, get a mark by which a routing rule delivers them here, to the transparent sockets of the relay. A SYN that a
 * bonding rule selects is held: the relay gets a copy, and puts it in again once the other end is connected. All else is left
 * alone: what no rule selects, and SYNs of which the end points do more than plain TCP. */
#pragma once
#include "flow_cache.h"
#include "path_select.h"

#define NOT_RELAYED -3  /* no verdict */
#define TCP_HEADER 20
#define TCP_FIN_SYN_RST_ACK 0x17
#define TCP_SYN 0x02
#define ICMP4 1

static __always_inline int is_bonding(const struct settings *set)
{
	return set->firewalled & HAS_BONDING;
}

/* Whether a packet whose TCP header is at `upper` begins a connection. */
static __always_inline int is_syn(packet *p, __u32 upper, const struct flow *flow)
{
	__u8 *flags = packet_begin(p) + upper + 13;

	return flow->protocol == TCP && flow->has_ports && (void *)(flags + 1) <= packet_end(p) &&
	       (*flags & TCP_FIN_SYN_RST_ACK) == TCP_SYN;
}

/* The state of the relayed connection that a packet belongs to; 0 if there is none. */
static __always_inline __u32 relay_state_of(const struct flow *flow)
{
	struct relay_key key = {
		.source = flow->source, .destination = flow->destination,
		.source_port = flow->source_port, .destination_port = flow->destination_port,
	};
	__u32 *state = bpf_map_lookup_elem(&relayed, &key);

	return state ? *state : 0;
}

/* Whether the fast path must not forward a decapsulated packet: it belongs to the relay, or begins a connection. */
static __always_inline int may_be_relayed(packet *p, __u32 upper, const struct settings *set, const struct flow *flow)
{
	return is_bonding(set) && flow->protocol == TCP && flow->has_ports &&
	       (is_syn(p, upper, flow) || relay_state_of(flow) == RELAY_ACTIVE);
}

#if HAS_SKB
/* Octets of the packet that caused an ICMP error which tell its connection: an IP header and the ports. */
#define CAUSE4 (IP4 + 4)
#define CAUSE6 (IP6 + 4)

static __always_inline int is_ip4(const packet *p)
{
	return p->protocol == bpf_htons(ETH_P_IP);
}

/* Offset of the TCP or ICMP header of the packet at `l2`. */
static __always_inline __u32 upper_of(const packet *p, __u32 l2)
{
	return l2 + (is_ip4(p) ? IP4 : IP6);
}

/* The flow of the packets that are answered by the one which caused an ICMP error. */
static __noinline int read_cause(packet *p, __u32 at, struct flow *flow, struct syn_packet *room)
{
	struct ipv6hdr *ip = (void *)room->octets;
	struct iphdr *ip4 = (void *)room->octets;
	__be16 *ports;

	if (!flow || !room || bpf_skb_load_bytes(p, at, room->octets, is_ip4(p) ? CAUSE4 : CAUSE6))
		return 0;
	if (is_ip4(p)) {
		if (ip4->ihl != 5 || ip4->protocol != TCP)
			return 0;
		flow->source = v4_mapped(ip4->daddr);
		flow->destination = v4_mapped(ip4->saddr);
		ports = (void *)(ip4 + 1);
	} else {
		if (ip->nexthdr != TCP)
			return 0;
		flow->source = read_addr(&ip->daddr);
		flow->destination = read_addr(&ip->saddr);
		ports = (void *)(ip + 1);
	}
	flow->source_port = bpf_ntohs(ports[1]);
	flow->destination_port = bpf_ntohs(ports[0]);
	return 1;
}

/* Whether a packet is an ICMP error (RFC 4443 §2.1, RFC 792). */
static __always_inline int is_icmp_error(packet *p, __u32 l2, const struct flow *flow)
{
	__u8 *type = packet_begin(p) + upper_of(p, l2);

	if ((void *)(type + 1) > packet_end(p))
		return 0;
	if (is_ip4(p))
		return flow->protocol == ICMP4 && (*type == 3 || *type == 11 || *type == 12);
	return flow->protocol == ICMP6 && *type >= 1 && *type <= 4;
}

/* Whether the first bonding rule, or rule of one uplink, that matches is a bonding rule. */
__noinline int is_bonded_by(const struct bond *bond, const struct flow *flow)
{
	if (!bond || !flow)
		return 0;
	for (__u32 i = 0; i < RULES; i++) {
		if (i >= bond->rules)
			break;
		if (rule_matches(&bond->rule[i], flow))
			return bond->rule[i].bid == 0;
	}
	return 0;
}

/* Whether a connection that begins is to be relayed: one to a mobile network, or from one through its tunnel. */
static __noinline int is_selected(packet *p, const struct settings *set, const struct flow *flow, struct scratch *scratch)
{
	struct prefix_match *match;

	if (!set || !flow || !scratch)
		return 0;
	match = &scratch->match;
	if ((!is_ip4(p) && (is_link_scope(&flow->source) || is_link_scope(&flow->destination))) ||
	    (set->has_bypass && match_prefix(BYPASS, &flow->destination, match)))
		return 0;
	if (match_prefix(FAR, &flow->destination, match) &&
	    is_bonded_by(bpf_map_lookup_elem(&bonds, &match->key), flow))
		return 1;
	if (match_prefix(NEAR, &flow->destination, match) || is_own_address(&flow->source) ||
	    !match_prefix(NEAR, &flow->source, match))
		return 0;
	return is_bonded_by(bpf_map_lookup_elem(&bonds, &match->key), flow) &&
	       (is_ip4(p) || is_routed_into_tunnel(p, set, flow));
}

/* Whether the end point that sends a SYN asks for what the relay would take away: MPTCP of its own (RFC 8684 §3.1), or
 * authentication of segments (RFC 2385, RFC 5925). */
__noinline int has_special_option(const struct syn_packet *syn, __u32 at, __u32 end)
{
	if (!syn)
		return 1;
	for (int i = 0; i < 40; i++) {
		__u32 kind, length;

		if (at >= end || at >= SYN_OCTETS - 1)
			return 0;
		kind = syn->octets[at];
		if (kind == 0)
			return 0;
		if (kind == 19 || kind == 29 || kind == 30)
			return 1;
		length = kind == 1 ? 1 : syn->octets[at + 1];
		if (length == 0)
			return 1;
		at += length;
	}
	return 0;
}

/* Gives the headers of a SYN to the relay. 0 if it stays where it is. */
static __noinline int hold_syn(packet *p, __u32 l2, const struct flow *flow)
{
	struct syn_packet *syn;
	__u32 ip, length;
	__u8 *offset;

	if (!flow)
		return 0;
	ip = is_ip4(p) ? IP4 : IP6;
	offset = packet_begin(p) + upper_of(p, l2) + 12;
	if ((void *)(offset + 1) > packet_end(p))
		return 0;
	length = ip + (*offset >> 4) * 4;
	if (length < ip + TCP_HEADER || length > SYN_OCTETS)
		return 0;
	syn = bpf_ringbuf_reserve(&syns, sizeof(*syn), 0);
	if (!syn)
		return 0;
	syn->link = p->ifindex;
	syn->length = length;
	if (bpf_skb_load_bytes(p, l2, syn->octets, length) || has_special_option(syn, ip + TCP_HEADER, length)) {
		bpf_ringbuf_discard(syn, 0);
		return 0;
	}
	bpf_ringbuf_submit(syn, 0);
	return 1;
}

static __always_inline int deliver_to_relay(packet *p)
{
	p->mark = RELAY_MARK;
	count(COUNT_RELAYED);
	return TC_ACT_OK;
}

/* A packet of TCP or ICMP that would be forwarded. NOT_RELAYED: it still is. */
static __noinline int relay_packet(packet *p, __u32 l2, const struct settings *set, struct flow *flow)
{
	struct scratch *scratch = get_scratch();
	struct flow_entry *cached;
	__u32 state;

	if (!set || !flow || !scratch)
		return NOT_RELAYED;
	if (flow->protocol != TCP) {
		if (!is_icmp_error(p, l2, flow) || !read_cause(p, upper_of(p, l2) + 8, &scratch->caused, &scratch->cause) ||
		    !relay_state_of(&scratch->caused))
			return NOT_RELAYED;
		return deliver_to_relay(p);
	}
	if (!flow->has_ports)
		return NOT_RELAYED;
	state = relay_state_of(flow);
	if (!is_syn(p, upper_of(p, l2), flow))
		return state == RELAY_ACTIVE || state == RELAY_CLOSED ? deliver_to_relay(p) : NOT_RELAYED;
	if (state == RELAY_ACTIVE)
		return deliver_to_relay(p);
	if (state == RELAY_REFUSED || !is_selected(p, set, flow, scratch) || !hold_syn(p, l2, flow))
		return NOT_RELAYED;
	/* What an earlier connection with these ports was, this one is not. */
	cached = flow_entry_of(set, flow);
	if (cached)
		cached->epoch = 0;
	count(COUNT_HELD_SYN);
	return TC_ACT_SHOT;
}

/* A received packet of either family that is not encapsulated on the fast path. */
static __noinline int relay_received(packet *p, __u32 l2, const struct settings *set)
{
	struct scratch *scratch = get_scratch();
	struct ipv6hdr *ip = ip6_header(p, l2, 0);
	struct iphdr *ip4 = ip4_header(p, l2);
	struct flow flow;
	int verdict;

	if (!set || !scratch)
		return TC_ACT_OK;
	if (p->protocol == bpf_htons(ETH_P_IP)) {
		if (!ip4 || ip4->ihl != 5 || (ip4->protocol != TCP && ip4->protocol != ICMP4) || pull(p, l2 + IP4 + TCP_HEADER))
			return TC_ACT_OK;
		ip4 = ip4_header(p, l2);
		if (!ip4)
			return TC_ACT_OK;
		parse_flow4(p, ip4, &flow);
	} else {
		if (!ip || (ip->nexthdr != TCP && ip->nexthdr != ICMP6))
			return TC_ACT_OK;
		parse_flow(p, ip, &flow);
	}
	flow.ingress = p->ifindex;
	verdict = relay_packet(p, l2, set, &flow);
	return verdict == NOT_RELAYED ? TC_ACT_OK : verdict;
}
#else
/* At the driver no packet can be marked: the TC program gets what may be the relay's. */
static __always_inline int relay_packet(packet *p, __u32 l2, const struct settings *set, struct flow *flow)
{
	return flow->protocol != TCP || may_be_relayed(p, l2 + IP6, set, flow) ? ACT_PASS : NOT_RELAYED;
}
#endif
