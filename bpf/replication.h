/* Packet replication (RFC 8655 §3.2.2.2, IEEE 802.1CB §7.4.1): a packet leaves by two paths with one number, and the other end
 * eliminates the second copy. On the slow path only. The clone enters the tunnel device again, so that each copy is
 * encapsulated for its own path by the same functions as other packets. */
#pragma once
#include "encap.h"
#include "sequence_recovery.h"

/* In `tc_index`: the packet may be a clone that this processor sends. */
#define CLONE_INDEX 0x5236

/* Puts the number before the inner packet. */
static __always_inline int add_sequence_header(packet *p, __u8 inner, __u32 sequence)
{
	struct sequence_header *header;

	if (bpf_skb_adjust_room(p, SEQUENCE_HEADER, BPF_ADJ_ROOM_MAC, ADJ_ROOM_FLAGS))
		return -1;
	header = packet_begin(p);
	if ((void *)(header + 1) > packet_end(p))
		return -1;
	header->next = inner;
	header->length = 0;
	header->option = SEQUENCE_OPTION;
	header->option_length = sizeof(header->sequence);
	header->sequence = bpf_htonl(sequence);
	return 0;
}

/* Whether the packet is the clone that `replicate` has made; its path is in working memory then. */
static __always_inline int is_clone(packet *p)
{
	struct scratch *scratch = p->tc_index == CLONE_INDEX ? get_scratch() : 0;

	if (!scratch || !scratch->member.is_clone)
		return 0;
	scratch->member.is_clone = 0;
	scratch->path = scratch->member.clone_path;
	return 1;
}

/* Whether a packet with a number may take the path and fits it: an encrypted path has a header of its own, and nothing may leave
 * beside it in the clear. The segments of a buffer would all have the same number. */
static __always_inline int can_carry_member(const struct tunnel *tunnel, __u32 path, __u32 length)
{
	const struct path *of = &tunnel->path_slot[path & (PATHS - 1)].path;

	return of->kind != PATH_DIRECT && of->kind != PATH_ENCRYPTED && length + SEQUENCE_HEADER <= of->mtu;
}

/* Numbers a packet, the path of which is in working memory, and sends a clone by the second path. 0: the packet cannot be
 * replicated, and is unchanged. */
static __noinline int replicate(packet *p, const struct settings *set, struct tunnel *tunnel, __u32 length)
{
	struct scratch *scratch = get_scratch();
	struct sequence_state *state;
	struct member *member;
	__u16 index = p->tc_index;
	__u32 id, first, second;

	if (!scratch || !tunnel)
		return 0;
	id = tunnel->id;
	first = scratch->members & 0xff;
	second = (scratch->members >> 8) - 1;
	state = bpf_map_lookup_elem(&sequences, &id);
	if (!state || p->gso_size || !can_carry_member(tunnel, first, length) ||
	    !can_carry_member(tunnel, second, length)) {
		count(COUNT_UNREPLICATED);
		return 0;
	}
	member = &scratch->member;
	member->path = scratch->path;
	member->clone_path = tunnel->path_slot[second & (PATHS - 1)].path;
	member->sequence = __sync_fetch_and_add(&state->next, 1);
	member->is_clone = 1;
	p->tc_index = CLONE_INDEX;
	bpf_clone_redirect(p, set->device, 0);
	p->tc_index = index;
	member->is_clone = 0;
	scratch->path = member->path;
	count(COUNT_REPLICATED);
	return 1;
}
