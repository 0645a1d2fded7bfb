/* Which tunnel a packet belongs to, by the prefixes of the tunnel's two sides (RFC 3963 §6.5, §9). */
#pragma once
#include "scratch.h"

/* Longest prefix match of `a` on one side, in the slots first if `by_slots`. Returns the number of the prefix's tunnel, 0 if
 * there is none. */
static __always_inline __u32 match_prefix_inline(__u32 side, const struct addr *a, struct prefix_match *match, int by_slots)
{
	struct settings *set = get_settings();
	/* On the stack: before Linux 6.2 an argument cannot be a key. */
	struct prefix_key key = {};
	struct prefix_lengths *lens;
	__u32 which;

	match->entry.tunnel = 0;
	if (!set)
		return 0;
	key.side = side;
	which = SIDES * set->length_set + side;
	lens = bpf_map_lookup_elem(&lengths, &which);
	if (!lens)
		return 0;
	for (int i = 0; i < PREFIX_LENGTHS; i++) {
		struct prefix_length *length = &lens->entry[i];
		struct prefix_entry *entry;

		if (length->length == NO_LENGTH)
			break;
		if (!addr_in(a, &length->cover, &length->cover_mask))
			continue;
		if (by_slots && has_slots(length->length) && slot_lookup(set, a, length->length, match))
			return match->entry.tunnel;
		for (int w = 0; w < 4; w++)
			key.address.w[w] = a->w[w] & length->mask.w[w];
		key.length = length->length;
		entry = bpf_map_lookup_elem(&prefixes, &key);
		if (entry) {
			match->key = key;
			match->entry = *entry;
			match->slot = 0;
			return match->entry.tunnel;
		}
	}
	return 0;
}

/* Not inlined, without slots: for callers that are rare, or have little left of the 512 octets of stack that all share. */
__noinline __u32 match_prefix(__u32 side, const struct addr *a, struct prefix_match *match)
{
	return a && match && side < SIDES ? match_prefix_inline(side, a, match, 0) : 0;
}

/* Not inlined, of the far side, with slots. */
__noinline __u32 match_far_prefix(const struct addr *a, struct prefix_match *match)
{
	return a && match ? match_prefix_inline(FAR, a, match, 1) : 0;
}

/* Whether `a` belongs to a side of the tunnel; `scratch` is overwritten. */
__noinline int is_on_side(const struct tunnel *tunnel, __u32 side, const struct addr *a, struct prefix_match *scratch)
{
	if (!tunnel || !a || !scratch)
		return 0;
	if (tunnel->flags & ALL_ADDRESSES << side)
		return 1;
	if (tunnel->flags & MORE_PREFIXES << side)
		return match_prefix(side, a, scratch) == tunnel->id;
	for (int i = 0; i < INLINE_PREFIXES; i++) {
		if (i >= tunnel->inline_prefixes)
			break;
		if ((tunnel->near >> i & 1) == side && addr_in(a, &tunnel->inline_prefix[i].address, &tunnel->inline_prefix[i].mask))
			return 1;
	}
	return 0;
}

/* The tunnel between `near` and `far`; `match` is the longest prefix that contains `far`, and is overwritten. A tunnel one
 * side of which is all addresses is indexed by its other side only. */
static __noinline struct tunnel *find_tunnel_by(struct prefix_match *match, const struct addr *near, const struct addr *far)
{
	struct tunnel *tunnel;
	__u32 id = match->entry.tunnel;

	if (id) {
		tunnel = bpf_map_lookup_elem(&tunnels, &id);
		if (tunnel && is_on_side(tunnel, NEAR, near, match))
			return tunnel;
	}
	id = match_prefix(NEAR, near, match);
	if (id) {
		tunnel = bpf_map_lookup_elem(&tunnels, &id);
		if (tunnel && is_on_side(tunnel, FAR, far, match))
			return tunnel;
	}
	return 0;
}

static __noinline struct tunnel *find_tunnel(const struct addr *near, const struct addr *far)
{
	struct scratch *scratch = get_scratch();

	if (!scratch)
		return 0;
	match_far_prefix(far, &scratch->match);
	return find_tunnel_by(&scratch->match, near, far);
}

/* A near prefix of 128 bits is an address of this host. */
static __always_inline int is_own_address(const struct addr *a)
{
	struct prefix_key key = { .address = *a, .length = 128, .side = NEAR };

	return bpf_map_lookup_elem(&prefixes, &key) != 0;
}
