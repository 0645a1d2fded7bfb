/* The tunnel's programs. `ethernet` and `bare` take packets off an interface with and without Ethernet headers: the fast
 * path, which does what needs no error message and leaves all else untouched to the kernel. The kernel's routes lead
 * what is left, and what this host itself sends, through the tunnel device, where `device` encapsulates it. What it lets through
 * to whoever has the device open is to be sent in fragments, or carried by IPv4. */
#include "again.h"
#include "find.h"
#include "hop.h"
#include "outer.h"
#include "path.h"
#include <linux/pkt_cls.h>

#define MIN_MTU 1280

struct opened {
	__u32 room;  /* octets of outer headers */
	__u32 ip4;   /* what is within is IPv4 */
	struct addr source, destination;
};
enum verdict { OURS, NOT_OURS, DROP };

static __always_inline enum verdict drop(__u32 why)
{
	count(why);
	return DROP;
}

__noinline int has_path(const struct tunnel *tunnel, const struct addr *local, const struct addr *remote)
{
	if (!tunnel || !local || !remote)
		return 0;
	for (int i = 0; i < PATHS; i++) {
		if (i >= tunnel->paths)
			break;
		if (tunnel->lane[i].path.kind != HANDED && same(&tunnel->lane[i].path.remote, remote) &&
		    same(&tunnel->lane[i].path.local, local))
			return 1;
	}
	return 0;
}

/* Whether the inner packet is one of the tunnel between these two. */
static __noinline int may_come(const struct opened *opened, __u32 place, const struct addr *local,
			       const struct addr *remote)
{
	struct found found = {};
	struct tunnel *tunnel;

	if (longest(FAR, &opened->source, &found) && found.way.whole && found.way.local == place && same(&found.way.remote, remote))
		return 1;
	tunnel = find_by(&found, &opened->destination, &opened->source);
	return tunnel && has_path(tunnel, local, remote);
}

/* Outer headers that stand for IPv4 come from the daemon alone. */
static __always_inline int is_on_device(struct __sk_buff *skb)
{
	struct settings *set = get_settings();

	return set && skb->ifindex == set->device;
}

/* What is in an outer header, if it is IPv6. Congestion marks go inside, also of what is dropped then. */
static __always_inline enum verdict look_inside(struct __sk_buff *skb, __u32 at, const struct ipv6hdr *outer,
						struct opened *opened)
{
	struct ipv6hdr *inner = header(skb, at, 0);

	if (!inner || inner->version != 6)
		return drop(DROPPED_FORM);
	opened->source = read_addr(&inner->saddr);
	opened->destination = read_addr(&inner->daddr);
	if (stays_on_link(&opened->source) || stays_on_link(&opened->destination))
		return drop(DROPPED_SCOPE);
	return merge_ecn(outer, inner) ? drop(DROPPED_ECN) : OURS;
}

/* The same if it is IPv4. */
static __always_inline enum verdict look_inside4(struct __sk_buff *skb, __u32 at, const struct ipv6hdr *outer,
						 struct opened *opened)
{
	struct iphdr *inner = header4(skb, at);

	if (!inner || inner->version != 4)
		return drop(DROPPED_FORM);
	opened->source = mapped(inner->saddr);
	opened->destination = mapped(inner->daddr);
	if (stays_on_link4(inner->saddr) || stays_on_link4(inner->daddr))
		return drop(DROPPED_SCOPE);
	return merge_ecn4(outer, inner) ? drop(DROPPED_ECN) : OURS;
}

/* One outer header: whether it is ours to take off, and what is in it allowed (RFC 3963 §6.5, §9). */
static __always_inline enum verdict open_one(struct __sk_buff *skb, __u32 at, struct opened *opened)
{
	struct ipv6hdr *outer = header(skb, at, 8);
	struct addr local, remote;
	enum verdict verdict;
	__u32 room, *place;
	__u8 protocol;

	if (!outer || !(room = outer_room(outer, &protocol)))
		return NOT_OURS;
	local = read_addr(&outer->daddr);
	remote = read_addr(&outer->saddr);
	place = bpf_map_lookup_elem(&ends, &local);
	if (!place || (*place == CARRIED_END && !is_on_device(skb)))
		return NOT_OURS;
	opened->ip4 = protocol == ENCAPSULATED_IP4;
	verdict = opened->ip4 ? look_inside4(skb, at + room, outer, opened) : look_inside(skb, at + room, outer, opened);
	if (verdict != OURS)
		return verdict;
	if (!may_come(opened, *place, &local, &remote))
		return drop(DROPPED_SOURCE);
	opened->room += room;
	return OURS;
}

