/* The TC programs of the tunnels. `ethernet` and `bare` run on the ingress of interfaces with and without Ethernet headers:
 * the fast path, which does what needs no error message and leaves all else unchanged to the kernel. The kernel's routes
 * lead the rest, and what this host itself sends, into the tunnel device, on the egress of which `device` encapsulates it:
 * the slow path. What `device` lets pass is read by the daemon, which sends it in fragments. */
#include "encap.h"
#include "decap.h"
#include "decap_ip4.h"
#include "decap_outer.h"
#include "encap_limit.h"
#include "replication.h"

/* All outer headers addressed to this host: a home agent of nested mobile routers finds one in another. */
static __always_inline enum verdict parse_all_outer(packet *p, __u32 l2, struct parsed_outer *parsed)
{
	enum verdict verdict = NOT_OURS;

	for (int i = 0; i < LAYERS; i++) {
		parsed->length = forget_value(p, parsed->length, LAYERS * (IP6 + 8));
		verdict = parse_outer(p, l2 + parsed->length, parsed);
		if (verdict != OURS || parsed->is_ip4)
			break;
	}
	parsed->length = forget_value(p, parsed->length, LAYERS * (IP6 + 8));
	return verdict == NOT_OURS && parsed->length ? OURS : verdict;
}

/* Decapsulation. Without a cached next hop the tunnel device receives the inner packet and the kernel routes it: its
 * destination may be this host, and packet sockets on the device (signalling, tcpdump) see it there. */
static __always_inline int decap(packet *p, __u32 l2, struct settings *set, struct parsed_outer *parsed, __u32 stat)
{
	int handled = l2 ? decap_forward(p, l2, set, parsed, stat) : 0;

	if (handled)
		return handled;
	if (remove_outer(p, parsed->length)) {
		count(COUNT_DROPPED_ROOM);
		return TC_ACT_SHOT;
	}
	return receive_inner(set);
}

/* A packet without a cached decision. */
static __always_inline int decap_uncached(packet *p, __u32 l2, struct settings *set)
{
	struct scratch *scratch = get_scratch();
	struct parsed_outer parsed = {};

	if (!scratch)
		return TC_ACT_OK;
	switch (parse_all_outer(p, l2, &parsed)) {
	case OURS:
		note_inner(p, scratch->stat, l2 + parsed.length, ip6_header(p, l2 + parsed.length, 0));
		return parsed.is_ip4 ? decap4(p, l2, set, &parsed) : decap(p, l2, set, &parsed, scratch->stat);
	case DROP:
		return TC_ACT_SHOT;
	default:
		return may_have_own_outer(p, l2) ? TC_ACT_OK : NOT_HANDLED;
	}
}

/* A packet whose outermost header is that of a tunnel. One that may have a header of this host further inside is left to the
 * kernel. */
static __noinline int decap_received(packet *p, __u32 l2, struct settings *set)
{
	int handled;

	if (pull(p, TUNNELLED_HEADERS))
		return TC_ACT_OK;
	handled = l2 ? decap_cached(p, set) : 0;
	return handled ? handled : decap_uncached(p, l2, set);
}

/* Of IPv4 packets TCP, and ICMP, which no tunnel over IPv4 has as its protocol. */
static __always_inline int may_be_relayed4(packet *p, __u32 l2)
{
	struct iphdr *ip;

	if (pull(p, l2 + IP4))
		return 0;
	ip = ip4_header(p, l2);
	return ip && (ip->protocol == TCP || ip->protocol == ICMP4);
}

/* Where a firewall filters forwarded packets nothing is redirected: a tunnelled packet loses its outer header and is
 * received by the tunnel device, all else passes unchanged, and the kernel forwards both through the firewall. */
