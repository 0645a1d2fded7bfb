/* UDP over IPv6 (RFC 6935, RFC 6936), where nothing else passes. */
#pragma once
#include "outer_ip4.h"
#include "path_stamps.h"

/* Writes the outer headers. UDP has no checksum, as over IPv4: both ends know that (RFC 6935 §5), and what arrives is checked
 * by the addresses, the ports, the lengths and the inner source (RFC 6936 §5). */
static __always_inline void write_outer_udp6(struct ipv6hdr *ip, const struct path *path, __be32 inner_word, __u32 hash,
					     __u32 length)
{
	__be32 *word = (__be32 *)(ip + 1);

	write_outer(ip, UDP, inner_word, path, hash, length + UDP_HEADER);
	word[0] = path->ports;
	word[1] = bpf_htonl((length + UDP_HEADER) << 16);
}

/* Adds the outer headers of a path with IPv4 or UDP at `at`. Else the packet is unchanged, or, where the result is positive,
 * must be dropped. */
static __always_inline long encapsulate_ip4_or_udp(packet *p, __u32 at, const struct path *path, __u8 inner,
						   __be32 inner_word, __u32 hash)
{
	__u32 length = packet_length(p) - at;
	struct ipv6hdr *ip;
	long failed;

	note_sent(p, path->stat, length);
	if (path->kind != PATH_UDP6)
		return encapsulate4(p, at, path, inner, inner_word);
	failed = length + UDP_HEADER > 0xffff ? -1 : add_outer_room(p, IP6 + UDP_HEADER);
	if (failed)
		return failed;
	ip = ip6_header(p, at, UDP_HEADER);
	if (!ip)
		return 1;
	write_outer_udp6(ip, path, inner_word, hash, length);
	return 0;
}

/* The ports of a datagram to or from the port of tunnels, in the order of the header; 0 if it is another packet. */
static __always_inline __u32 tunnel_ports(packet *p, __u32 at)
{
	struct ipv6hdr *ip = ip6_header(p, at, UDP_HEADER);
	struct udphdr *udp;

	if (!ip || ip->nexthdr != UDP)
		return 0;
	udp = (void *)(ip + 1);
	return udp->dest == bpf_htons(DSMIP_PORT) || udp->source == bpf_htons(DSMIP_PORT) ? *(__u32 *)udp : 0;
}

/* Parses the outer headers at `at`; 0 if it is no tunnelled packet, or one for the kernel. */
static __always_inline int parse_outer_udp6(packet *p, __u32 at, struct outer *outer)
{
	struct ipv6hdr *ip = ip6_header(p, at, UDP_HEADER + 1);
	struct udphdr *udp;

	if (!ip || ip->nexthdr != UDP || !has_stated_length(p, at, ip))
		return 0;
	udp = (void *)(ip + 1);
	if (udp->dest != bpf_htons(DSMIP_PORT) || udp->len != ip->payload_len)
		return 0;
	copy_addr(&outer->local, &ip->daddr);
	copy_addr(&outer->remote, &ip->saddr);
	outer->ports = *(__u32 *)udp << 16 | *(__u32 *)udp >> 16;
	outer->inner = protocol_in_udp(*(__u8 *)(udp + 1));
	outer->length = IP6 + UDP_HEADER;
	outer->ecn = ecn_of(ip);
	outer->is_ip4 = 0;
	return parse_sequence(p, at, outer);
}
