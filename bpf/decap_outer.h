/* Decapsulation of packets with an outer IPv4 header (RFC 5555 §4.4, RFC 4213 §3.6), or in UDP over IPv6. Signalling
 * and what the kernel has to join or split first are left to the daemon's sockets. */
#pragma once
#include "decap.h"
#include "outer_udp6.h"

#define NOT_HANDLED -2  /* none of our tunnels: no verdict */
#define MOST_OUTER (IP6 + UDP_HEADER + SEQUENCE_HEADER)

static __always_inline int drop_decap(__u32 reason)
{
	count(reason);
	return ACT_DROP;
}

/* Mobility signalling, which engines receive by a packet socket. */
static __always_inline int is_signalling(const struct ipv6hdr *inner)
{
	struct addr to ALIGN_HALF;

	if (inner->nexthdr != MOBILITY && inner->nexthdr != ESP)
		return 0;
	to = read_addr(&inner->daddr);
	return bpf_map_lookup_elem(&signalling, &to) != 0;
}

/* Octets of the outer headers, with a bound that the verifier sees. */
static __always_inline __u32 room_of(packet *p, const struct outer *outer)
{
	return forget_bits(p, outer->length, 0x3f);
}

/* Removes the outer headers of a packet of the path with this number and redirects it; without a next hop the tunnel device
 * receives it. */
static __always_inline int remove_and_redirect(packet *p, const struct settings *set, __u32 l2, const struct outer *outer,
					       struct next_hop *hop, __u32 stat)
{
	__u32 room = room_of(p, outer);
	struct ipv6hdr *inner = ip6_header(p, l2 + room, 0);

	if (!hop && !HAS_SKB)
		return ACT_PASS;
	note_inner(p, stat, l2 + room, inner);
	if (hop && hop->link != set->device && inner)
		inner->hop_limit--;
	if (outer->is_ip4 ? remove_outer4_of_ip6(p, room) : remove_outer(p, room))
		return drop_decap(COUNT_DROPPED_ROOM);
	if (hop)
		return redirect_inner(p, set, hop);
	return receive_inner(set);
}

/* Whether the tunnel may carry the inner packet, at `at`, and it is no second copy; what it is, is stored. */
static __always_inline enum verdict check_inner(packet *p, __u32 at, const struct outer *outer, struct parsed_outer *parsed)
{
	__u32 *index = bpf_map_lookup_elem(&ends, &outer->local);
	enum verdict verdict;

	if (!index || !!(*index & OVER_IP4) != outer->is_ip4)
		return NOT_OURS;
	parsed->is_ip4 = outer->inner == ENCAPSULATED_IP4;
	verdict = parsed->is_ip4 ? parse_inner4(p, at, outer->ecn, parsed) : parse_inner(p, at, outer->ecn, parsed);
	if (verdict != OURS)
		return verdict;
	if (!is_inner_allowed(parsed, *index & ~OVER_IP4, &outer->local, &outer->remote, outer->ports))
		return drop(COUNT_DROPPED_SOURCE);
	return HAS_SKB && outer->is_numbered && !is_first_copy(outer->sequence) ? DROP : OURS;
}

/* An inner IPv6 packet, by the cached decision if that is still valid. */
static __noinline int decap_ip6_of_outer(packet *p, __u32 l2, struct settings *set, struct scratch *scratch)
{
	const struct outer *outer = &scratch->outer;
	struct nh_key *key = &scratch->key;
	__u32 at = l2 + room_of(p, outer), epoch = outer->is_ip4 ? ~set->epoch : set->epoch;
	struct ipv6hdr *inner = ip6_header(p, at, 0);
	struct next_hop *hop;

	/* A buffer of several datagrams, which the kernel splits for a socket, has but the first one's inner packet here. */
	if (!inner || is_signalling(inner) || (gso_size(p) && !has_stated_length(p, at, inner)))
		return ACT_PASS;
	key->source = read_addr(&inner->saddr);
	key->destination = read_addr(&inner->daddr);
	key->required_link = 0;
	hop = l2 && inner->version == 6 && !outer->is_numbered && !is_tunnelled(inner->nexthdr) && inner->nexthdr != DESTINATION_OPTIONS ?
		      nh_entry(set, key) : 0;
	if (accepts_outer(hop, set, key, epoch, &outer->local, &outer->remote, outer->ports) &&
	    can_forward(hop, p, set, at, inner)) {
		if (merge_ecn(outer->ecn, inner))
			return drop_decap(COUNT_DROPPED_ECN);
		return remove_and_redirect(p, set, l2, outer, hop, hop->outer_stat);
	}
	switch (check_inner(p, at, outer, &scratch->parsed)) {
	case OURS:
		break;
	case DROP:
		return ACT_DROP;
	default:
		return NOT_HANDLED;
	}
	hop = l2 ? nh_lookup(p, set, key) : 0;
	inner = ip6_header(p, at, 0);
	if (!hop || !inner || !can_forward(hop, p, set, at, inner))
		return remove_and_redirect(p, set, l2, outer, 0, scratch->stat);
	note_outer(hop, epoch, &outer->local, &outer->remote, outer->ports, scratch->stat);
	return remove_and_redirect(p, set, l2, outer, hop, scratch->stat);
}