static __always_inline int ingress(packet *p, __u32 l2)
{
	struct settings *set = get_settings();
	int verdict = NOT_HANDLED;
	struct ipv6hdr *ip;

	if (!set || p->vlan_present || p->pkt_type != PACKET_HOST)
		return TC_ACT_OK;
	if (p->protocol == bpf_htons(ETH_P_IP))
		return is_bonding(set) && may_be_relayed4(p, l2) ? relay_received(p, l2, set) : ingress4(p, l2, set);
	if (p->protocol != bpf_htons(ETH_P_IPV6) || pull(p, PLAIN_HEADERS))
		return TC_ACT_OK;
	ip = ip6_header(p, l2, 0);
	if (!ip)
		return TC_ACT_OK;
	if (is_tunnelled(ip->nexthdr) || ip->nexthdr == DESTINATION_OPTIONS)
		verdict = decap_received(p, l2, set);
	else if (tunnel_ports(p, l2))
		verdict = ingress_udp6(p, l2, set);
	if (verdict != NOT_HANDLED)
		return verdict;
	if (l2 && !(set->firewalled & FIREWALLED_IP6))
		return encap(p, set);
	return is_bonding(set) ? relay_received(p, l2, set) : TC_ACT_OK;
}

SEC("classifier") int ethernet(packet *p) { return ingress(p, ETH_HLEN); }
SEC("classifier") int bare(packet *p) { return ingress(p, 0); }

/* The interface towards the remote endpoint; 0 if there is no route. */
static __always_inline __u32 link_of(packet *p, struct settings *set, const struct path *path)
{
	struct scratch *scratch = get_scratch();
	long failed;

	if (path->link || !scratch)
		return path->link;
	failed = fib_lookup_path(p, set, path, &scratch->fib);
	return !failed || failed == BPF_FIB_LKUP_RET_NO_NEIGH ? scratch->fib.ifindex : 0;
}

static __always_inline int drop_packet(__u32 reason)
{
	count(reason);
	return TC_ACT_SHOT;
}

/* Sends a packet to a neighbour as it is. The neighbour must be known: a packet that had to wait for neighbour discovery
 * would then follow the route that led it here. */
static __always_inline int send_direct(packet *p, const struct path *path)
{
	struct bpf_redir_neigh next = { .nh_family = AF_INET6 };
	__be16 *type = packet_begin(p) + 2 * ETH_ALEN;

	if ((void *)(type + 1) > packet_end(p))
		return drop_packet(COUNT_DROPPED_FORM);
	*type = p->protocol;
	*(struct addr *)next.ipv6_nh = path->remote;
	count(COUNT_HANDED_OVER);
	return bpf_redirect_neigh(path->link, &next, sizeof(next), 0);
}

/* What tells the daemon that it has to add UDP over IPv6: this hop limit, and a flow label with the remote port, and with
 * this bit if it has to fragment the packet too. linux/src/tunnel/udp6_encap.rs has the same. */
#define WITHOUT_UDP (HOP_LIMIT - 1)
#define TO_BE_FRAGMENTED (1 << 16)

/* A packet to be encapsulated. */
struct inner {
	struct flow flow;
	__u32 wire_length;
	__be32 word;    /* the first of its header; for IPv4, that of the equivalent IPv6 header */
	__u8 protocol;  /* as the next header of the outer header */
};

/* The flow label tells the daemon the interface of a path over IPv4, as two may have equal endpoints (0: it has none), and the
 * remote port of UDP over IPv6. */
static __always_inline __u32 label_of(const struct path *path, const struct inner *inner, int is_fragmented)
{
	if (path->kind == PATH_UDP6)
		return (bpf_ntohl(path->ports) & 0xffff) | (is_fragmented ? TO_BE_FRAGMENTED : 0);
	if (!is_over_ip4(path))
		return inner->flow.hash;
	return path->link > 0xfffff ? 0 : path->link;
}

/* Adds the outer header and passes the packet to the daemon, which adds UDP. */
static __always_inline int pass_to_daemon(packet *p, const struct path *path, const struct inner *inner, __u32 counter)
{
	__u32 length = p->len;
	struct ipv6hdr *ip;

	if (add_outer_room(p, IP6))
		return drop_packet(COUNT_DROPPED_ROOM);
	ip = ip6_header(p, 0, 0);
	if (!ip)
		return drop_packet(COUNT_DROPPED_FORM);
	write_outer(ip, inner->protocol, inner->word, path, label_of(path, inner, counter == COUNT_FRAGMENTED), length);
	if (path->kind == PATH_UDP6)
		ip->hop_limit = WITHOUT_UDP;
	count(counter);
	return TC_ACT_OK;
}

/* A packet longer than the path MTU. One that any link carries may not be refused: it gets its outer header and goes to the
 * daemon, which fragments it; so does a packet that has an outer header of this host already (RFC 2473 §7.2). Fragments of
 * this host are short enough to be encapsulated up to the limit, and are never fragmented again. */