/* A number the verifier knows nothing about but that it is not above `most`: so it checks what follows once, and not for
 * each way to come by the number. */
static __always_inline __u32 any(struct __sk_buff *skb, __u32 number, __u32 most)
{
	skb->cb[0] = number;
	number = skb->cb[0];
	return number > most ? most : number;
}

/* All outer headers that end here: a home agent of nested mobile routers finds one in another. */
static __always_inline enum verdict open(struct __sk_buff *skb, __u32 l2, struct opened *opened)
{
	enum verdict verdict = NOT_OURS;

	for (int i = 0; i < LAYERS; i++) {
		opened->room = any(skb, opened->room, LAYERS * (IP6 + 8));
		verdict = open_one(skb, l2 + opened->room, opened);
		if (verdict != OURS || opened->ip4)
			break;
	}
	opened->room = any(skb, opened->room, LAYERS * (IP6 + 8));
	return verdict == NOT_OURS && opened->room ? OURS : verdict;
}

/* From one tunnel into another: the outer header is written anew in place. Not 0 if the packet was taken. */
static __always_inline int hairpin(struct __sk_buff *skb, __u32 l2, struct settings *set, struct opened *opened)
{
	struct ipv6hdr *outer, *inner;
	struct tunnel *tunnel;
	struct route *route;
	struct flow flow;
	struct path path;
	struct hop *hop;
	__u32 version;

	tunnel = find(&opened->source, &opened->destination);
	inner = header(skb, l2 + IP6, 0);
	if (!tunnel || !inner || inner->hop_limit <= 1)
		return 0;
	read_flow(skb, inner, &flow);
	version = tunnel->version;
	route = choose(tunnel, &flow, &path);
	if (!route || path.kind != WRAPPED || length_on_wire(skb, l2 + IP6) > path.mtu)
		return 0;
	hop = find_way(skb, set, &path, route, version);
	outer = header(skb, l2, IP6);
	if (!hop || !outer)
		return 0;
	inner = outer + 1;
	inner->hop_limit--;
	write_outer(outer, ENCAPSULATED_IP6, *(__be32 *)inner, &path, flow.hash, skb->len - l2 - IP6);
	write_ethernet((void *)outer - ETH_HLEN, hop->mac);
	count(HAIRPINNED);
	return bpf_redirect(hop->link, 0);
}

/* The same for IPv4. It never becomes a packet without outer header, which large buffers would not survive: see `grow`. */
static __always_inline int hairpin4(struct __sk_buff *skb, __u32 l2, struct settings *set, struct opened *opened)
{
	struct ipv6hdr *outer;
	struct tunnel *tunnel;
	struct route *route;
	struct iphdr *inner;
	struct flow flow;
	struct path path;
	__u32 version;

	tunnel = find(&opened->source, &opened->destination);
	inner = header4(skb, l2 + IP6);
	if (!tunnel || !inner || inner->ttl <= 1)
		return 0;
	read_flow4(skb, inner, &flow);
	version = tunnel->version;
	route = choose(tunnel, &flow, &path);
	if (!route || path.kind != WRAPPED || length_on_wire4(skb, l2 + IP6) > path.mtu)
		return 0;
	find_way(skb, set, &path, route, version);
	outer = header(skb, l2, IP4);
	if (!route->link || !outer)
		return 0;
	inner = (void *)(outer + 1);
	lower_ttl(inner);
	write_outer(outer, ENCAPSULATED_IP4, word_of(inner), &path, flow.hash, skb->len - l2 - IP6);
	count(HAIRPINNED);
	return bpf_redirect_neigh(route->link, 0, 0, 0);
}

/* An IPv4 packet out of a tunnel: the tunnel device receives it, and the kernel routes it. */
static __always_inline int leave4(struct __sk_buff *skb, __u32 l2, struct settings *set, struct opened *opened)
{
	int taken = l2 && opened->room == IP6 ? hairpin4(skb, l2, set, opened) : 0;

	if (taken)
		return taken;
	if (shrink_to_ip4(skb, opened->room)) {
		count(DROPPED_ROOM);
		return TC_ACT_SHOT;
	}
	count(DECAPSULATED);
	return bpf_redirect(set->device, BPF_F_INGRESS);
}

