/* Reading a packet: addresses, exclusions, the five-tuple, the length on the wire. `at` is where an IPv6 header begins.
 * What is inside a tunnel may also be IPv4: its addresses are told as IPv4-mapped ones. */
#pragma once
#ifdef AT_DRIVER
#include "at_driver.h"
#else
#include "at_tc.h"
#endif
#include <linux/in6.h>
#include <linux/ip.h>

#define IP6 ((__u32)sizeof(struct ipv6hdr))
#define IP4 ((__u32)sizeof(struct iphdr))
#define AF_INET6 10
#define TCP 6
#define UDP 17
#define ENCAPSULATED_IP4 4
#define ENCAPSULATED_IP6 41
#define ICMP6 58
#define DESTINATION_OPTIONS 60
#define LAYERS 4  /* of tunnels in one another that one pass looks at */
#define SHALLOW (ETH_HLEN + IP6 + 20)                 /* octets looked at of a plain packet */
#define DEEP (ETH_HLEN + LAYERS * (IP6 + 8) + IP6 + 20)  /* and of a tunnelled one */
#define PACKET_HOST 0

struct flow {
	struct addr source, destination;
	__u32 hash;              /* the same for all packets of a flow */
	__u16 source_port, destination_port, echo;
	__u8 protocol, ports, type;  /* ports: whether there are any; type and echo (the identifier): of ICMPv6 */
} BY_HALVES;

static __always_inline void *begin(packet *p) { return (void *)(long)p->data; }
static __always_inline void *end(packet *p) { return (void *)(long)p->data_end; }

/* The header at `at`, with `more` octets behind it; null if the packet is shorter. */
static __always_inline struct ipv6hdr *header(packet *p, __u32 at, __u32 more)
{
	void *here = begin(p) + at;
	return here + IP6 + more > end(p) ? 0 : here;
}

/* The IPv4 header at `at`; null if the packet is shorter. */
static __always_inline struct iphdr *header4(packet *p, __u32 at)
{
	struct iphdr *here = begin(p) + at;
	return (void *)(here + 1) > end(p) ? 0 : here;
}

/* Whether the packet that begins at `at` is as long as its header says. What is cut off, or has something behind it, is the
 * kernel's to drop or to trim. */
