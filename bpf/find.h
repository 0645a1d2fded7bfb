/* Which tunnel a packet belongs to, by the prefixes of its two sides (RFC 3963 §6.5, §9). */
#pragma once
#include "maps.h"
#include "packet.h"

/* The tunnel with the longest prefix of `side` that holds `a`; 0 for none. */
__noinline __u32 longest(__u32 side, const struct addr *a)
{
	struct settings *set = get_settings();
	struct lengths *lens;
	__u32 which;

	if (!set || !a || side > NEAR)
		return 0;
	which = 2 * set->lengths + side;
	lens = bpf_map_lookup_elem(&lengths, &which);
	if (!lens)
		return 0;
	for (int i = 0; i < LENGTHS; i++) {
		struct length *length = &lens->of[i];
		struct prefix key = {};
		__u32 *id;

		if (length->bits == NO_LENGTH)
			break;
		if (!inside(a, &length->around, &length->around_mask))
			continue;
		for (int w = 0; w < 4; w++)
			key.address.w[w] = a->w[w] & length->mask.w[w];
		key.bits = length->bits;
		key.side = side;
		id = bpf_map_lookup_elem(&prefixes, &key);
		if (id)
			return *id;
	}
	return 0;
}

/* Whether `side` of the tunnel holds `a`. */
__noinline int within(const struct tunnel *tunnel, __u32 side, const struct addr *a)
{
	if (!tunnel || !a)
		return 0;
	if (tunnel->flags & ALL << side)
		return 1;
	if (tunnel->flags & MORE << side)
		return longest(side, a) == tunnel->id;
	for (int i = 0; i < FENCES; i++) {
		if (i >= tunnel->fences)
			break;
		if ((tunnel->near >> i & 1) == side && inside(a, &tunnel->fence[i].address, &tunnel->fence[i].mask))
			return 1;
	}
	return 0;
}

/* The tunnel between `near` and `far`. One whose other side is everything is indexed by its special side only. */
static __noinline struct tunnel *find(const struct addr *near, const struct addr *far)
{
	struct tunnel *tunnel;
	__u32 id = longest(FAR, far);

	if (id) {
		tunnel = bpf_map_lookup_elem(&tunnels, &id);
		if (tunnel && within(tunnel, NEAR, near))
			return tunnel;
	}
	id = longest(NEAR, near);
	if (id) {
		tunnel = bpf_map_lookup_elem(&tunnels, &id);
		if (tunnel && within(tunnel, FAR, far))
			return tunnel;
	}
	return 0;
}