/* Out of a tunnel. Where the next hop is not at hand, the tunnel device receives the inner packet and the kernel routes
 * it: it may be for this host, and whoever listens on the device (a tap for signalling, tcpdump) sees it there. */
static __always_inline int leave(struct __sk_buff *skb, __u32 l2, struct settings *set, struct opened *opened)
{
	struct journey journey = { opened->source, opened->destination, 0 };
	struct ipv6hdr *outer, *inner;
	struct hop *hop = 0;
	int taken;

	if (l2 && opened->room == IP6) {
		taken = hairpin(skb, l2, set, opened);
		if (taken)
			return taken;
	}
	if (l2)
		hop = find_hop(skb, set, &journey);
	outer = header(skb, l2, IP6);
	inner = header(skb, l2 + opened->room, 0);
	if (hop && outer && inner && takes(hop, skb, set, l2 + opened->room, inner)) {
		if (opened->room == IP6)
			remember(hop, set, outer);
		return send_on(skb, set, opened->room, inner, hop);
	}
	if (shrink(skb, opened->room)) {
		count(DROPPED_ROOM);
		return TC_ACT_SHOT;
	}
	count(DECAPSULATED);
	return bpf_redirect(set->device, BPF_F_INGRESS);
}

/* What only the kernel may judge: scope, neighbour discovery for proxied addresses, a spent hop limit. */
static __always_inline int is_for_kernel(const struct ipv6hdr *ip, const struct flow *flow)
{
	if (stays_on_link(&flow->source) || stays_on_link(&flow->destination) || ip->hop_limit <= 1)
		return 1;
	return flow->protocol == ICMP6 && flow->type >= 133 && flow->type <= 137;
}

/* An address that the near side names by itself is this host's own: nobody who sends to us speaks from it. */
static __always_inline int is_own(const struct addr *a)
{
	struct prefix key = { .address = *a, .bits = 128, .side = NEAR };

	return bpf_map_lookup_elem(&prefixes, &key) != 0;
}

/* The path of a tunnel that its prefix tells. */
static __always_inline int tell(const struct way *way, struct path *path)
{
	__u32 place = way->local;
	struct addr *local = bpf_map_lookup_elem(&locals, &place);

	if (!local)
		return 0;
	*path = (struct path){ .local = *local, .remote = way->remote, .mtu = way->mtu };
	return 1;
}

/* The path of any other, and what is known of its route. */
static __always_inline struct route *find_path(struct found *found, const struct flow *flow, struct path *path,
						__u32 *version)
{
	struct tunnel *tunnel = find_by(found, &flow->source, &flow->destination);

	if (!tunnel)
		return 0;
	if (!(tunnel->flags & ALL << NEAR) && (within(tunnel, NEAR, &flow->destination, found) || is_own(&flow->source)))
		return 0;
	*version = tunnel->version;
	return choose(tunnel, flow, path);
}

/* Into a tunnel. */
static __always_inline int enter(struct __sk_buff *skb, struct settings *set)
{
	__u32 length = skb->len - ETH_HLEN, version = 0;
	struct found found = {};
	struct passage *again;
	struct route *route = 0;
	struct ipv6hdr *ip;
	struct flow flow;
	struct path path;
	struct hop *hop;

	ip = header(skb, ETH_HLEN, 0);
	if (!ip)
		return TC_ACT_OK;
	read_flow(skb, ip, &flow);
	if (is_for_kernel(ip, &flow))
		return TC_ACT_OK;
	again = noted(set, &flow, 0);
	if (again) {
		if (length_on_wire(skb, ETH_HLEN) > again->path.mtu || length > 0xffff)
			return TC_ACT_OK;
		ip->hop_limit--;
		return wrap(skb, ENCAPSULATED_IP6, *(__be32 *)ip, &again->path, flow.hash, again->link, again->mac, ENCAPSULATED);
	}
	if (set->past && longest(PAST, &flow.destination, &found))
		return TC_ACT_OK;
	if (!(longest_here(FAR, &flow.destination, &found) && found.way.whole && tell(&found.way, &path))) {
		route = find_path(&found, &flow, &path, &version);
		if (!route || path.kind == CARRIED)
			return TC_ACT_OK;
	}
	if (same(&flow.destination, &path.local) || length_on_wire(skb, ETH_HLEN) > path.mtu || length > 0xffff)
		return TC_ACT_OK;
	hop = route ? find_way(skb, set, &path, route, version) : find_whole(skb, set, &path, &found);
	ip = header(skb, ETH_HLEN, 0);
	if (!hop || !ip)
		return TC_ACT_OK;
	ip->hop_limit--;
	if (path.kind == HANDED) {
		write_ethernet((void *)ip - ETH_HLEN, hop->mac);
		count(HANDED_OVER);
		return bpf_redirect(hop->link, 0);
	}
	note(set, &flow, 0, &path, hop);
	return wrap(skb, ENCAPSULATED_IP6, *(__be32 *)ip, &path, flow.hash, hop->link, hop->mac, ENCAPSULATED);
}