#if HAS_SKB
/* An inner IPv4 packet: the tunnel device receives it, and the kernel routes it. */
static __noinline int decap_ip4_of_outer(packet *p, __u32 l2, struct settings *set, struct scratch *scratch)
{
	const struct outer *outer = &scratch->outer;
	__u32 room = room_of(p, outer);
	struct iphdr *inner = ip4_header(p, l2 + room);

	if (!inner || (p->gso_size && bpf_ntohs(inner->tot_len) != packet_length(p) - l2 - room))
		return ACT_PASS;
	switch (check_inner(p, l2 + room, outer, &scratch->parsed)) {
	case OURS:
		break;
	case DROP:
		return ACT_DROP;
	default:
		return NOT_HANDLED;
	}
	note_received(p, scratch->stat, packet_length(p) - l2 - room);
	if (outer->is_ip4 ? remove_outer(p, room) : remove_outer_of_ip4(p, room))
		return drop_decap(COUNT_DROPPED_ROOM);
	return receive_inner(set);
}
#else
static __always_inline int decap_ip4_of_outer(packet *p, __u32 l2, struct settings *set, struct scratch *scratch)
{
	return (void)p, (void)l2, (void)set, (void)scratch, ACT_PASS;
}
#endif

static __always_inline int decap_outer(packet *p, __u32 l2, struct settings *set, struct scratch *scratch)
{
	return scratch->outer.inner == ENCAPSULATED_IP6 ? decap_ip6_of_outer(p, l2, set, scratch) :
							  decap_ip4_of_outer(p, l2, set, scratch);
}

/* A received IPv4 packet. */
static __always_inline int ingress4(packet *p, __u32 l2, struct settings *set)
{
	struct scratch *scratch;
	struct iphdr *ip;
	int verdict;

	if (pull(p, l2 + IP4))
		return ACT_PASS;
	ip = ip4_header(p, l2);
	if (!ip || (ip->protocol != UDP && ip->protocol != DESTINATION_OPTIONS && !is_tunnelled(ip->protocol)))
		return ACT_PASS;
	scratch = get_scratch();
	if (!scratch || pull(p, l2 + IP4 + UDP_HEADER + SEQUENCE_HEADER + IP6 + 20) || !parse_outer4(p, l2, &scratch->outer))
		return ACT_PASS;
	verdict = decap_outer(p, l2, set, scratch);
	return verdict == NOT_HANDLED ? ACT_PASS : verdict;
}

/* A received datagram to or from the port of tunnels over IPv6. One of this host is left to the kernel, as in
 * `may_have_own_outer`. */
static __always_inline int ingress_udp6(packet *p, __u32 l2, struct settings *set)
{
	struct scratch *scratch = get_scratch();
	struct addr source ALIGN_HALF;
	struct ipv6hdr *ip;
	int verdict = NOT_HANDLED;

	if (!scratch || pull(p, l2 + MOST_OUTER + IP6 + 20))
		return ACT_PASS;
	if (parse_outer_udp6(p, l2, &scratch->outer))
		verdict = decap_outer(p, l2, set, scratch);
	if (verdict != NOT_HANDLED)
		return verdict;
	ip = ip6_header(p, l2, 0);
	if (!ip)
		return ACT_PASS;
	source = read_addr(&ip->saddr);
	return bpf_map_lookup_elem(&ends, &source) ? ACT_PASS : NOT_HANDLED;
}