static __always_inline int is_whole(packet *p, __u32 at, const struct ipv6hdr *ip)
{
	return bpf_ntohs(ip->payload_len) + IP6 == length_of(p) - at;
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

static __always_inline struct addr mapped(__be32 a)
{
	return (struct addr){ .w = { 0, 0, bpf_htonl(0xffff), a } };
}

static __always_inline int same(const struct addr *a, const struct addr *b)
{
	return !((half_of(a, 0) ^ half_of(b, 0)) | (half_of(a, 1) ^ half_of(b, 1)));
}

static __always_inline int inside(const struct addr *a, const struct addr *network, const struct addr *mask)
{
	return !(((a->w[0] & mask->w[0]) ^ network->w[0]) | ((a->w[1] & mask->w[1]) ^ network->w[1]) |
		 ((a->w[2] & mask->w[2]) ^ network->w[2]) | ((a->w[3] & mask->w[3]) ^ network->w[3]));
}

/* Link-local or multicast, which no tunnel carries: they mean something on one link only. Nor does any carry ::/64, which
 * has nobody's address: an IPv4-mapped one in an IPv6 header would pass for what is in an IPv4 header (RFC 6890 §2.2.3). */
static __always_inline int stays_on_link(const struct addr *a)
{
	__u32 top = bpf_ntohl(a->w[0]);
	return top >> 24 == 0xff || top >> 22 == 0xfe80 >> 6 || !(a->w[0] | a->w[1]);
}

/* The same of IPv4, and what is no host's: 0/8, 127/8, 169.254/16, 224/3 (RFC 1122 §3.2.1.3, RFC 3927). */
static __always_inline int stays_on_link4(__be32 a)
{
	__u32 host = bpf_ntohl(a);
	return !(host >> 24) || host >> 24 == 127 || host >> 16 == 0xa9fe || host >> 29 == 7;
}

/* Hashing: the products of words and odd numbers, which do not wait for each other, are summed up and stirred once. */
static __always_inline __u64 mix_addr(const struct addr *a, __u64 one, __u64 other)
{
	return half_of(a, 0) * one + half_of(a, 1) * other;
}

static __always_inline __u64 mix_addrs(const struct addr *a, const struct addr *b)
{
	return mix_addr(a, 0x9e3779b97f4a7c15, 0xbf58476d1ce4e5b9) + mix_addr(b, 0x94d049bb133111eb, 0xd6e8feb86659fd93);
}

static __always_inline __u32 stir(__u64 sum)
{
	sum ^= sum >> 32;
	return sum * 0xff51afd7ed558ccd >> 32;
}

/* What an IPv6 header would begin with that says as much. */
static __always_inline __be32 word_of(const struct iphdr *ip)
{
	return bpf_htonl(6U << 28 | ip->tos << 20);
}

/* Both in one word; 0 if there are none. */
static __always_inline __u32 ports_of(const struct flow *flow)
{
	return flow->ports ? (__u32)flow->source_port << 16 | flow->destination_port : 0;
}

static __always_inline void read_ports(struct flow *flow, const __u16 *upper, __u32 *entropy)
{
	flow->ports = 1;
	flow->source_port = bpf_ntohs(upper[0]);
	flow->destination_port = bpf_ntohs(upper[1]);
	*entropy = ports_of(flow);
}

static __always_inline void mix_flow(struct flow *flow, __u32 entropy)
{
	entropy ^= flow->protocol << 8;
	flow->hash = stir(mix_addrs(&flow->source, &flow->destination) + entropy * 0xa0761d6478bd642f);
}

/* Where the five-tuple lacks ports, the flow label stands in for them (RFC 6437). */
static __always_inline void read_flow(packet *p, const struct ipv6hdr *ip, struct flow *flow)
{
	__u32 entropy = *(const __be32 *)ip & bpf_htonl(0xfffff);
	const __u16 *upper = (const void *)(ip + 1);

	flow->source = read_addr(&ip->saddr);
	flow->destination = read_addr(&ip->daddr);
	flow->protocol = ip->nexthdr;
	flow->ports = flow->type = 0;
	if ((void *)(upper + 4) <= end(p)) {
		if (flow->protocol == TCP || flow->protocol == UDP) {
			read_ports(flow, upper, &entropy);
		} else if (flow->protocol == ICMP6) {
			flow->type = *(const __u8 *)upper;
			flow->echo = bpf_ntohs(upper[2]);
		}
	}
	mix_flow(flow, entropy);
}

/* Of IPv4. Fragments are told apart by addresses alone, so that all of a packet take one path. */
static __always_inline void read_flow4(packet *p, const struct iphdr *ip, struct flow *flow)
{
	const __u16 *upper = (const void *)(ip + 1);
	__u32 entropy = 0;

	flow->source = mapped(ip->saddr);
	flow->destination = mapped(ip->daddr);
	flow->protocol = ip->protocol;
	flow->ports = flow->type = 0;
	if ((void *)(upper + 4) <= end(p) && ip->ihl == 5 && !(ip->frag_off & bpf_htons(0x3fff)) &&
	    (flow->protocol == TCP || flow->protocol == UDP))
		read_ports(flow, upper, &entropy);
	mix_flow(flow, entropy);
}

/* Octets from `at` of the longest packet that this buffer becomes on the wire; more than any if that cannot be told. */
static __always_inline __u32 length_on_wire(packet *p, __u32 at)
{
	__u32 headers = 0;
	struct ipv6hdr *ip;

	if (!segment_of(p))
		return length_of(p) - at;
	for (int i = 0; i < LAYERS; i++) {
		ip = header(p, at + headers, 0);
		if (!ip)
			return ~0;
		headers += IP6;
		if (ip->nexthdr == UDP)
			return segment_of(p) + headers + 8;
		if (ip->nexthdr == TCP) {
			__u8 *offset = (void *)(ip + 1) + 12;
			return (void *)(offset + 1) > end(p) ? ~0 : segment_of(p) + headers + (*offset >> 4) * 4;
		}
		if (ip->nexthdr != ENCAPSULATED_IP6)
			return ~0;
	}
	return ~0;
}

/* The same of an IPv4 packet. */
static __always_inline __u32 length_on_wire4(packet *p, __u32 at)
{
	struct iphdr *ip = header4(p, at);
	__u8 *offset;

	if (!segment_of(p))
		return length_of(p) - at;
	if (!ip || ip->ihl != 5)
		return ~0;
	if (ip->protocol == UDP)
		return segment_of(p) + IP4 + 8;
	offset = (void *)(ip + 1) + 12;
	if (ip->protocol != TCP || (void *)(offset + 1) > end(p))
		return ~0;
	return segment_of(p) + IP4 + (*offset >> 4) * 4;
}