static __always_inline int arrive(struct __sk_buff *skb, __u32 l2)
{
	struct settings *set = get_settings();
	struct ipv6hdr *ip;

	if (!set || skb->protocol != bpf_htons(ETH_P_IPV6) || skb->vlan_present || skb->pkt_type != PACKET_HOST)
		return TC_ACT_OK;
	if (pull(skb, SHALLOW))
		return TC_ACT_OK;
	ip = header(skb, l2, 0);
	if (!ip)
		return TC_ACT_OK;
	if (is_tunnelled(ip->nexthdr) || ip->nexthdr == DESTINATION_OPTIONS) {
		struct opened opened = {};
		int taken;

		if (pull(skb, DEEP))
			return TC_ACT_OK;
		if (l2) {
			taken = leave_again(skb, set);
			if (taken)
				return taken;
		}
		switch (open(skb, l2, &opened)) {
		case OURS:
			return opened.ip4 ? leave4(skb, l2, set, &opened) : leave(skb, l2, set, &opened);
		case DROP:
			return TC_ACT_SHOT;
		default:
			break;
		}
	}
	return l2 ? enter(skb, set) : TC_ACT_OK;
}

SEC("classifier") int ethernet(struct __sk_buff *skb) { return arrive(skb, ETH_HLEN); }
SEC("classifier") int bare(struct __sk_buff *skb) { return arrive(skb, 0); }

/* The interface towards the other end; 0 if there is no route. */
static __always_inline __u32 link_of(struct __sk_buff *skb, struct settings *set, const struct path *path)
{
	struct bpf_fib_lookup answer;
	long refused;

	if (path->link)
		return path->link;
	refused = ask(skb, set->device, &path->local, &path->remote, &answer);
	return !refused || refused == BPF_FIB_LKUP_RET_NO_NEIGH ? answer.ifindex : 0;
}

static __always_inline int refuse(__u32 why)
{
	count(why);
	return TC_ACT_SHOT;
}

/* Straight to a neighbour, as it is. The neighbour must be known: a packet that had to wait for neighbour discovery would
 * then follow the route that led it here. */
