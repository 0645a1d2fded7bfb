/* Parsing of packets: addresses, scopes, the five-tuple, the length on the wire. `at` is the offset of an IP header. An
 * inner IPv4 packet is described by IPv4-mapped addresses. */
#pragma once
#ifdef CTX_XDP
#include "ctx_xdp.h"
#else
#include "ctx_tc.h"
#endif
#include <linux/in6.h>
#include <linux/ip.h>
#include <linux/udp.h>

#define IP6 ((__u32)sizeof(struct ipv6hdr))
#define IP4 ((__u32)sizeof(struct iphdr))
#define UDP_HEADER ((__u32)sizeof(struct udphdr))
#define AF_INET 2
#define AF_INET6 10
#define TCP 6
#define UDP 17
#define ENCAPSULATED_IP4 4
#define ENCAPSULATED_IP6 41
#define ESP 50
#define ICMP6 58
#define DESTINATION_OPTIONS 60
#define MOBILITY 135
#define LAYERS 4  /* nested outer headers that one pass looks at */
#define PLAIN_HEADERS (ETH_HLEN + IP6 + 20)                      /* octets to parse of a plain packet */
#define TUNNELLED_HEADERS (ETH_HLEN + LAYERS * (IP6 + 8) + IP6 + 20)  /* and of a tunnelled one */
#define PACKET_HOST 0
#define DSMIP_PORT 4191  /* of tunnels in UDP */

struct flow {
	struct addr source, destination;
	__u32 hash;                  /* the same for all packets of a flow */
	union {
		struct { __u16 source_port, destination_port; };
		__u16 echo_id;       /* of ICMPv6, like icmp_type */
	};
	__u32 ingress;               /* the interface it came in by; 0: sent by this host, or out of a tunnel */
	__u8 protocol, has_ports, icmp_type, dscp;
} ALIGN_HALF;

static __always_inline void *packet_begin(packet *p) { return (void *)(long)p->data; }
static __always_inline void *packet_end(packet *p) { return (void *)(long)p->data_end; }

/* The IPv6 header at `at`, followed by at least `more` octets; null if the packet is shorter. */
static __always_inline struct ipv6hdr *ip6_header(packet *p, __u32 at, __u32 more)
{
	void *header = packet_begin(p) + at;
	return header + IP6 + more > packet_end(p) ? 0 : header;
}

/* The IPv4 header at `at`; null if the packet is shorter. */
static __always_inline struct iphdr *ip4_header(packet *p, __u32 at)
{
	struct iphdr *header = packet_begin(p) + at;
	return (void *)(header + 1) > packet_end(p) ? 0 : header;
}

/* Whether the packet at `at` is as long as its header says. A truncated one, or one with trailing octets, is left to the
 * kernel, which drops or trims it. */
static __always_inline int has_stated_length(packet *p, __u32 at, const struct ipv6hdr *ip)
{
	return bpf_ntohs(ip->payload_len) + IP6 == packet_length(p) - at;
}

static __always_inline half half_of(const void *a, int which)
{
	return ((const half *)a)[which];
}

static __always_inline void copy_addr(void *to, const void *from)
{
	((half *)to)[0] = half_of(from, 0);
	((half *)to)[1] = half_of(from, 1);
}

static __always_inline struct addr read_addr(const struct in6_addr *from)
{
	struct addr a;

	copy_addr(&a, from);
	return a;
}

static __always_inline struct addr v4_mapped(__be32 a)
{
	return (struct addr){ .w = { 0, 0, bpf_htonl(0xffff), a } };
}

/* An IPv4 endpoint as an address; the port is 0 without UDP. */
static __always_inline struct addr ip4_endpoint(__be32 a, __be16 port)
{
	return (struct addr){ .w = { 0, 0, bpf_htonl((__u32)bpf_ntohs(port) << 16 | 0xffff), a } };
}

static __always_inline int addr_equal(const struct addr *a, const struct addr *b)
{
	return !((half_of(a, 0) ^ half_of(b, 0)) | (half_of(a, 1) ^ half_of(b, 1)));
}

static __always_inline int addr_in(const struct addr *a, const struct addr *network, const struct addr *mask)
{
	return !(((a->w[0] & mask->w[0]) ^ network->w[0]) | ((a->w[1] & mask->w[1]) ^ network->w[1]) |
		 ((a->w[2] & mask->w[2]) ^ network->w[2]) | ((a->w[3] & mask->w[3]) ^ network->w[3]));
}

/* Link-local and multicast addresses have a meaning on one link only and pass through no tunnel. Nor does ::/64, of
 * which no host has an address: an IPv4-mapped address in an IPv6 header would be taken for that of an inner IPv4 packet
 * (RFC 6890 §2.2.3). */
static __always_inline int is_link_scope(const struct addr *a)
{
	__u32 top = bpf_ntohl(a->w[0]);
	return top >> 24 == 0xff || top >> 22 == 0xfe80 >> 6 || !(a->w[0] | a->w[1]);
}

/* The same for IPv4, and addresses of no host: 0/8, 127/8, 169.254/16, 224/3 (RFC 1122 §3.2.1.3, RFC 3927). */
static __always_inline int is_link_scope4(__be32 a)
{
	__u32 host = bpf_ntohl(a);
	return !(host >> 24) || host >> 24 == 127 || host >> 16 == 0xa9fe || host >> 29 == 7;
}

