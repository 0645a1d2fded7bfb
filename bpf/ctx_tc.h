/* The context of a TC program: a socket buffer, which may hold several segments (GSO). ctx_xdp.h defines the same for XDP. */
#pragma once
#include "abi.h"
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

typedef struct __sk_buff packet;

#define ACT_PASS TC_ACT_OK       /* on to the next program, and then to the kernel */
#define ACT_DROP TC_ACT_SHOT
#define REFRESHES_NEXT_HOPS 1    /* and has one packet use the kernel's neighbour entry */
#define HAS_SKB 1                /* which the tunnel device can receive */
#define COUNT_ENCAP COUNT_ENCAPSULATED
#define COUNT_DECAP COUNT_DECAPSULATED
#define COUNT_HAIRPIN COUNT_HAIRPINNED

#define EINVAL 22
#define EALREADY 114
#define DECAP_TO_IP4 (1ULL << 7)  /* BPF_F_ADJ_ROOM_DECAP_L3_IPV4, since Linux 6.3 */
#define DECAP_TO_IP6 (1ULL << 8)  /* BPF_F_ADJ_ROOM_DECAP_L3_IPV6, likewise */
#define IP_DIFFERENCE (sizeof(struct ipv6hdr) - sizeof(struct iphdr))
#define ADJ_ROOM_FLAGS (BPF_F_ADJ_ROOM_FIXED_GSO | BPF_F_ADJ_ROOM_NO_CSUM_RESET)

static __always_inline __u32 packet_length(const packet *p) { return p->len; }
static __always_inline __u32 gso_size(const packet *p) { return p->gso_size; }
/* Packets that the kernel will make of this buffer. */
static __always_inline __u32 segments(const packet *p) { return p->gso_segs ?: 1; }
static __always_inline __u32 ingress_ifindex(const packet *p) { return p->ifindex; }

/* Whether packets can be redirected to this interface. */
static __always_inline int can_transmit(__u32 link) { return link != 0; }

/* Makes the first `wanted` octets of the packet directly readable, or all if it has fewer. */
static __always_inline int pull(packet *p, __u32 wanted)
{
	if (wanted > p->len)
		wanted = p->len;
	return (long)p->data + wanted > (long)p->data_end ? bpf_skb_pull_data(p, wanted) : 0;
}

/* Makes the verifier forget all bounds of a number but its maximum, so that it verifies what follows once, and not once for
 * each way in which the number is computed. */
static __always_inline __u32 forget_value(packet *p, __u32 number, __u32 most)
{
	p->cb[0] = number;
	number = p->cb[0];
	return number > most ? most : number;
}

/* The same for a number that has no other bits than these: of all such numbers, in one state of the verifier. */
static __always_inline __u32 forget_bits(packet *p, __u32 number, __u32 bits)
{
	p->cb[0] = number;
	return p->cb[0] & bits;
}

/* Inserts room for an outer IPv6 header, and for UDP if it is longer. The kernel refuses the encapsulation flags for a buffer
 * that is encapsulated already, as in nested networks. Negative: the packet is unchanged, as one of several segments is that
 * would get UDP then; positive: it must be dropped. */
static __always_inline long add_outer_room(packet *p, __u32 room)
{
	__u64 udp = room > sizeof(struct ipv6hdr) ? BPF_F_ADJ_ROOM_ENCAP_L4_UDP : 0;
	long failed = bpf_skb_adjust_room(p, room, BPF_ADJ_ROOM_MAC, ADJ_ROOM_FLAGS | BPF_F_ADJ_ROOM_ENCAP_L3_IPV6 | udp);

	if (failed != -EALREADY || (udp && p->gso_size))
		return failed;
	if (p->protocol == bpf_htons(ETH_P_IPV6))
		return bpf_skb_adjust_room(p, room, BPF_ADJ_ROOM_MAC, ADJ_ROOM_FLAGS);
	/* The protocol of an IPv4 buffer has to change too, for which there is no other way; it would change that of GSO
	 * segments as well. */
	if (p->gso_size)
		return failed;
	failed = bpf_skb_change_proto(p, bpf_htons(ETH_P_IPV6), 0);
	if (failed)
		return failed;
	return bpf_skb_adjust_room(p, room - IP_DIFFERENCE, BPF_ADJ_ROOM_MAC, ADJ_ROOM_FLAGS) ? 1 : 0;
}

static __always_inline long remove_outer(packet *p, __u32 room)
{
	return bpf_skb_adjust_room(p, -(__s32)room, BPF_ADJ_ROOM_MAC, BPF_F_ADJ_ROOM_FIXED_GSO);
}

/* Like remove_outer, where the inner packet is IPv4. */
static __always_inline long remove_outer_of_ip4(packet *p, __u32 room)
{
	long failed = bpf_skb_adjust_room(p, -(__s32)room, BPF_ADJ_ROOM_MAC, BPF_F_ADJ_ROOM_FIXED_GSO | DECAP_TO_IP4);

	if (failed != -EINVAL)
		return failed;
	/* Removes the difference of an IPv6 and an IPv4 header. */
	failed = bpf_skb_change_proto(p, bpf_htons(ETH_P_IP), 0);
	return failed ? failed : remove_outer(p, room - IP_DIFFERENCE);
}

/* Inserts room for an outer IPv4 header, and for UDP if it is longer. Negative: the packet is unchanged, as one of several
 * segments is that is encapsulated already; positive: it must be dropped. */
static __always_inline long add_outer4_room(packet *p, __u32 room)
{
	__u64 udp = room > sizeof(struct iphdr) ? BPF_F_ADJ_ROOM_ENCAP_L4_UDP : 0;
	long failed = bpf_skb_adjust_room(p, room, BPF_ADJ_ROOM_MAC, ADJ_ROOM_FLAGS | BPF_F_ADJ_ROOM_ENCAP_L3_IPV4 | udp);

	if (failed != -EALREADY || p->gso_size)
		return failed;
	if (p->protocol == bpf_htons(ETH_P_IP))
		return bpf_skb_adjust_room(p, room, BPF_ADJ_ROOM_MAC, ADJ_ROOM_FLAGS);
	/* As in `add_outer_room`; the change of protocol removes octets of the new room. */
	failed = bpf_skb_adjust_room(p, room + IP_DIFFERENCE, BPF_ADJ_ROOM_MAC, ADJ_ROOM_FLAGS);
	if (failed)
		return failed;
	return bpf_skb_change_proto(p, bpf_htons(ETH_P_IP), 0) ? 1 : 0;
}

/* Removes an outer IPv4 header, and UDP if there is more room than that, from an IPv6 packet. */
static __always_inline long remove_outer4_of_ip6(packet *p, __u32 room)
{
	long failed = bpf_skb_adjust_room(p, -(__s32)room, BPF_ADJ_ROOM_MAC, BPF_F_ADJ_ROOM_FIXED_GSO | DECAP_TO_IP6);

	if (failed != -EINVAL)
		return failed;
	failed = bpf_skb_change_proto(p, bpf_htons(ETH_P_IPV6), 0);
	return failed ? failed : remove_outer(p, room + IP_DIFFERENCE);
}
