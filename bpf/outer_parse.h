/* Outer headers of packets to this host: whether they are a tunnel's, and whether the inner packet is allowed. */
#pragma once
#include "tunnel_lookup.h"
#include "outer_header.h"
#include "packet.h"
#include "sequence_recovery.h"

enum verdict { OURS, NOT_OURS, DROP };

/* The bits of the offset of a header, as the verifier has to see them: more than that of the last of LAYERS outer headers. */
#define OFFSET_BITS 0x1ff

static __always_inline enum verdict drop(__u32 reason)
{
	count(reason);
	return DROP;
}

/* The path of the tunnel between these endpoints, its index plus 1; else 0. In UDP over IPv6 it has these ports, else it may
 * have any (0). */
__noinline __u32 path_between(const struct tunnel *tunnel, const struct addr *local, const struct addr *remote, __u32 ports)
{
	if (!tunnel || !local || !remote)
		return 0;
	for (int i = 0; i < PATHS; i++) {
		if (i >= tunnel->paths)
			break;
		if (tunnel->path_slot[i].path.kind != PATH_DIRECT && tunnel->path_slot[i].path.kind != PATH_ENCRYPTED && (!ports || ports == tunnel->path_slot[i].path.ports) &&
		    addr_equal(&tunnel->path_slot[i].path.remote, remote) && addr_equal(&tunnel->path_slot[i].path.local, local))
			return i + 1;
	}
	return 0;
}

/* Whether the tunnel between these endpoints may carry the inner packet. Its number, and that of its path, are stored. */
static __noinline int is_inner_allowed(const struct parsed_outer *parsed, __u32 local_index, const struct addr *local,
				       const struct addr *remote, __u32 ports)
{
	struct scratch *scratch = get_scratch();
	struct prefix_match *match;
	struct tunnel *tunnel;
	__u32 which;

	if (!scratch)
		return 0;
	match = &scratch->match;
	scratch->stat = 0;
	scratch->tunnel = match_far_prefix(&parsed->source, match);
	if (scratch->tunnel && match->entry.has_inline_path && !ports &&
	    match->entry.local_index == local_index && addr_equal(&match->entry.remote, remote))
		return 1;
	tunnel = find_tunnel_by(match, &parsed->destination, &parsed->source);
	which = tunnel ? path_between(tunnel, local, remote, ports) - 1 : PATHS;
	/* Subflows with an address of encrypted paths come by these alone. */
	if (which >= PATHS || subflow_bid(&parsed->source) || subflow_bid(&parsed->destination))
		return 0;
	scratch->stat = tunnel->path_slot[which].path.stat;
	scratch->tunnel = tunnel->id;
	return 1;
}

/* Whether a packet with a number, of the tunnel that `is_inner_allowed` has stored, is the first copy. */
static __always_inline int is_first_copy(__u32 sequence)
{
	struct scratch *scratch = get_scratch();

	return scratch && recover_sequence(scratch->tunnel, sequence);
}

/* Outer headers that stand for IPv4 endpoints come from the daemon alone. */
static __always_inline int is_from_device(packet *p)
{
	struct settings *set = get_settings();

	return set && ingress_ifindex(p) == set->device;
}

/* Parses an inner IPv6 packet. Congestion marks are copied inside even if the packet is dropped afterwards. */
static __always_inline enum verdict parse_inner(packet *p, __u32 at, __u8 outer_ecn, struct parsed_outer *parsed)
{
	struct ipv6hdr *inner = ip6_header(p, at, 0);

	if (!inner || inner->version != 6)
		return drop(COUNT_DROPPED_FORM);
	parsed->source = read_addr(&inner->saddr);
	parsed->destination = read_addr(&inner->daddr);
	if (is_link_scope(&parsed->source) || is_link_scope(&parsed->destination))
		return drop(COUNT_DROPPED_SCOPE);
	return merge_ecn(outer_ecn, inner) ? drop(COUNT_DROPPED_ECN) : OURS;
}

/* Parses an inner IPv4 packet. */
static __always_inline enum verdict parse_inner4(packet *p, __u32 at, __u8 outer_ecn, struct parsed_outer *parsed)
{
	struct iphdr *inner = ip4_header(p, at);

	if (!inner || inner->version != 4)
		return drop(COUNT_DROPPED_FORM);
	parsed->source = v4_mapped(inner->saddr);
	parsed->destination = v4_mapped(inner->daddr);
	if (is_link_scope4(inner->saddr) || is_link_scope4(inner->daddr))
		return drop(COUNT_DROPPED_SCOPE);
	return merge_ecn4(outer_ecn, inner) ? drop(COUNT_DROPPED_ECN) : OURS;
}

/* One outer header: whether this host removes it, and whether the inner packet is allowed (RFC 3963 §6.5, §9). */
__noinline int parse_outer(packet *p, __u32 at, struct parsed_outer *parsed)
{
	struct scratch *scratch = get_scratch();
	struct ipv6hdr *outer;
	const struct sequence_header *header;
	enum verdict verdict;
	__u32 length, sequence, *index;
	__u8 protocol, ecn, is_numbered;

	if (!parsed || !scratch)
		return NOT_OURS;
	at &= OFFSET_BITS;
	outer = ip6_header(p, at, 8);
	if (!outer || !has_stated_length(p, at, outer) || !(length = outer_length(outer, &protocol)))
		return NOT_OURS;
	scratch->outer.local = read_addr(&outer->daddr);
	scratch->outer.remote = read_addr(&outer->saddr);
	index = bpf_map_lookup_elem(&ends, &scratch->outer.local);
	if (!index || (*index & OVER_IP4 && !is_from_device(p)))
		return NOT_OURS;
	parsed->is_ip4 = protocol == ENCAPSULATED_IP4;
	ecn = ecn_of(outer);
	header = (const void *)(outer + 1);
	is_numbered = length > IP6 && is_sequence_header(header);
	sequence = bpf_ntohl(header->sequence);
	verdict = parsed->is_ip4 ? parse_inner4(p, at + length, ecn, parsed) : parse_inner(p, at + length, ecn, parsed);
	if (verdict != OURS)
		return verdict;
	if (!is_inner_allowed(parsed, *index & ~OVER_IP4, &scratch->outer.local, &scratch->outer.remote, 0))
		return drop(COUNT_DROPPED_SOURCE);
	if (HAS_SKB && is_numbered && !is_first_copy(sequence))
		return DROP;
	parsed->length += length;
	return OURS;
}
