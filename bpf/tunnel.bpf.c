/* The tunnel's programs. `ethernet` and `bare` take packets off an interface with and without Ethernet headers: the fast
 * path, which does what needs no error message and leaves all else untouched to the kernel. The kernel's routes lead
 * what is left, and what this host itself sends, through the tunnel device, where `device` encapsulates it. What it lets through
 * to whoever has the device open is to be sent in fragments, or carried by IPv4. */
#include "enter.h"
#include "leave.h"
#include "nested.h"

#define MIN_MTU 1280

/* All outer headers that end here: a home agent of nested mobile routers finds one in another. */
static __always_inline enum verdict open(packet *p, __u32 l2, struct opened *opened)
{
	enum verdict verdict = NOT_OURS;

	for (int i = 0; i < LAYERS; i++) {
		opened->room = any(p, opened->room, LAYERS * (IP6 + 8));
		verdict = open_one(p, l2 + opened->room, opened);
		if (verdict != OURS || opened->ip4)
			break;
	}
	opened->room = any(p, opened->room, LAYERS * (IP6 + 8));
	return verdict == NOT_OURS && opened->room ? OURS : verdict;
}

/* The same for IPv4. It never becomes a packet without outer header, which large buffers would not survive: see `grow`. */
static __always_inline int hairpin4(packet *p, __u32 l2, struct settings *set, struct opened *opened)
{
	struct ipv6hdr *outer;
	struct tunnel *tunnel;
	struct route *route;
	struct iphdr *inner;
	struct flow flow;
	struct path path;
	__u32 version;

	tunnel = find(&opened->source, &opened->destination);
	inner = header4(p, l2 + IP6);
	if (!tunnel || !inner || inner->ttl <= 1 || bpf_ntohs(inner->tot_len) != length_of(p) - l2 - IP6)
		return 0;
	read_flow4(p, inner, &flow);
	version = tunnel->version;
	route = choose(tunnel, &flow, &path);
	if (!route || path.kind != WRAPPED || length_on_wire4(p, l2 + IP6) > path.mtu)
		return 0;
	find_way(p, set, &path, route, version);
	outer = header(p, l2, IP4);
	if (!route->link || !outer)
		return 0;
	inner = (void *)(outer + 1);
	lower_ttl(inner);
	write_outer(outer, ENCAPSULATED_IP4, word_of(inner), &path, flow.hash, p->len - l2 - IP6);
	count(HAIRPINNED);
	return bpf_redirect_neigh(route->link, 0, 0, 0);
}

/* An IPv4 packet out of a tunnel: the tunnel device receives it, and the kernel routes it. */
static __always_inline int leave4(packet *p, __u32 l2, struct settings *set, struct opened *opened)
{
	int fast = l2 && opened->room == IP6 && !(set->hooked & HOOKED_IP4);
	int taken = fast ? hairpin4(p, l2, set, opened) : 0;

	if (taken)
		return taken;
	if (shrink_to_ip4(p, opened->room)) {
		count(DROPPED_ROOM);
		return TC_ACT_SHOT;
	}
	count(DECAPSULATED);
	return bpf_redirect(set->device, BPF_F_INGRESS);
}

/* Out of a tunnel. Where the next hop is not at hand, the tunnel device receives the inner packet and the kernel routes
 * it: it may be for this host, and whoever listens on the device (a tap for signalling, tcpdump) sees it there. */
static __always_inline int leave(packet *p, __u32 l2, struct settings *set, struct opened *opened)
{
	int taken = l2 && !(set->hooked & HOOKED_IP6) ? leave_at_once(p, l2, set, opened) : 0;

	if (taken)
		return taken;
	if (shrink(p, opened->room)) {
		count(DROPPED_ROOM);
		return TC_ACT_SHOT;
	}
	count(DECAPSULATED);
	return bpf_redirect(set->device, BPF_F_INGRESS);
}

/* Where a firewall hooks into the forwarding path nothing is sent on at once: a tunnelled packet loses its outer header and is
 * received by the tunnel device, all else goes on as it is, and the kernel forwards both past the hooks. */