static __always_inline int send_fragmented(packet *p, const struct path *path, const struct inner *inner, __u32 nested)
{
	if (nested & FRAGMENTED)
		return drop_packet(COUNT_DROPPED_NESTED);
	if (has_outer(&inner->flow) && bpf_map_lookup_elem(&ends, &inner->flow.source)) {
		count(COUNT_FRAGMENTED);
		return TC_ACT_OK;
	}
	if (path->kind == PATH_DIRECT || inner->wire_length > MIN_MTU)
		return drop_packet(COUNT_DROPPED_TOO_BIG);
	return pass_to_daemon(p, path, inner, COUNT_FRAGMENTED);
}

/* Parses a packet to be encapsulated, or decrypted, behind a link-layer header of `l2` octets; counts the reason if it must be
 * dropped. */
static __always_inline int read_inner(packet *p, __u32 l2, struct inner *inner)
{
	struct ipv6hdr *ip;
	struct iphdr *ip4;
	int link_scope;

	if (p->protocol == bpf_htons(ETH_P_IP)) {
		ip4 = ip4_header(p, l2);
		if (!ip4)
			return drop(COUNT_DROPPED_FORM);
		parse_flow4(p, ip4, &inner->flow);
		inner->word = ip6_word_of(ip4);
		inner->protocol = ENCAPSULATED_IP4;
		link_scope = is_link_scope4(ip4->saddr) || is_link_scope4(ip4->daddr);
		inner->wire_length = wire_length4(p, l2);
	} else {
		ip = ip6_header(p, l2, 0);
		if (!ip || p->protocol != bpf_htons(ETH_P_IPV6))
			return drop(COUNT_DROPPED_FORM);
		parse_flow(p, ip, &inner->flow);
		inner->word = *(__be32 *)ip;
		inner->protocol = ENCAPSULATED_IP6;
		link_scope = is_link_scope(&inner->flow.source) || is_link_scope(&inner->flow.destination);
		inner->wire_length = wire_length(p, l2);
	}
	inner->flow.ingress = p->ingress_ifindex;
	return link_scope ? drop(COUNT_DROPPED_SCOPE) : OURS;
}

/* The device has no link-layer header, but a packet to a neighbour must have room for one. */
static __always_inline long add_ethernet_room(packet *p)
{
	return bpf_skb_change_head(p, ETH_HLEN, 0);
}

/* Sends an outer packet; behind the tunnel device, if the remote endpoint is itself in a mobile network. */
static __always_inline int redirect_outer(const struct settings *set, __u32 link)
{
	return link == set->device ? bpf_redirect(link, 0) : bpf_redirect_neigh(link, 0, 0, 0);
}

/* Adds outer headers with IPv4 or UDP and redirects the packet, to these link-layer addresses or to the kernel's neighbour. The daemon
 * sends a packet that cannot be encapsulated, by the endpoints in the outer header. */
static __always_inline int emit_ip4_or_udp(packet *p, const struct settings *set, const struct path *path,
					   const struct inner *inner, __u32 link, const __u8 *mac)
{
	long failed = encapsulate_ip4_or_udp(p, 0, path, inner->protocol, inner->word, inner->flow.hash);
	__u16 type = is_over_ip4(path) ? ETH_P_IP : ETH_P_IPV6;
	__be16 *frame;

	if (failed < 0)
		return pass_to_daemon(p, path, inner, COUNT_CARRIED);
	if (failed || add_ethernet_room(p))
		return drop_packet(COUNT_DROPPED_ROOM);
	frame = packet_begin(p);
	if ((void *)frame + ETH_HLEN > packet_end(p))
		return drop_packet(COUNT_DROPPED_FORM);
	count(COUNT_ENCAPSULATED_SLOW);
	if (mac) {
		write_ethernet(frame, mac, type);
		return bpf_redirect(link, 0);
	}
	frame[ETH_ALEN] = bpf_htons(type);
	return redirect_outer(set, link);
}

/* Encapsulates a packet like the last one of its flow, and redirects it. */
static __always_inline int send_cached(packet *p, const struct settings *set, const struct inner *inner,
				       const struct flow_entry *cached)
{
	if (has_ip4_or_udp(&cached->path))
		return emit_ip4_or_udp(p, set, &cached->path, inner, cached->link, cached->mac);
	if (add_ethernet_room(p))
		return drop_packet(COUNT_DROPPED_FORM);
	return encap_cached(p, inner->protocol, inner->word, inner->flow.hash, cached, COUNT_ENCAPSULATED_SLOW);
}

