/* The Shim6 payload extension header: inserting and removing it (RFC 5533 §5.1, §12.1 to §12.3). Checksums of upper layers
 * are computed over the ULIDs and stay as they are. */
#pragma once
#include "maps.h"

#define SHIM6 140
#define SHIM_HEADER 8
#define LENGTH_AT 4  /* offset in the IPv6 header of the payload length, where the rewritten fields begin */

#define HOP_BY_HOP 0
#define UNIT 8        /* octets in which extension headers are counted */
#define MAX_UNITS 8   /* of hop-by-hop options in front of the payload extension header */

/* The rewritten fields of the IPv6 header: payload length, next header, hop limit, addresses. */
struct rewritten {
	__be16 length;
	__u8 next, hop_limit;
	struct pair addresses;  /* source, destination */
};

/* The same, followed by the payload extension header. */
struct rewritten_with_shim {
	struct rewritten ip;
	__u8 next, length;
	__be16 tag_high;  /* with the P bit, which marks a payload extension header */
	__be32 tag_low;
};

/* Reads all but the addresses. */
static __always_inline void read_rewritten(const struct ipv6hdr *ip, struct rewritten *fields)
{
	*(__u32 *)fields = *(const __u32 *)((const void *)ip + LENGTH_AT);
}

/* Octets of hop-by-hop options behind the IPv6 header, which stay before the shim header (RFC 5533 §4.6); -1: too many. */
static __always_inline int hop_by_hop_length(struct __sk_buff *skb, __u32 l2, __u8 next)
{
	__u8 units;

	if (next != HOP_BY_HOP)
		return 0;
	if (bpf_skb_load_bytes(skb, l2 + IP6 + 1, &units, 1) || units >= MAX_UNITS)
		return -1;
	return (units + 1) * UNIT;
}

/* Moves hop-by-hop options into the gap before or behind them, and writes their next header; returns the former one. */
static __always_inline int move_options(struct __sk_buff *skb, __u32 l2, int octets, int ahead, __u8 next)
{
	__u32 from = l2 + IP6 + (ahead ? SHIM_HEADER : 0), to = l2 + IP6 + (ahead ? 0 : SHIM_HEADER);
	__u8 unit[UNIT];
	int former = -1;

	for (int i = 0; i < MAX_UNITS; i++) {
		int at = (ahead ? i : MAX_UNITS - 1 - i) * UNIT;

		if (at >= octets)
			continue;
		if (bpf_skb_load_bytes(skb, from + at, unit, UNIT))
			return -1;
		if (!at) {
			former = unit[0];
			unit[0] = next;
		}
		if (bpf_skb_store_bytes(skb, to + at, unit, UNIT, BPF_F_RECOMPUTE_CSUM))
			return -1;
	}
	return former;
}

/* Inserts the header behind so many octets of hop-by-hop options. */
static __always_inline int insert_behind_options(struct __sk_buff *skb, __u32 l2, struct rewritten_with_shim *head,
						 int octets)
{
	int next;

	if (bpf_skb_adjust_room(skb, SHIM_HEADER, BPF_ADJ_ROOM_NET, 0))
		return -1;
	next = move_options(skb, l2, octets, 1, SHIM6);
	if (next < 0)
		return -1;
	head->next = next;
	if (bpf_skb_store_bytes(skb, l2 + IP6 + octets, &head->next, SHIM_HEADER, BPF_F_RECOMPUTE_CSUM))
		return -1;
	return bpf_skb_store_bytes(skb, l2 + LENGTH_AT, &head->ip, sizeof(head->ip), BPF_F_RECOMPUTE_CSUM);
}

static __always_inline int insert_header(struct __sk_buff *skb, __u32 l2, const struct ipv6hdr *ip,
					 const struct context *context)
{
	struct rewritten_with_shim head = {};
	int options;

	read_rewritten(ip, &head.ip);
	options = hop_by_hop_length(skb, l2, head.ip.next);
	if (options < 0)
		return -1;
	head.next = head.ip.next;
	head.tag_high = bpf_htons(0x8000 | (context->tag >> 32));
	head.tag_low = bpf_htonl((__u32)context->tag);
	head.ip.length = bpf_htons(bpf_ntohs(head.ip.length) + SHIM_HEADER);
	head.ip.addresses = context->locators;
	if (options)
		return insert_behind_options(skb, l2, &head, options);
	head.ip.next = SHIM6;
	if (bpf_skb_adjust_room(skb, SHIM_HEADER, BPF_ADJ_ROOM_NET, 0))
		return -1;
	return bpf_skb_store_bytes(skb, l2 + LENGTH_AT, &head, sizeof(head), BPF_F_RECOMPUTE_CSUM);
}

/* A received packet may have the device's checksum over all octets, which must stay correct. */
static __always_inline int remove_header(struct __sk_buff *skb, __u32 l2, const struct ipv6hdr *ip, const struct pair *ulids,
					 __u8 next, int options)
{
	struct rewritten head = {};

	read_rewritten(ip, &head);
	head.length = bpf_htons(bpf_ntohs(head.length) - SHIM_HEADER);
	head.next = next;
	if (options) {
		head.next = HOP_BY_HOP;
		if (move_options(skb, l2, options, 0, next) < 0)
			return -1;
	}
	head.addresses.local = ulids->peer;
	head.addresses.peer = ulids->local;
	if (bpf_skb_store_bytes(skb, l2 + LENGTH_AT, &head, sizeof(head), BPF_F_RECOMPUTE_CSUM))
		return -1;
	if (bpf_skb_adjust_room(skb, -SHIM_HEADER, BPF_ADJ_ROOM_NET, BPF_F_ADJ_ROOM_FIXED_GSO))
		return -1;
	bpf_set_hash_invalid(skb);
	return 0;
}