static __always_inline int arrive(packet *p, __u32 l2)
{
	struct settings *set = get_settings();
	struct ipv6hdr *ip;

	if (!set || p->protocol != bpf_htons(ETH_P_IPV6) || p->vlan_present || p->pkt_type != PACKET_HOST)
		return TC_ACT_OK;
	if (pull(p, SHALLOW))
		return TC_ACT_OK;
	ip = header(p, l2, 0);
	if (!ip)
		return TC_ACT_OK;
	if (is_tunnelled(ip->nexthdr) || ip->nexthdr == DESTINATION_OPTIONS) {
		struct opened opened = {};
		int taken;

		if (pull(p, DEEP))
			return TC_ACT_OK;
		if (l2 && !(set->hooked & HOOKED_IP6)) {
			taken = leave_again(p, set);
			if (taken)
				return taken;
		}
		switch (open(p, l2, &opened)) {
		case OURS:
			return opened.ip4 ? leave4(p, l2, set, &opened) : leave(p, l2, set, &opened);
		case DROP:
			return TC_ACT_SHOT;
		default:
			break;
		}
		if (may_be_ours(p, l2))
			return TC_ACT_OK;
	}
	return l2 && !(set->hooked & HOOKED_IP6) ? enter(p, set) : TC_ACT_OK;
}

SEC("classifier") int ethernet(packet *p) { return arrive(p, ETH_HLEN); }
SEC("classifier") int bare(packet *p) { return arrive(p, 0); }

/* The interface towards the other end; 0 if there is no route. */
static __always_inline __u32 link_of(packet *p, struct settings *set, const struct path *path)
{
	struct bpf_fib_lookup answer;
	long refused;

	if (path->link)
		return path->link;
	refused = ask(p, set->device, &path->local, &path->remote, &answer);
	return !refused || refused == BPF_FIB_LKUP_RET_NO_NEIGH ? answer.ifindex : 0;
}

static __always_inline int refuse(__u32 why)
{
	count(why);
	return TC_ACT_SHOT;
}

/* Straight to a neighbour, as it is. The neighbour must be known: a packet that had to wait for neighbour discovery would
 * then follow the route that led it here. */
static __always_inline int hand_over(packet *p, const struct path *path)
{
	struct bpf_redir_neigh next = { .nh_family = AF_INET6 };
	__be16 *type = begin(p) + 2 * ETH_ALEN;

	if ((void *)(type + 1) > end(p))
		return refuse(DROPPED_FORM);
	*type = p->protocol;
	*(struct addr *)next.ipv6_nh = path->remote;
	count(HANDED_OVER);
	return bpf_redirect_neigh(path->link, &next, sizeof(next), 0);
}

/* What is to go into a tunnel. */
struct inner {
	struct flow flow;
	__u32 on_wire;  /* its length */
	__be32 word;    /* the first of its header; for IPv4, of an IPv6 header that says as much */
	__u8 protocol;  /* as the outer header's next header tells it */
};

/* An outer header before it, and up to the daemon. */
static __always_inline int hand_up(packet *p, const struct path *path, const struct inner *inner, __u32 as)
{
	__u32 length = p->len;
	struct ipv6hdr *ip;

	if (grow(p))
		return refuse(DROPPED_ROOM);
	ip = header(p, 0, 0);
	if (!ip)
		return refuse(DROPPED_FORM);
	write_outer(ip, inner->protocol, inner->word, path, inner->flow.hash, length);
	count(as);
	return TC_ACT_OK;
}

/* Longer than the path takes. What any link carries may not be refused: it gets its outer header and goes up to the
 * daemon, which sends it in fragments; so does what has an outer header of ours already (RFC 2473 §7.2). Fragments of ours
 * are short enough to be encapsulated to the limit, and are never cut again. */
static __always_inline int leave_long(packet *p, const struct path *path, const struct inner *inner,
				      __u32 nested)
{
	if (nested & CUT)
		return refuse(DROPPED_NESTED);
	if (is_tunnelled(inner->flow.protocol) && bpf_map_lookup_elem(&ends, &inner->flow.source)) {
		count(TO_BE_CUT);
		return TC_ACT_OK;
	}
	if (path->kind == HANDED || inner->on_wire > MIN_MTU)
		return refuse(DROPPED_TOO_BIG);
	return hand_up(p, path, inner, TO_BE_CUT);
}

/* By IPv4: up to the daemon, with both ends before it. Routers between may cut it. */
static __always_inline int carry(packet *p, const struct path *path, const struct inner *inner)
{
	if (inner->on_wire > path->mtu && inner->on_wire > MIN_MTU)
		return refuse(DROPPED_TOO_BIG);
	return hand_up(p, path, inner, TO_BE_CARRIED);
}

