/* The outer header: how it is written, and what the inner header inherits from it (RFC 2473 §3, §5; RFC 6040 §4; RFC 6438
 * §3). The inner packet is IPv6 or IPv4 (RFC 5555 §4.4.3), as the outer next header says. */
#pragma once
#include "maps.h"
#include "packet.h"

#define HOP_LIMIT 64
#define ECN 3
#define CE 3
#define ECT1 1

/* `addresses` are the link-layer addresses of a next hop: destination, source. */
static __always_inline void write_ethernet(void *frame, const __u8 *addresses, __u16 type)
{
	const __u16 *mac = (const void *)addresses;
	__u16 *to = frame;

	for (int i = 0; i < 6; i++)
		to[i] = mac[i];
	to[6] = bpf_htons(type);
}

/* The first word of the inner header with the DSCP of outer packets. */
static __always_inline __be32 outer_word(const struct path *path, __be32 inner_word)
{
	__u32 word = bpf_ntohl(inner_word);

	return path->service ? bpf_htonl((word & ~0x0fc00000) | (path->service >> 2) << 22) : inner_word;
}

/* The traffic class is the inner packet's, unless the path has a DSCP of its own; the flow label lets routers on the path spread flows without parsing the
 * inner packet. */
static __always_inline void write_outer(struct ipv6hdr *outer, __u8 inner, __be32 inner_word, const struct path *path,
					__u32 hash, __u32 length)
{
	*(__be32 *)outer = (outer_word(path, inner_word) & bpf_htonl(0xfff00000)) | bpf_htonl(hash & 0xfffff);
	outer->payload_len = bpf_htons(length);
	outer->nexthdr = inner;
	outer->hop_limit = HOP_LIMIT;
	copy_addr(&outer->saddr, &path->local);
	copy_addr(&outer->daddr, &path->remote);
}

static __always_inline int is_tunnelled(__u8 protocol)
{
	return protocol == ENCAPSULATED_IP6 || protocol == ENCAPSULATED_IP4;
}

/* Whether a node that knows none of the options in this header of eight octets goes on to the next header: no option type
 * has one of its two highest bits set (RFC 8200 §4.2), and the options end with the header. */
__noinline int may_skip_options(__u64 header)
{
	__u64 rest = bpf_be64_to_cpu(header) << 16;
	__u32 left = 48, used;

	for (int i = 0; i < 6 && left; i++) {
		if (rest >> 56 & 0xc0)
			return 0;
		used = rest >> 56 ? 16 + (rest >> 48 & 0xff) * 8 : 8;
		if (used > left)
			return 0;
		rest <<= used;
		left -= used;
	}
	return !left;
}

/* Octets of the outer headers, and the protocol of the inner packet; 0 if this is no tunnelled packet, or one for the slow
 * path. The only options that peers put before the inner header are the eight octets of the tunnel encapsulation limit
 * (RFC 2473 §4.1.1). */
static __always_inline __u32 outer_length(const struct ipv6hdr *outer, __u8 *inner)
{
	const __u8 *options = (const void *)(outer + 1);
	__u32 more = 0;

	*inner = outer->nexthdr;
	if (*inner == DESTINATION_OPTIONS && options[1] == 0 && may_skip_options(*(const half *)options)) {
		*inner = options[0];
		more = 8;
	}
	return is_tunnelled(*inner) ? IP6 + more : 0;
}

/* The ECN field of a decapsulated packet (RFC 6040 §4.2); -1 if the packet must be dropped. */
static __always_inline int merged_ecn(__u8 outer, __u8 inner)
{
	if (outer == CE)
		return inner ? CE : -1;
	return outer == ECT1 && inner && inner != CE ? ECT1 : inner;
}

static __always_inline __u8 ecn_of(const struct ipv6hdr *ip)
{
	return (((const __u8 *)ip)[1] >> 4) & ECN;
}

/* Congestion marks of the outer header survive decapsulation. -1 if the packet must be dropped. */
static __always_inline int merge_ecn(__u8 outer, struct ipv6hdr *inner)
{
	__u8 *field = (__u8 *)inner + 1;
	int merged = merged_ecn(outer, ecn_of(inner));

	if (merged < 0)
		return -1;
	*field = (*field & ~(ECN << 4)) | merged << 4;
	return 0;
}

/* Updates the checksum after a word of the header has changed (RFC 1624 §3). */
static __always_inline void update_checksum(struct iphdr *ip, __u16 before, __u16 after)
{
	__u32 sum = (__u16)~ip->check + (__u16)~before + after;

	sum = (sum & 0xffff) + (sum >> 16);
	ip->check = ~((sum & 0xffff) + (sum >> 16));
}

/* The same for IPv4. */
static __always_inline int merge_ecn4(__u8 outer, struct iphdr *inner)
{
	int merged = merged_ecn(outer, inner->tos & ECN);
	__u16 *word = (void *)inner, before = *word;

	if (merged < 0)
		return -1;
	inner->tos = (inner->tos & ~ECN) | merged;
	update_checksum(inner, before, *word);
	return 0;
}

static __always_inline void decrement_ttl(struct iphdr *ip)
{
	__u16 *word = (void *)&ip->ttl, before = *word;

	ip->ttl--;
	update_checksum(ip, before, *word);
}
