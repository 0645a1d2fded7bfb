/* The fast path at the driver, before the kernel allocates a socket buffer. What this program can decide and forward at
 * once it redirects; all else passes unchanged to the TC programs. It drops what they drop, and never refreshes a next hop,
 * so that the kernel's own neighbour entry stays in use. */
#define CTX_XDP
#include "encap.h"
#include "decap.h"

/* Whether the frame is addressed to this interface alone. */
static __always_inline int is_for_us(packet *p, const struct xdp_iface *iface)
{
	__u16 *to = packet_begin(p);

	if ((void *)to + ETH_HLEN > packet_end(p) || to[6] != bpf_htons(ETH_P_IPV6))
		return 0;
	return !((to[0] ^ iface->mac[0]) | (to[1] ^ iface->mac[1]) | (to[2] ^ iface->mac[2]));
}

/* Decapsulation. A tunnelled packet for another host may have to be encapsulated again, which the TC program does. */
static __noinline int decap(packet *p, struct settings *set)
{
	struct parsed_outer parsed = {};
	enum verdict verdict = parse_outer(p, ETH_HLEN, &parsed);
	int handled;

	if (verdict != OURS)
		return verdict == DROP ? XDP_DROP : XDP_PASS;
	parsed.length = IP6;
	handled = decap_forward(p, ETH_HLEN, set, &parsed);
	return handled ? handled : XDP_PASS;
}

SEC("xdp") int front(packet *p)
{
	struct xdp_iface *iface = xdp_iface_of(ingress_ifindex(p));
	struct settings *set = get_settings();
	struct ipv6hdr *ip;
	int handled;

	if (!set || set->firewalled & FIREWALLED_IP6 || !iface || !is_for_us(p, iface))
		return XDP_PASS;
	ip = ip6_header(p, ETH_HLEN, 0);
	if (!ip)
		return XDP_PASS;
	if (ip->nexthdr != ENCAPSULATED_IP6)
		return encap(p, set);
	handled = decap_cached(p, set);
	return handled ? handled : decap(p, set);
}

char _license[] SEC("license") = "Dual MIT/GPL";
