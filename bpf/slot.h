/* The ways of far prefixes once more, in an array: where the way of a prefix lies follows from its own bits, so it is one line
 * of memory, where the hash table takes three of which each waits for the one before. Networks that follow one another have
 * places of their own. Where two have the same, the last put has it, and the hash table tells the other. */
#pragma once
#include "maps.h"
#include "packet.h"

/* A prefix, and where it led when it was looked at. */
struct found {
	struct way way;
	struct prefix prefix;
	__u32 slot;  /* where its way lies, counted from 1; 0: in the hash table, by `prefix` */
};

/* Whether far prefixes of this length have slots. */
static __always_inline int has_slots(__u32 bits)
{
	return bits - 1 < 64;
}

/* Unlike an entry of a hash table a slot is written where it lies, maybe while we read: then this is not what it says. */
static __always_inline __u32 seal_of(__u64 number, __u32 bits, const struct way *way)
{
	__u32 told = way->mtu | way->whole << 16 | (__u32)way->local << 24;
	__u64 first = (__u64)told << 32 | way->tunnel;

	return stir(number * 0xa0761d6478bd642f + first * 0xe7037ed1a0b428db + mix_addr(&way->remote,
		    0x9e3779b97f4a7c15, 0xbf58476d1ce4e5b9) + bits);
}

/* The prefix of this length that holds `a`, if it is in its slot. Returns the number of its tunnel, else 0. */
static __always_inline __u32 read_slot(const struct settings *set, const struct addr *a, __u32 bits, struct found *found)
{
	__u64 number = bpf_be64_to_cpu(half_of(a, 0)) >> (64 - bits);
	__u32 place = number & set->slot_mask;
	struct slot *slot = bpf_map_lookup_elem(&slots, &place);

	if (!slot || slot->number != number || slot->bits != bits)
		return 0;
	/* Each half once: what is judged is what was read. */
	for (__u32 i = 0; i < sizeof(struct way) / sizeof(half); i++)
		((half *)&found->way)[i] = ((const volatile half *)&slot->way)[i];
	if (slot->seal != seal_of(number, bits, &found->way))
		return found->way.tunnel = 0;
	found->slot = place + 1;
	return found->way.tunnel;
}

/* Where its way lies now, to have written there what is learnt of its route. */
static __always_inline struct way *place_of(const struct found *found)
{
	__u32 place = found->slot - 1;
	struct slot *slot;

	if (!found->slot)
		return bpf_map_lookup_elem(&prefixes, &found->prefix);
	slot = bpf_map_lookup_elem(&slots, &place);
	return slot ? &slot->way : 0;
}
