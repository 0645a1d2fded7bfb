/* A packet as traffic control has it: a socket buffer, of as many segments as the kernel has put together. at_driver.h says
 * the same of a frame. */
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

#define PASSED TC_ACT_OK     /* on to the next, which is the kernel */
#define SWALLOWED TC_ACT_SHOT
#define RENEWS 1             /* next hops are asked for anew here, and one packet goes the kernel's way */
#define HAS_BUFFER 1         /* which the tunnel device can receive */
#define ENTERED ENCAPSULATED
#define LEFT DECAPSULATED
#define TURNED HAIRPINNED

#define EINVAL 22
#define EALREADY 114
#define DECAP_TO_IP4 (1ULL << 7)  /* BPF_F_ADJ_ROOM_DECAP_L3_IPV4, since Linux 6.3 */
#define GROW (BPF_F_ADJ_ROOM_FIXED_GSO | BPF_F_ADJ_ROOM_NO_CSUM_RESET)

static __always_inline __u32 length_of(const packet *p) { return p->len; }
static __always_inline __u32 segment_of(const packet *p) { return p->gso_size; }
static __always_inline __u32 arrived_by(const packet *p) { return p->ifindex; }

/* Whether frames can be sent by this interface. */
static __always_inline int may_send(__u32 link) { return link != 0; }

/* Makes the first octets of the packet directly readable, as many of `wanted` as it has. */
static __always_inline int pull(packet *p, __u32 wanted)
{
	if (wanted > p->len)
		wanted = p->len;
	return (long)p->data + wanted > (long)p->data_end ? bpf_skb_pull_data(p, wanted) : 0;
}

/* A number the verifier knows nothing about but that it is not above `most`: so it checks what follows once, and not for
 * each way to come by the number. */
static __always_inline __u32 any(packet *p, __u32 number, __u32 most)
{
	p->cb[0] = number;
	number = p->cb[0];
	return number > most ? most : number;
}

/* Room for an outer header. A buffer that is encapsulated already, as in nested networks, is refused the flag that says so. */
static __always_inline long grow(packet *p)
{
	long failed = bpf_skb_adjust_room(p, sizeof(struct ipv6hdr), BPF_ADJ_ROOM_MAC, GROW | BPF_F_ADJ_ROOM_ENCAP_L3_IPV6);

	if (failed != -EALREADY)
		return failed;
	if (p->protocol == bpf_htons(ETH_P_IPV6))
		return bpf_skb_adjust_room(p, sizeof(struct ipv6hdr), BPF_ADJ_ROOM_MAC, GROW);
	/* Of IPv4 the protocol has to change too, for which there is no other way; that of segments would with it. */
	if (p->gso_size)
		return failed;
	failed = bpf_skb_change_proto(p, bpf_htons(ETH_P_IPV6), 0);
	return failed ? failed : bpf_skb_adjust_room(p, sizeof(struct iphdr), BPF_ADJ_ROOM_MAC, GROW);
}

static __always_inline long shrink(packet *p, __u32 room)
{
	return bpf_skb_adjust_room(p, -(__s32)room, BPF_ADJ_ROOM_MAC, BPF_F_ADJ_ROOM_FIXED_GSO);
}

/* The same when an IPv4 packet remains. */
static __always_inline long shrink_to_ip4(packet *p, __u32 room)
{
	long failed = bpf_skb_adjust_room(p, -(__s32)room, BPF_ADJ_ROOM_MAC, BPF_F_ADJ_ROOM_FIXED_GSO | DECAP_TO_IP4);

	if (failed != -EINVAL)
		return failed;
	/* Takes what an IPv6 header has more than one of IPv4. */
	failed = bpf_skb_change_proto(p, bpf_htons(ETH_P_IP), 0);
	return failed ? failed : shrink(p, room - (sizeof(struct ipv6hdr) - sizeof(struct iphdr)));
}