/* Hashing: products of words and odd numbers, which do not depend on each other, are added up and mixed once at the end. */
static __always_inline __u64 hash_addr(const struct addr *a, __u64 one, __u64 other)
{
	return half_of(a, 0) * one + half_of(a, 1) * other;
}

static __always_inline __u64 hash_addrs(const struct addr *a, const struct addr *b)
{
	return hash_addr(a, 0x9e3779b97f4a7c15, 0xbf58476d1ce4e5b9) + hash_addr(b, 0x94d049bb133111eb, 0xd6e8feb86659fd93);
}

static __always_inline __u32 finish_hash(__u64 sum)
{
	sum ^= sum >> 32;
	return sum * 0xff51afd7ed558ccd >> 32;
}

/* The first word of the IPv6 header with the same traffic class. */
static __always_inline __be32 ip6_word_of(const struct iphdr *ip)
{
	return bpf_htonl(6U << 28 | ip->tos << 20);
}

/* Both ports in one word; 0 if there are none. */
static __always_inline __u32 ports_of(const struct flow *flow)
{
	return flow->has_ports ? (__u32)flow->source_port << 16 | flow->destination_port : 0;
}

/* What distinguishes flows between the same addresses and ports. */
static __always_inline __u32 kind_of(const struct flow *flow)
{
	return flow->protocol | (__u32)flow->dscp << 8;
}

static __always_inline void parse_ports(struct flow *flow, const __u16 *upper, __u32 *entropy)
{
	flow->has_ports = 1;
	flow->source_port = bpf_ntohs(upper[0]);
	flow->destination_port = bpf_ntohs(upper[1]);
	*entropy = ports_of(flow);
}

static __always_inline void hash_flow(struct flow *flow, __u32 entropy)
{
	entropy ^= flow->protocol << 8;
	flow->hash = finish_hash(hash_addrs(&flow->source, &flow->destination) + entropy * 0xa0761d6478bd642f);
}

/* Without ports the flow label distinguishes flows (RFC 6437). */
static __always_inline void parse_flow(packet *p, const struct ipv6hdr *ip, struct flow *flow)
{
	__u32 entropy = *(const __be32 *)ip & bpf_htonl(0xfffff);
	const __u16 *upper = (const void *)(ip + 1);

	flow->source = read_addr(&ip->saddr);
	flow->destination = read_addr(&ip->daddr);
	flow->protocol = ip->nexthdr;
	flow->dscp = bpf_ntohl(*(const __be32 *)ip) >> 22 & 0x3f;
	flow->has_ports = flow->icmp_type = 0;
	flow->ingress = 0;
	if ((void *)(upper + 4) <= packet_end(p)) {
		if (flow->protocol == TCP || flow->protocol == UDP) {
			parse_ports(flow, upper, &entropy);
		} else if (flow->protocol == ICMP6) {
			flow->icmp_type = *(const __u8 *)upper;
			flow->echo_id = bpf_ntohs(upper[2]);
		}
	}
	hash_flow(flow, entropy);
}

/* Of an IPv4 packet. The flow of fragments has no ports, so that all fragments of a packet take one path. */
static __always_inline void parse_flow4(packet *p, const struct iphdr *ip, struct flow *flow)
{
	const __u16 *upper = (const void *)(ip + 1);
	__u32 entropy = 0;

	flow->source = v4_mapped(ip->saddr);
	flow->destination = v4_mapped(ip->daddr);
	flow->protocol = ip->protocol;
	flow->dscp = ip->tos >> 2;
	flow->has_ports = flow->icmp_type = 0;
	flow->ingress = 0;
	if ((void *)(upper + 4) <= packet_end(p) && ip->ihl == 5 && !(ip->frag_off & bpf_htons(0x3fff)) &&
	    (flow->protocol == TCP || flow->protocol == UDP))
		parse_ports(flow, upper, &entropy);
	hash_flow(flow, entropy);
}

/* Octets, from `at`, of the longest packet that the kernel makes of this buffer on the wire; ~0 if that is unknown. */
static __always_inline __u32 wire_length(packet *p, __u32 at)
{
	__u32 headers = 0;
	struct ipv6hdr *ip;

	if (!gso_size(p))
		return packet_length(p) - at;
	for (int i = 0; i < LAYERS; i++) {
		ip = ip6_header(p, at + headers, 0);
		if (!ip)
			return ~0;
		headers += IP6;
		if (ip->nexthdr == UDP)
			return gso_size(p) + headers + 8;
		if (ip->nexthdr == TCP) {
			__u8 *offset = (void *)(ip + 1) + 12;
			return (void *)(offset + 1) > packet_end(p) ? ~0 : gso_size(p) + headers + (*offset >> 4) * 4;
		}
		if (ip->nexthdr != ENCAPSULATED_IP6)
			return ~0;
	}
	return ~0;
}

/* The same for an IPv4 packet. */
static __always_inline __u32 wire_length4(packet *p, __u32 at)
{
	struct iphdr *ip = ip4_header(p, at);
	__u8 *offset;

	if (!gso_size(p))
		return packet_length(p) - at;
	if (!ip || ip->ihl != 5)
		return ~0;
	if (ip->protocol == UDP)
		return gso_size(p) + IP4 + 8;
	offset = (void *)(ip + 1) + 12;
	if (ip->protocol != TCP || (void *)(offset + 1) > packet_end(p))
		return ~0;
	return gso_size(p) + IP4 + (*offset >> 4) * 4;
}
