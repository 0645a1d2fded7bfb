/* The entries of far prefixes a second time, in an array. The index of a prefix follows from its own bits, so that a lookup
 * reads one cache line, where the hash table takes three dependent ones. Consecutive networks have slots of their own. Of
 * two prefixes with the same slot the one put last has it, and the other is found by the hash table. */
#pragma once
#include "maps.h"
#include "packet.h"

/* The longest matching prefix, and a copy of its entry. */
struct prefix_match {
	struct prefix_entry entry;
	struct prefix_key key;
	__u32 slot;  /* the index of its slot plus 1; 0: the entry is in the hash table, under `key` */
};

/* Whether far prefixes of this length have slots. */
static __always_inline int has_slots(__u32 length)
{
	return length - 1 < 64;
}

/* Unlike an entry of a hash table a slot is written in place, perhaps while it is read: then the checksum does not match. */
static __always_inline __u32 slot_checksum(__u64 network, __u32 length, const struct prefix_entry *entry)
{
	__u32 parameters = entry->mtu | entry->has_inline_path << 16 | (__u32)entry->local_index << 24;
	__u64 first = (__u64)parameters << 32 | entry->tunnel;

	return finish_hash(network * 0xa0761d6478bd642f + first * 0xe7037ed1a0b428db + hash_addr(&entry->remote,
			   0x9e3779b97f4a7c15, 0xbf58476d1ce4e5b9) + length);
}

/* Looks the prefix of this length that contains `a` up in its slot. Returns the number of its tunnel, else 0. */
static __always_inline __u32 slot_lookup(const struct settings *set, const struct addr *a, __u32 length,
					 struct prefix_match *match)
{
	__u64 network = bpf_be64_to_cpu(half_of(a, 0)) >> (64 - length);
	__u32 index = network & set->slot_mask;
	struct prefix_slot *slot = bpf_map_lookup_elem(&slots, &index);

	if (!slot || slot->network != network || slot->length != length)
		return 0;
	/* Each half is read once, so that what is verified is what is used. */
	for (__u32 i = 0; i < sizeof(struct prefix_entry) / sizeof(half); i++)
		((half *)&match->entry)[i] = ((const volatile half *)&slot->entry)[i];
	if (slot->checksum != slot_checksum(network, length, &match->entry))
		return match->entry.tunnel = 0;
	match->slot = index + 1;
	return match->entry.tunnel;
}

/* The entry itself, for the resolved route to be stored there. */
static __always_inline struct prefix_entry *entry_of(const struct prefix_match *match)
{
	__u32 index = match->slot - 1;
	struct prefix_slot *slot;

	if (!match->slot)
		return bpf_map_lookup_elem(&prefixes, &match->key);
	slot = bpf_map_lookup_elem(&slots, &index);
	return slot ? &slot->entry : 0;
}
