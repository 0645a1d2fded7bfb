/* Putting the outer header on and taking it off (RFC 2473 §3, §5; RFC 6040 §4; RFC 6438 §3). */
#pragma once
#include "maps.h"
#include "packet.h"

#define HOP_LIMIT 64
#define EALREADY 114
#define ECN 0x30  /* in the second octet of the header */
#define CE 0x30
#define ECT1 0x10

#define GROW (BPF_F_ADJ_ROOM_FIXED_GSO | BPF_F_ADJ_ROOM_NO_CSUM_RESET)

/* Room for a header. A buffer that is encapsulated already, as in nested networks, is refused the flag that says so. */
static __always_inline long grow(struct __sk_buff *skb)
{
	long failed = bpf_skb_adjust_room(skb, IP6, BPF_ADJ_ROOM_MAC, GROW | BPF_F_ADJ_ROOM_ENCAP_L3_IPV6);
	return failed == -EALREADY ? bpf_skb_adjust_room(skb, IP6, BPF_ADJ_ROOM_MAC, GROW) : failed;
}

static __always_inline long shrink(struct __sk_buff *skb, __u32 room)
{
	return bpf_skb_adjust_room(skb, -(__s32)room, BPF_ADJ_ROOM_MAC, BPF_F_ADJ_ROOM_FIXED_GSO);
}

/* The link-layer addresses are those of a next hop: destination, source. */
static __always_inline void write_ethernet(void *frame, const __u8 *addresses)
{
	const __u16 *mac = (const void *)addresses;
	__u16 *to = frame;

	for (int i = 0; i < 6; i++)
		to[i] = mac[i];
	to[6] = bpf_htons(ETH_P_IPV6);
}

/* Traffic class and ECN are the inner packet's; the flow label lets routers between spread flows without looking inside. */
static __always_inline void write_outer(struct ipv6hdr *outer, __be32 inner_word, const struct path *path, __u32 hash,
					__u32 length)
{
	*(__be32 *)outer = (inner_word & bpf_htonl(0xfff00000)) | bpf_htonl(hash & 0xfffff);
	outer->payload_len = bpf_htons(length);
	outer->nexthdr = ENCAPSULATED_IP6;
	outer->hop_limit = HOP_LIMIT;
	*(struct addr *)&outer->saddr = path->local;
	*(struct addr *)&outer->daddr = path->remote;
}

/* Octets of the outer header; 0 if this is no tunnelled packet. The only options that peers put before the inner
 * header are the eight octets of the tunnel encapsulation limit (RFC 2473 §4.1.1). */
static __always_inline __u32 outer_room(const struct ipv6hdr *outer)
{
	const __u8 *options = (const void *)(outer + 1);

	if (outer->nexthdr == ENCAPSULATED_IP6)
		return IP6;
	return outer->nexthdr == DESTINATION_OPTIONS && options[0] == ENCAPSULATED_IP6 && options[1] == 0 ? IP6 + 8 : 0;
}

/* Congestion marks survive decapsulation. -1 if the packet must be dropped. */
static __always_inline int merge_ecn(const struct ipv6hdr *outer, struct ipv6hdr *inner)
{
	__u8 outside = ((const __u8 *)outer)[1] & ECN, *within = (__u8 *)inner + 1;

	if (outside == CE) {
		if (!(*within & ECN))
			return -1;
		*within |= CE;
	} else if (outside == ECT1 && *within & ECN && (*within & ECN) != CE) {
		*within = (*within & ~ECN) | ECT1;
	}
	return 0;
}