/* Whether an outer packet passes the link as it is. */
static __always_inline int passes_link(packet *p, __u32 link, __u32 length)
{
	__u32 mtu = 0;

	return bpf_check_mtu(p, link, &mtu, 0, 0) >= 0 && length <= mtu;
}

/* Adds the outer headers of the path in working memory, and sends the packet by this interface. */
static __noinline int send_by_path(packet *p, const struct settings *set, const struct inner *inner, __u32 link)
{
	struct scratch *scratch = get_scratch();
	__u32 length = p->len;
	struct ipv6hdr *ip;
	struct path *path;

	if (!scratch)
		return TC_ACT_SHOT;
	path = &scratch->path;
	if (has_ip4_or_udp(path))
		return emit_ip4_or_udp(p, set, path, inner, link, 0);
	if (add_ethernet_room(p))
		return drop_packet(COUNT_DROPPED_FORM);
	if (path->kind == PATH_DIRECT)
		return send_direct(p, path);
	note_sent(p, path->stat, length);
	if (add_outer_room(p, IP6))
		return drop_packet(COUNT_DROPPED_ROOM);
	ip = ip6_header(p, ETH_HLEN, 0);
	if (!ip)
		return drop_packet(COUNT_DROPPED_FORM);
	((__be16 *)ip)[-1] = bpf_htons(ETH_P_IPV6);
	write_outer(ip, inner->protocol, inner->word, path, inner->flow.hash, length);
	count(COUNT_ENCAPSULATED_SLOW);
	return redirect_outer(set, link);
}

/* Sends one copy of a replicated packet by the path in working memory, with the number. */
static __noinline int send_member(packet *p, struct settings *set, struct inner *inner)
{
	struct scratch *scratch = get_scratch();
	__u32 link;

	if (!scratch)
		return TC_ACT_SHOT;
	link = link_of(p, set, &scratch->path);
	if (!link)
		return drop_packet(COUNT_DROPPED_NO_ROUTE);
	if (add_sequence_header(p, inner->protocol, scratch->member.sequence))
		return drop_packet(COUNT_DROPPED_ROOM);
	inner->protocol = DESTINATION_OPTIONS;
	return send_by_path(p, set, inner, link);
}

/* The slow path over IPv4. Routers on the path may fragment the packet; so does the kernel what the daemon sends. */
static __always_inline int send_over_ip4(packet *p, struct settings *set, const struct path *path,
					 const struct inner *inner, const struct next_hop *hop)
{
	__u32 link;

	if (inner->wire_length > path->mtu && inner->wire_length > MIN_MTU)
		return drop_packet(COUNT_DROPPED_TOO_BIG);
	link = hop ? hop->link : link_of(p, set, path);
	if (!link || link == set->device || !passes_link(p, link, inner->wire_length + outer_length_of(path)))
		return pass_to_daemon(p, path, inner, COUNT_CARRIED);
	return send_by_path(p, set, inner, link);
}

/* Hands a packet to the device that encrypts it. Longer ones than its MTU are those that any link carries, of which it has the
 * outer packets fragmented. */
__noinline int send_encrypted(packet *p, const struct path *path, __u32 wire_length)
{
	if (!path)
		return TC_ACT_SHOT;
	if (wire_length > path->mtu && wire_length > MIN_MTU)
		return drop_packet(COUNT_DROPPED_TOO_BIG);
	note_sent(p, path->stat, p->len);
	count(COUNT_ENCAPSULATED_SLOW);
	return bpf_redirect(path->link, 0);
}

/* A decapsulated buffer of several IPv4 segments: the kernel accepts no second outer header for it (see `add_outer_room`).
 * On its way to the daemon the kernel makes a packet of each segment, and the daemon writes them back to the device. */
static __always_inline int is_to_be_segmented(packet *p, const struct settings *set)
{
	return p->gso_size && p->protocol == bpf_htons(ETH_P_IP) && p->ingress_ifindex == set->device;
}

