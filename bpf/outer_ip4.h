/* Outer IPv4 headers, with or without UDP (RFC 5555 §4.1, RFC 4213 §3, RFC 2003 §3). */
#pragma once
#include "next_hop.h"
#include "outer_header.h"
#include "sequence_recovery.h"

#define FRAGMENT_FIELDS 0x3fff  /* more fragments, and the offset of this one */

/* The checksum of an IPv4 header without options. */
static __always_inline __u16 checksum_of(const struct iphdr *ip)
{
	const __u16 *word = (const void *)ip;
	__u32 sum = 0;

	for (__u32 i = 0; i < IP4 / 2; i++)
		sum += word[i];
	sum = (sum & 0xffff) + (sum >> 16);
	return ~((sum & 0xffff) + (sum >> 16));
}

/* Writes the outer headers of an inner packet of `length` octets, the protocol and first word of which are given. Routers may
 * fragment the packet (RFC 4213 §3.2), hence the random identification (RFC 6864 §4.3). UDP has no checksum: that of a
 * buffer of several segments would have to be computed for each, and inner packets have their own (RFC 768, RFC 6935 §5). */
static __always_inline void write_outer4(struct iphdr *ip, const struct path *path, __u8 inner, __be32 inner_word,
					 __u32 length)
{
	__u32 ports = (bpf_ntohl(path->local.w[2]) & 0xffff0000) | bpf_ntohl(path->remote.w[2]) >> 16;
	__be32 *word = (__be32 *)ip;

	word[0] = bpf_htonl(0x45U << 24 | (bpf_ntohl(outer_word(path, inner_word)) >> 20 & 0xff) << 16 | (length + outer_length_of(path)));
	word[1] = bpf_get_prandom_u32() & bpf_htonl(0xffff0000);
	word[2] = bpf_htonl(HOP_LIMIT << 24 | (path->kind == PATH_UDP4 ? UDP : inner) << 16);
	word[3] = path->local.w[3];
	word[4] = path->remote.w[3];
	ip->check = checksum_of(ip);
	if (path->kind == PATH_UDP4) {
		word[5] = bpf_htonl(ports);
		word[6] = bpf_htonl((length + UDP_HEADER) << 16);
	}
}

/* Adds the outer headers at `at`. Else the packet is unchanged, or, where the result is positive, must be dropped. */
static __always_inline long encapsulate4(packet *p, __u32 at, const struct path *path, __u8 inner, __be32 inner_word)
{
	__u32 length = packet_length(p) - at, room = outer_length_of(path);
	long failed = length + room > 0xffff ? -1 : add_outer4_room(p, room);
	struct iphdr *ip;

	if (failed)
		return failed;
	ip = packet_begin(p) + at;
	if ((void *)ip + IP4 + UDP_HEADER > packet_end(p))
		return 1;
	write_outer4(ip, path, inner, inner_word, length);
	return 0;
}

/* The protocol of what begins with this octet in UDP: an IP packet, or a number before one, where the octet is its protocol. */
static __always_inline __u8 protocol_in_udp(__u8 first)
{
	if (is_tunnelled(first))
		return DESTINATION_OPTIONS;
	return first >> 4 == 4 ? ENCAPSULATED_IP4 : ENCAPSULATED_IP6;
}

/* Parses the number behind the outer headers, if there is one. Returns whether a tunnelled packet follows. */
static __always_inline int parse_sequence(packet *p, __u32 at, struct outer *outer)
{
	const struct sequence_header *header = packet_begin(p) + at + (outer->length & 0x3f);

	outer->is_numbered = 0;
	if (HAS_SKB && outer->inner == DESTINATION_OPTIONS) {
		if ((void *)(header + 1) > packet_end(p) || !is_sequence_header(header))
			return 0;
		outer->is_numbered = 1;
		outer->inner = header->next;
		outer->sequence = bpf_ntohl(header->sequence);
		outer->length += SEQUENCE_HEADER;
	}
	return is_tunnelled(outer->inner);
}

/* Parses the outer headers at `at`; 0 if it is no tunnelled packet, or one for the kernel: a fragment, one with options, or one
 * of another length than it says. UDP checksums are not verified: where the data is, the inner packet has its own. */
static __always_inline int parse_outer4(packet *p, __u32 at, struct outer *outer)
{
	struct iphdr *ip = ip4_header(p, at);
	__be16 local_port = 0, remote_port = 0;
	struct udphdr *udp;

	if (!ip || *(__u8 *)ip != 0x45 || ip->frag_off & bpf_htons(FRAGMENT_FIELDS) ||
	    bpf_ntohs(ip->tot_len) != packet_length(p) - at)
		return 0;
	outer->inner = ip->protocol;
	outer->length = IP4;
	if (ip->protocol == UDP) {
		udp = (void *)(ip + 1);
		if ((void *)(udp + 1) + 1 > packet_end(p) || udp->dest != bpf_htons(DSMIP_PORT) ||
		    bpf_ntohs(udp->len) + IP4 != bpf_ntohs(ip->tot_len))
			return 0;
		outer->inner = protocol_in_udp(*(__u8 *)(udp + 1));
		outer->length = IP4 + UDP_HEADER;
		local_port = udp->dest;
		remote_port = udp->source;
	}
	outer->local = ip4_endpoint(ip->daddr, local_port);
	outer->remote = ip4_endpoint(ip->saddr, remote_port);
	outer->ports = 0;
	outer->is_ip4 = 1;
	outer->ecn = ip->tos & ECN;
	return parse_sequence(p, at, outer);
}
