/* Putting the payload extension header on and taking it off (RFC 5533 §5.1, §12.1 to §12.3). Checksums of the layers
 * above are over the ULIDs and stay as they are. */
#pragma once
#include "maps.h"

#define SHIM6 140
#define SHIM_HEADER 8
#define LENGTH_AT 4  /* of the IPv6 header: where what is rewritten begins */

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

static __always_inline int put_on(struct __sk_buff *skb, __u32 l2, const struct context *context)
{
	struct long_head head = {};

	if (bpf_skb_load_bytes(skb, l2 + LENGTH_AT, &head.ip, 4))
		return -1;
	head.next = head.ip.next;
	head.tag_high = bpf_htons(0x8000 | (context->tag >> 32));
	head.tag_low = bpf_htonl((__u32)context->tag);
	head.ip.length = bpf_htons(bpf_ntohs(head.ip.length) + SHIM_HEADER);
	head.ip.next = SHIM6;
	head.ip.way = context->locators;
	if (bpf_skb_adjust_room(skb, SHIM_HEADER, BPF_ADJ_ROOM_NET, 0))
		return -1;
	return bpf_skb_store_bytes(skb, l2 + LENGTH_AT, &head, sizeof(head), BPF_F_RECOMPUTE_CSUM);
}

/* What was received may carry the device's sum of all octets, which must stay right. */
static __always_inline int take_off(struct __sk_buff *skb, __u32 l2, const struct pair *ulids, __u8 next)
{
	struct head head = {};

	if (bpf_skb_load_bytes(skb, l2 + LENGTH_AT, &head, 4))
		return -1;
	head.length = bpf_htons(bpf_ntohs(head.length) - SHIM_HEADER);
	head.next = next;
	head.way.local = ulids->peer;
	head.way.peer = ulids->local;
	if (bpf_skb_store_bytes(skb, l2 + LENGTH_AT, &head, sizeof(head), BPF_F_RECOMPUTE_CSUM))
		return -1;
	if (bpf_skb_adjust_room(skb, -SHIM_HEADER, BPF_ADJ_ROOM_NET, BPF_F_ADJ_ROOM_FIXED_GSO))
		return -1;
	bpf_set_hash_invalid(skb);
	return 0;
}
