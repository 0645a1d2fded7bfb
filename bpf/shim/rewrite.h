/* Putting the payload extension header on and taking it off (RFC 5533 §5.1, §12.1 to §12.3). Checksums of the layers
 * above are over the ULIDs and stay as they are. */
#pragma once
#include "maps.h"

#define SHIM6 140
#define SHIM_HEADER 8
#define LENGTH_AT 4  /* of the IPv6 header: where what is rewritten begins */

#define HOP_BY_HOP 0
#define UNIT 8        /* octets in which extension headers are counted */
#define MOST_UNITS 8  /* of hop-by-hop options in front of the payload extension header */

/* Payload length, next header, hop limit, addresses: all of the IPv6 header that is written anew. */
struct head {
	__be16 length;
	__u8 next, hops;
	struct pair way;  /* source, destination */
};

/* The same and the payload extension header behind it. */
struct long_head {
	struct head ip;
	__u8 next, length;
	__be16 tag_high;  /* with the bit that says payload */
	__be32 tag_low;
};

/* What the packet says there, addresses apart. */
static __always_inline void read_head(const struct ipv6hdr *ip, struct head *head)
{
	*(__u32 *)head = *(const __u32 *)((const void *)ip + LENGTH_AT);
}

/* Octets of hop-by-hop options behind the IPv6 header, which stay in front (RFC 5533 §4.6); -1: too many. */
static __always_inline int octets_in_front(struct __sk_buff *skb, __u32 l2, __u8 next)
{
	__u8 units;

	if (next != HOP_BY_HOP)
		return 0;
	if (bpf_skb_load_bytes(skb, l2 + IP6 + 1, &units, 1) || units >= MOST_UNITS)
		return -1;
	return (units + 1) * UNIT;
}

/* Moves hop-by-hop options into the gap before or behind them, and writes what comes next; returns what came before. */
static __always_inline int move_options(struct __sk_buff *skb, __u32 l2, int octets, int ahead, __u8 next)
{
	__u32 from = l2 + IP6 + (ahead ? SHIM_HEADER : 0), to = l2 + IP6 + (ahead ? 0 : SHIM_HEADER);
	__u8 unit[UNIT];
	int former = -1;

	for (int i = 0; i < MOST_UNITS; i++) {
		int at = (ahead ? i : MOST_UNITS - 1 - i) * UNIT;

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

/* As `put_on`, behind so many octets of hop-by-hop options. */
static __always_inline int put_behind(struct __sk_buff *skb, __u32 l2, struct long_head *head, int octets)
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

static __always_inline int put_on(struct __sk_buff *skb, __u32 l2, const struct ipv6hdr *ip,
				  const struct context *context)
{
	struct long_head head = {};
	int front;

	read_head(ip, &head.ip);
	front = octets_in_front(skb, l2, head.ip.next);
	if (front < 0)
		return -1;
	head.next = head.ip.next;
	head.tag_high = bpf_htons(0x8000 | (context->tag >> 32));
	head.tag_low = bpf_htonl((__u32)context->tag);
	head.ip.length = bpf_htons(bpf_ntohs(head.ip.length) + SHIM_HEADER);
	head.ip.way = context->locators;
	if (front)
		return put_behind(skb, l2, &head, front);
	head.ip.next = SHIM6;
	if (bpf_skb_adjust_room(skb, SHIM_HEADER, BPF_ADJ_ROOM_NET, 0))
		return -1;
	return bpf_skb_store_bytes(skb, l2 + LENGTH_AT, &head, sizeof(head), BPF_F_RECOMPUTE_CSUM);
}

/* What was received may carry the device's sum of all octets, which must stay right. */
static __always_inline int take_off(struct __sk_buff *skb, __u32 l2, const struct ipv6hdr *ip, const struct pair *ulids,
				    __u8 next, int front)
{
	struct head head = {};

	read_head(ip, &head);
	head.length = bpf_htons(bpf_ntohs(head.length) - SHIM_HEADER);
	head.next = next;
	if (front) {
		head.next = HOP_BY_HOP;
		if (move_options(skb, l2, front, 0, next) < 0)
			return -1;
	}
	head.way.local = ulids->peer;
	head.way.peer = ulids->local;
	if (bpf_skb_store_bytes(skb, l2 + LENGTH_AT, &head, sizeof(head), BPF_F_RECOMPUTE_CSUM))
		return -1;
	if (bpf_skb_adjust_room(skb, -SHIM_HEADER, BPF_ADJ_ROOM_NET, BPF_F_ADJ_ROOM_FIXED_GSO))
		return -1;
	bpf_set_hash_invalid(skb);
	return 0;
}