/* Whether the packet may go into a tunnel; counts why not. */
static __always_inline int read_inner(packet *p, struct inner *inner)
{
	struct ipv6hdr *ip;
	struct iphdr *ip4;
	int stays;

	if (p->protocol == bpf_htons(ETH_P_IP)) {
		ip4 = header4(p, 0);
		if (!ip4)
			return drop(DROPPED_FORM);
		read_flow4(p, ip4, &inner->flow);
		inner->word = word_of(ip4);
		inner->protocol = ENCAPSULATED_IP4;
		stays = stays_on_link4(ip4->saddr) || stays_on_link4(ip4->daddr);
		inner->on_wire = length_on_wire4(p, 0);
	} else {
		ip = header(p, 0, 0);
		if (!ip || p->protocol != bpf_htons(ETH_P_IPV6))
			return drop(DROPPED_FORM);
		read_flow(p, ip, &inner->flow);
		inner->word = *(__be32 *)ip;
		inner->protocol = ENCAPSULATED_IP6;
		stays = stays_on_link(&inner->flow.source) || stays_on_link(&inner->flow.destination);
		inner->on_wire = length_on_wire(p, 0);
	}
	return stays ? drop(DROPPED_SCOPE) : OURS;
}

/* The device has no link-layer header, but what leads to a neighbour must have room for one. */
static __always_inline long make_room(packet *p)
{
	return bpf_skb_change_head(p, ETH_HLEN, 0);
}

/* Several IPv4 segments in one buffer that came out of a tunnel: the kernel takes no second outer header for them (see `grow`).
 * On its way to the daemon it makes a packet of each, and the daemon has them received again. */
static __always_inline int is_to_be_segmented(packet *p, const struct settings *set)
{
	return p->gso_size && p->protocol == bpf_htons(ETH_P_IP) && p->ingress_ifindex == set->device;
}

/* Sent out of the tunnel device: hop limit and length have been dealt with by the kernel. */
SEC("classifier") int device(packet *p)
{
	struct settings *set = get_settings();
	__u32 length = p->len, link, version, nested = 0;
	int is_own_flow = !p->ingress_ifindex;
	struct inner inner = {};
	struct passage *again;
	struct tunnel *tunnel;
	struct route *route;
	struct ipv6hdr *ip;
	struct path path;
	struct hop *hop;

	if (!set || pull(p, SHALLOW))
		return refuse(DROPPED_FORM);
	if (read_inner(p, &inner) != OURS)
		return TC_ACT_SHOT;
	if (length > 0xffff)
		return refuse(DROPPED_TOO_BIG);
	if (inner.protocol == ENCAPSULATED_IP6 && may_be_nested(inner.flow.protocol)) {
		if (pull(p, NESTED_ROOM))
			return refuse(DROPPED_FORM);
		nested = count_nested(p);
		if ((nested & ~CUT) >= ENCAPSULATION_LIMIT)
			return refuse(DROPPED_NESTED);
	}
	if (is_to_be_segmented(p, set)) {
		count(TO_BE_SEGMENTED);
		return TC_ACT_OK;
	}
	again = is_own_flow ? noted(set, &inner.flow, 0) : 0;
	if (again && inner.on_wire <= again->path.mtu) {
		if (make_room(p))
			return refuse(DROPPED_FORM);
		return wrap(p, inner.protocol, inner.word, &again->path, inner.flow.hash, again->link, again->mac,
			    ENCAPSULATED_SLOW);
	}
	tunnel = find(&inner.flow.source, &inner.flow.destination);
	if (!tunnel)
		return refuse(DROPPED_NO_TUNNEL);
	version = tunnel->version;
	route = choose(tunnel, &inner.flow, &path);
	if (!route)
		return refuse(DROPPED_NO_PATH);
	if (path.kind == CARRIED)
		return carry(p, &path, &inner);
	if (inner.on_wire > path.mtu && (!p->gso_size || inner.on_wire <= MIN_MTU))
		return leave_long(p, &path, &inner, nested);
	if (is_own_flow && path.kind == WRAPPED) {
		hop = find_way(p, set, &path, route, version);
		if (hop)
			note(set, &inner.flow, 0, &path, hop);
	}
	if (make_room(p))
		return refuse(DROPPED_FORM);
	if (path.kind == HANDED)
		return hand_over(p, &path);
	link = link_of(p, set, &path);
	if (!link)
		return refuse(DROPPED_NO_ROUTE);
	if (grow(p))
		return refuse(DROPPED_ROOM);
	ip = header(p, ETH_HLEN, 0);
	if (!ip)
		return refuse(DROPPED_FORM);
	((__be16 *)ip)[-1] = bpf_htons(ETH_P_IPV6);
	write_outer(ip, inner.protocol, inner.word, &path, inner.flow.hash, length);
	count(ENCAPSULATED_SLOW);
	/* An outer destination behind the tunnel device: the other end is itself in a mobile network. */
	return link == set->device ? bpf_redirect(link, 0) : bpf_redirect_neigh(link, 0, 0, 0);
}

char _license[] SEC("license") = "Dual MIT/GPL";
