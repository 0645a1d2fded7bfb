/* The fast path at the driver, before the kernel allocates a socket buffer. What this program can decide and forward at
 * once it redirects; all else passes unchanged to the TC programs. It drops what they drop, and never refreshes a next hop,
 * so that the kernel's own neighbour entry stays in use. */
#define CTX_XDP
#include "encap.h"
#include "decap_outer.h"

/* The Ethertype of a frame that is addressed to this interface alone, in network byte order; else 0. */
static __always_inline __u16 type_for_us(packet *p, const struct xdp_iface *iface)
{
	__u16 *to = packet_begin(p);

	if ((void *)to + ETH_HLEN > packet_end(p) ||
	    (to[0] ^ iface->mac[0]) | (to[1] ^ iface->mac[1]) | (to[2] ^ iface->mac[2]))
		return 0;
	return to[6];
}

/* Decapsulation. A tunnelled packet for another host may have to be encapsulated again, which the TC program does. */
static __noinline int decap(packet *p, struct settings *set)
{
	struct scratch *scratch = get_scratch();
	struct parsed_outer parsed = {};
	__u32 octets = packet_length(p) - ETH_HLEN - IP6;
	enum verdict verdict = parse_outer(p, ETH_HLEN, &parsed);
	int handled;

	if (verdict != OURS || !scratch)
		return verdict == DROP ? XDP_DROP : XDP_PASS;
	parsed.length = IP6;
	handled = decap_forward(p, ETH_HLEN, set, &parsed, scratch->stat);
	if (!handled)
		return XDP_PASS;
	note_received(p, scratch->stat, octets);
	return handled;
}

/* A frame with UDP or IPv4: a tunnel's, if it is one. */
static __always_inline int decap_ip4_or_udp(packet *p, struct settings *set, __u16 type)
{
	struct scratch *scratch = get_scratch();
	int verdict;

	if (!scratch || !(type == bpf_htons(ETH_P_IP) ? parse_outer4(p, ETH_HLEN, &scratch->outer) :
							parse_outer_udp6(p, ETH_HLEN, &scratch->outer)))
		return XDP_PASS;
	verdict = decap_outer(p, ETH_HLEN, set, scratch);
	return verdict == NOT_HANDLED ? XDP_PASS : verdict;
}

SEC("xdp") int front(packet *p)
{
	struct xdp_iface *iface = xdp_iface_of(ingress_ifindex(p));
	struct settings *set = get_settings();
	struct ipv6hdr *ip;
	int handled;
	__u16 type;

	if (!set || set->firewalled & FIREWALLED_IP6 || !iface)
		return XDP_PASS;
	type = type_for_us(p, iface);
	ip = ip6_header(p, ETH_HLEN, 0);
	if (!ip || (type != bpf_htons(ETH_P_IPV6) && type != bpf_htons(ETH_P_IP)))
		return XDP_PASS;
	if (type == bpf_htons(ETH_P_IP) || (ip->nexthdr == UDP && tunnel_ports(p, ETH_HLEN)))
		return decap_ip4_or_udp(p, set, type);
	if (ip->nexthdr != ENCAPSULATED_IP6)
		return encap(p, set);
	handled = decap_cached(p, set);
	return handled ? handled : decap(p, set);
}

char _license[] SEC("license") = "Dual MIT/GPL";