static __always_inline int hand_over(struct __sk_buff *skb, const struct path *path)
{
	struct bpf_redir_neigh next = { .nh_family = AF_INET6 };
	__be16 *type = begin(skb) + 2 * ETH_ALEN;

	if ((void *)(type + 1) > end(skb))
		return refuse(DROPPED_FORM);
	*type = skb->protocol;
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
static __always_inline int hand_up(struct __sk_buff *skb, const struct path *path, const struct inner *inner, __u32 as)
{
	__u32 length = skb->len;
	struct ipv6hdr *ip;

	if (grow(skb))
		return refuse(DROPPED_ROOM);
	ip = header(skb, 0, 0);
	if (!ip)
		return refuse(DROPPED_FORM);
	write_outer(ip, inner->protocol, inner->word, path, inner->flow.hash, length);
	count(as);
	return TC_ACT_OK;
}

/* Longer than the path takes. What any link carries may not be refused: it gets its outer header and goes up to the
 * daemon, which sends it in fragments; so does what has an outer header of ours already (RFC 2473 §7.2). */
static __always_inline int leave_long(struct __sk_buff *skb, const struct path *path, const struct inner *inner)
{
	if (is_tunnelled(inner->flow.protocol) && bpf_map_lookup_elem(&ends, &inner->flow.source)) {
		count(TO_BE_CUT);
		return TC_ACT_OK;
	}
	if (path->kind == HANDED || inner->on_wire > MIN_MTU)
		return refuse(DROPPED_TOO_BIG);
	return hand_up(skb, path, inner, TO_BE_CUT);
}

/* By IPv4: up to the daemon, with both ends before it. Routers between may cut it. */
static __always_inline int carry(struct __sk_buff *skb, const struct path *path, const struct inner *inner)
{
	if (inner->on_wire > path->mtu && inner->on_wire > MIN_MTU)
		return refuse(DROPPED_TOO_BIG);
	return hand_up(skb, path, inner, TO_BE_CARRIED);
}

/* Whether the packet may go into a tunnel; counts why not. */
static __always_inline int read_inner(struct __sk_buff *skb, struct inner *inner)
{
	struct ipv6hdr *ip;
	struct iphdr *ip4;
	int stays;

	if (skb->protocol == bpf_htons(ETH_P_IP)) {
		ip4 = header4(skb, 0);
		if (!ip4)
			return drop(DROPPED_FORM);
		read_flow4(skb, ip4, &inner->flow);
		inner->word = word_of(ip4);
		inner->protocol = ENCAPSULATED_IP4;
		stays = stays_on_link4(ip4->saddr) || stays_on_link4(ip4->daddr);
		inner->on_wire = length_on_wire4(skb, 0);
	} else {
		ip = header(skb, 0, 0);
		if (!ip || skb->protocol != bpf_htons(ETH_P_IPV6))
			return drop(DROPPED_FORM);
		read_flow(skb, ip, &inner->flow);
		inner->word = *(__be32 *)ip;
		inner->protocol = ENCAPSULATED_IP6;
		stays = stays_on_link(&inner->flow.source) || stays_on_link(&inner->flow.destination);
		inner->on_wire = length_on_wire(skb, 0);
	}
	return stays ? drop(DROPPED_SCOPE) : OURS;
}

/* The device has no link-layer header, but what leads to a neighbour must have room for one. */
static __always_inline long make_room(struct __sk_buff *skb)
{
	return bpf_skb_change_head(skb, ETH_HLEN, 0);
}

/* Sent out of the tunnel device: hop limit and length have been dealt with by the kernel. */
SEC("classifier") int device(struct __sk_buff *skb)
{
	struct settings *set = get_settings();
	__u32 length = skb->len, link, version;
	int is_own_flow = !skb->ingress_ifindex;
	struct inner inner = {};
	struct passage *again;
	struct tunnel *tunnel;
	struct route *route;
	struct ipv6hdr *ip;
	struct path path;
	struct hop *hop;

	if (!set || pull(skb, SHALLOW))
		return refuse(DROPPED_FORM);
	if (read_inner(skb, &inner) != OURS)
		return TC_ACT_SHOT;
	if (length > 0xffff)
		return refuse(DROPPED_TOO_BIG);
	again = is_own_flow ? noted(set, &inner.flow, 1) : 0;
	if (again && inner.on_wire <= again->path.mtu) {
		if (make_room(skb))
			return refuse(DROPPED_FORM);
		return wrap(skb, inner.protocol, inner.word, &again->path, inner.flow.hash, again->link, again->mac,
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
		return carry(skb, &path, &inner);
	if (inner.on_wire > path.mtu && (!skb->gso_size || inner.on_wire <= MIN_MTU))
		return leave_long(skb, &path, &inner);
	if (is_own_flow && path.kind == WRAPPED) {
		hop = find_way(skb, set, &path, route, version);
		if (hop)
			note(set, &inner.flow, 1, &path, hop);
	}
	if (make_room(skb))
		return refuse(DROPPED_FORM);
	if (path.kind == HANDED)
		return hand_over(skb, &path);
	link = link_of(skb, set, &path);
	if (!link)
		return refuse(DROPPED_NO_ROUTE);
	if (grow(skb))
		return refuse(DROPPED_ROOM);
	ip = header(skb, ETH_HLEN, 0);
	if (!ip)
		return refuse(DROPPED_FORM);
	((__be16 *)ip)[-1] = bpf_htons(ETH_P_IPV6);
	write_outer(ip, inner.protocol, inner.word, &path, inner.flow.hash, length);
	count(ENCAPSULATED_SLOW);
	/* An outer destination behind the tunnel device: the other end is itself in a mobile network. */
	return link == set->device ? bpf_redirect(link, 0) : bpf_redirect_neigh(link, 0, 0, 0);
}

char _license[] SEC("license") = "Dual MIT/GPL";