/* The slow path. The kernel has dealt with hop limit and length. */
SEC("classifier") int device(packet *p)
{
	struct settings *set = get_settings();
	__u32 length = p->len, link, version, nested = 0;
	__u32 ingress = p->ingress_ifindex ? p->ingress_ifindex | FORWARDED : 0;
	struct inner inner = {};
	struct flow_entry *cached;
	struct tunnel *tunnel;
	struct path_route *route;
	struct scratch *scratch;
	struct path *path;
	struct next_hop *hop;

	if (!set || pull(p, PLAIN_HEADERS))
		return drop_packet(COUNT_DROPPED_FORM);
	if (read_inner(p, 0, &inner) != OURS)
		return TC_ACT_SHOT;
	if (length > 0xffff)
		return drop_packet(COUNT_DROPPED_TOO_BIG);
	/* An ICMP error of this host itself, as when the destination of a relayed connection has no link-layer address: the
	 * tunnel device receives it, and so does the relay. */
	if (is_bonding(set) && !p->ingress_ifindex && inner.flow.protocol != TCP && inner.flow.protocol != UDP &&
	    relay_packet(p, 0, set, &inner.flow) == TC_ACT_OK)
		return bpf_redirect(set->device, BPF_F_INGRESS);
	if (inner.protocol == ENCAPSULATED_IP6 && may_have_outer(&inner.flow)) {
		if (pull(p, NESTED_ROOM))
			return drop_packet(COUNT_DROPPED_FORM);
		nested = count_own_outer(p);
		if ((nested & ~FRAGMENTED) >= ENCAPSULATION_LIMIT)
			return drop_packet(COUNT_DROPPED_NESTED);
	}
	if (is_to_be_segmented(p, set)) {
		count(COUNT_SEGMENTED);
		return TC_ACT_OK;
	}
	if (is_clone(p))
		return send_member(p, set, &inner);
	cached = flow_lookup(set, &inner.flow, ingress);
	if (cached && inner.wire_length <= cached->path.mtu)
		return cached->path.kind == PATH_ENCRYPTED ? send_encrypted(p, &cached->path, inner.wire_length) :
							     send_cached(p, set, &inner, cached);
	scratch = get_scratch();
	if (!scratch)
		return TC_ACT_SHOT;
	path = &scratch->path;
	tunnel = find_tunnel(&inner.flow.source, &inner.flow.destination);
	if (!tunnel)
		return drop_packet(COUNT_DROPPED_NO_TUNNEL);
	version = tunnel->version;
	route = select_path(tunnel, &inner.flow, path, &scratch->members);
	if (!route)
		return drop_packet(COUNT_DROPPED_NO_PATH);
	if (path->kind == PATH_ENCRYPTED) {
		flow_store_encrypted(set, &inner.flow, ingress, path);
		return send_encrypted(p, path, inner.wire_length);
	}
	if (scratch->members && replicate(p, set, tunnel, inner.wire_length))
		return send_member(p, set, &inner);
	hop = path->kind == PATH_DIRECT ? 0 : nh_of_path(p, set, path, route, version);
	if (hop && fits_link(path, hop) && !scratch->members)
		flow_store(set, &inner.flow, ingress, path, hop);
	if (is_over_ip4(path))
		return send_over_ip4(p, set, path, &inner, hop);
	if (inner.wire_length > path->mtu && (!p->gso_size || inner.wire_length <= MIN_MTU))
		return send_fragmented(p, path, &inner, nested);
	link = path->kind == PATH_DIRECT ? path->link : link_of(p, set, path);
	if (!link)
		return drop_packet(COUNT_DROPPED_NO_ROUTE);
	return send_by_path(p, set, &inner, link);
}

/* Which path of the tunnel goes by this device, its index plus 1; else 0. */
static __always_inline __u32 path_by_device(const struct tunnel *tunnel, __u32 link)
{
	for (__u32 i = 0; i < PATHS; i++)
		if (i < tunnel->paths && tunnel->path_slot[i].path.kind == PATH_ENCRYPTED && tunnel->path_slot[i].path.link == link)
			return i + 1;
	return 0;
}

/* Whether the network header is at this offset. All of its octets count, since a peer has chosen them. */
static __always_inline int has_network_header(packet *p, __u32 at)
{
	__u32 network[IP6 / 4] = {}, here[IP6 / 4] = {};
	__u32 length = p->protocol == bpf_htons(ETH_P_IP) ? sizeof(struct iphdr) : sizeof(struct ipv6hdr);

	if (bpf_skb_load_bytes_relative(p, 0, network, length, BPF_HDR_START_NET) || bpf_skb_load_bytes(p, at, here, length))
		return 0;
	for (__u32 i = 0; i < IP6 / 4; i++)
		if (network[i] != here[i])
			return 0;
	return 1;
}

