/* Which tunnel a packet belongs to, by the prefixes of its two sides (RFC 3963 §6.5, §9). */
#pragma once
#include "slot.h"

/* The longest prefix of `side` that holds `a`, by the slots first if that is wanted. Returns the number of its tunnel, 0 if
 * there is none. */
static __always_inline __u32 longest_here(__u32 side, const struct addr *a, struct found *found, int by_slots)
{
	struct settings *set = get_settings();
	/* On the stack: before Linux 6.2 an argument cannot be a key. */
	struct prefix key = {};
	struct lengths *lens;
	__u32 which;

	if (!set)
		return 0;
	key.side = side;
	which = SIDES * set->lengths + side;
	lens = bpf_map_lookup_elem(&lengths, &which);
	if (!lens)
		return 0;
	for (int i = 0; i < LENGTHS; i++) {
		struct length *length = &lens->of[i];
		struct way *way;

		if (length->bits == NO_LENGTH)
			break;
		if (!inside(a, &length->around, &length->around_mask))
			continue;
		if (by_slots && has_slots(length->bits) && read_slot(set, a, length->bits, found))
			return found->way.tunnel;
		for (int w = 0; w < 4; w++)
			key.address.w[w] = a->w[w] & length->mask.w[w];
		key.bits = length->bits;
		way = bpf_map_lookup_elem(&prefixes, &key);
		if (way) {
			found->prefix = key;
			found->way = *way;
			found->slot = 0;
			return found->way.tunnel;
		}
	}
	return 0;
}

/* The same for those who are in no hurry, and have little of the stack left, which is 512 octets for all. */
__noinline __u32 longest(__u32 side, const struct addr *a, struct found *found)
{
	return a && found && side < SIDES ? longest_here(side, a, found, 0) : 0;
}

/* The same of the far side, in a hurry. */
__noinline __u32 longest_far(const struct addr *a, struct found *found)
{
	return a && found ? longest_here(FAR, a, found, 1) : 0;
}

/* Whether `side` of the tunnel holds `a`; `room` is for looking it up. */
__noinline int within(const struct tunnel *tunnel, __u32 side, const struct addr *a, struct found *room)
{
	if (!tunnel || !a || !room)
		return 0;
	if (tunnel->flags & ALL << side)
		return 1;
	if (tunnel->flags & MORE << side)
		return longest(side, a, room) == tunnel->id;
	for (int i = 0; i < FENCES; i++) {
		if (i >= tunnel->fences)
			break;
		if ((tunnel->near >> i & 1) == side && inside(a, &tunnel->fence[i].address, &tunnel->fence[i].mask))
			return 1;
	}
	return 0;
}

/* The tunnel between `near` and `far`; `found` is the longest prefix that holds `far`, and is used up. A tunnel whose other
 * side is everything is indexed by its special side only. */
static __noinline struct tunnel *find_by(struct found *found, const struct addr *near, const struct addr *far)
{
	struct tunnel *tunnel;
	__u32 id = found->way.tunnel;

	if (id) {
		tunnel = bpf_map_lookup_elem(&tunnels, &id);
		if (tunnel && within(tunnel, NEAR, near, found))
			return tunnel;
	}
	id = longest(NEAR, near, found);
	if (id) {
		tunnel = bpf_map_lookup_elem(&tunnels, &id);
		if (tunnel && within(tunnel, FAR, far, found))
			return tunnel;
	}
	return 0;
}

static __noinline struct tunnel *find(const struct addr *near, const struct addr *far)
{
	struct found found = {};

	longest_far(far, &found);
	return find_by(&found, near, far);
}
