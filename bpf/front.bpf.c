/* The same at the driver, before the kernel has made a socket buffer of a frame: what it can decide and send on at once is
 * gone here, all else goes on untouched to the tunnel's programs. It refuses what they refuse, and never renews what is known
 * of a neighbour, so that the kernel's own entry stays in use. */
#define AT_DRIVER
#include "enter.h"
#include "leave.h"

/* Not for others on the link, nor for many. */
static __always_inline int is_for_us(packet *p, const struct front *front)
{
	__u16 *to = begin(p);

	if ((void *)to + ETH_HLEN > end(p) || to[6] != bpf_htons(ETH_P_IPV6))
		return 0;
	return !((to[0] ^ front->mac[0]) | (to[1] ^ front->mac[1]) | (to[2] ^ front->mac[2]));
}

/* Out of a tunnel. One that ends elsewhere may be going into another: the next program sees to that. */
static __always_inline int leave(packet *p, struct settings *set)
{
	struct opened opened = {};
	enum verdict verdict = open_one(p, ETH_HLEN, &opened);
	int taken;

	if (verdict != OURS)
		return verdict == DROP ? XDP_DROP : XDP_PASS;
	opened.room = IP6;
	taken = leave_at_once(p, ETH_HLEN, set, &opened);
	return taken ? taken : XDP_PASS;
}

SEC("xdp") int front(packet *p)
{
	struct front *front = front_of(arrived_by(p));
	struct settings *set = get_settings();
	struct ipv6hdr *ip;
	int taken;

	if (!set || set->hooked & HOOKED_IP6 || !front || !is_for_us(p, front))
		return XDP_PASS;
	ip = header(p, ETH_HLEN, 0);
	if (!ip)
		return XDP_PASS;
	if (ip->nexthdr != ENCAPSULATED_IP6)
		return enter(p, set);
	taken = leave_again(p, set);
	return taken ? taken : leave(p, set);
}

char _license[] SEC("license") = "Dual MIT/GPL";