/* What stands for the outer header of packets that a device has decrypted, in cached decisions: its interface index for the ports, and
 * no addresses. The epoch is that of outer IPv4 headers, of which none has these addresses. */
static __always_inline int accepts_decrypted(packet *p, const struct next_hop *hop, const struct settings *set,
					     const struct nh_key *key)
{
	const struct addr none ALIGN_HALF = {};

	return accepts_outer(hop, set, key, ~set->epoch, &none, &none, p->ingress_ifindex);
}

static __always_inline void note_decrypted(packet *p, struct next_hop *hop, const struct settings *set, __u32 stat)
{
	const struct addr none ALIGN_HALF = {};

	note_outer(hop, ~set->epoch, &none, &none, p->ingress_ifindex, stat);
}

/* Forwards a decrypted packet to its next hop. Null: the tunnel device receives it, as it does whatever needs the kernel. */
static __always_inline int forward_decrypted(packet *p, __u32 l2, const struct settings *set, struct next_hop *hop)
{
	struct ipv6hdr *ip = ip6_header(p, l2, 0);

	if (!hop || hop->link == set->device || !ip || !can_forward(hop, p, set, l2, ip))
		return receive_inner(set);
	ip->hop_limit--;
	if (!l2 && add_ethernet_room(p))
		return drop_packet(COUNT_DROPPED_ROOM);
	return redirect_inner(p, set, hop);
}

/* The path by which a decrypted packet has come; null if it may not come by this device. */
static __always_inline struct path *path_of_decrypted(packet *p, const struct flow *flow)
{
	struct tunnel *tunnel = find_tunnel(&flow->destination, &flow->source);
	__u32 which = tunnel ? path_by_device(tunnel, p->ingress_ifindex) - 1 : PATHS;
	struct path *path;

	if (which >= PATHS)
		return 0;
	path = &tunnel->path_slot[path_number(which)].path;
	return may_come_by(path, flow) ? path : 0;
}

/* On the ingress of a device that has decrypted the packet, and knows by its key whose it is: as with others of a tunnel, the
 * inner addresses must be those of the tunnel that this device is of (RFC 3963 §6.5, §9). */
SEC("classifier") int decrypted(packet *p)
{
	struct settings *set = get_settings();
	struct inner inner = {};
	struct nh_key key = {};
	struct next_hop *hop;
	struct path *path;
	__u32 l2;

	if (!set || pull(p, PLAIN_HEADERS))
		return drop_packet(COUNT_DROPPED_FORM);
	/* Before what ESP has decrypted is the link-layer header of the outer packet still. */
	l2 = has_network_header(p, 0) ? 0 : ETH_HLEN;
	if (l2 && !has_network_header(p, ETH_HLEN))
		return drop_packet(COUNT_DROPPED_FORM);
	if (read_inner(p, l2, &inner) != OURS)
		return TC_ACT_SHOT;
	key.source = inner.flow.source;
	key.destination = inner.flow.destination;
	hop = inner.protocol == ENCAPSULATED_IP6 ? nh_entry(set, &key) : 0;
	if (accepts_decrypted(p, hop, set, &key)) {
		note_inner(p, hop->outer_stat, l2, ip6_header(p, l2, 0));
		return forward_decrypted(p, l2, set, hop);
	}
	path = path_of_decrypted(p, &inner.flow);
	if (!path)
		return drop_packet(COUNT_DROPPED_SOURCE);
	if (inner.protocol != ENCAPSULATED_IP6) {
		note_received(p, path->stat, packet_length(p) - l2);
		return receive_inner(set);
	}
	note_inner(p, path->stat, l2, ip6_header(p, l2, 0));
	hop = nh_lookup(p, set, &key);
	/* Whether packets of a subflow may come depends on more than their addresses. */
	if (hop && !subflow_of(&inner.flow))
		note_decrypted(p, hop, set, path->stat);
	return forward_decrypted(p, l2, set, hop);
}

char _license[] SEC("license") = "Dual MIT/GPL";
