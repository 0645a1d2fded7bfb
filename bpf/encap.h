/* Encapsulation on the fast path. What it does not handle is left to the slow path. */
#pragma once
#include "flow_cache.h"
#include "next_hop.h"
#include "outer_header.h"
#include "outer_udp6.h"
#include "path_select.h"
#include "path_stamps.h"
#include "relay.h"

/* Adds the outer header to a packet that has room for an Ethernet header. `inner` is the protocol of the inner packet, `word`
 * the first of its header. Returns the Ethernet header; null: the packet must be dropped. */
static __always_inline void *encapsulate(packet *p, __u8 inner, __be32 word, const struct path *path, __u32 hash,
					 __u32 counter)
{
	__u32 length = packet_length(p) - ETH_HLEN;
	struct ipv6hdr *ip;

	note_sent(p, path->stat, length);
	if (add_outer_room(p, IP6)) {
		count(COUNT_DROPPED_ROOM);
		return 0;
	}
	ip = ip6_header(p, ETH_HLEN, 0);
	if (!ip)
		return 0;
	write_outer(ip, inner, word, path, hash, length);
	count(counter);
	return (void *)ip - ETH_HLEN;
}

/* Encapsulates a packet like the last one of its flow, and redirects it. */
static __always_inline int encap_cached(packet *p, __u8 inner, __be32 word, __u32 hash, const struct flow_entry *cached,
					__u32 counter)
{
	void *frame = encapsulate(p, inner, word, &cached->path, hash, counter);

	if (!frame)
		return ACT_DROP;
	write_ethernet(frame, cached->mac, ETH_P_IPV6);
	return bpf_redirect(cached->link, 0);
}

/* Encapsulates an IPv6 packet that is to be forwarded, and redirects it by the cached flow or to the next hop. The slow path
 * sees the packet unchanged. */
static __noinline int encap_ip4_or_udp(packet *p, const struct path *path, const struct flow_entry *cached,
				       struct next_hop *hop, __u32 hash)
{
	struct ipv6hdr *ip = ip6_header(p, ETH_HLEN, 0);
	__u16 type = is_over_ip4(path) ? ETH_P_IP : ETH_P_IPV6;
	void *frame;
	long failed = ip ? encapsulate_ip4_or_udp(p, ETH_HLEN, path, ENCAPSULATED_IP6, *(__be32 *)ip, hash) : -1;

	if (failed)
		return failed > 0 ? ACT_DROP : ACT_PASS;
	frame = packet_begin(p);
	ip = frame + ETH_HLEN + outer_length_of(path);
	if ((void *)(ip + 1) > packet_end(p))
		return ACT_DROP;
	ip->hop_limit--;
	count(COUNT_ENCAP);
	if (!cached)
		return redirect_to(hop, frame, type);
	write_ethernet(frame, cached->mac, type);
	return bpf_redirect(cached->link, 0);
}

/* Whether outer packets of the path's longest inner packet pass the link. Over IPv4 the kernel fragments longer ones. */
static __always_inline int fits_link(const struct path *path, const struct next_hop *hop)
{
	return !is_over_ip4(path) || path->mtu + outer_length_of(path) <= hop->mtu;
}

/* Hands an IPv6 packet that is to be forwarded to the device that encrypts it. */
static __always_inline int encap_encrypted(packet *p, struct ipv6hdr *ip, const struct path *path, __u32 length)
{
	if (!HAS_SKB)
		return ACT_PASS;
	note_sent(p, path->stat, length);
	ip->hop_limit--;
	count(COUNT_ENCAP);
	return bpf_redirect(path->link, 0);
}

/* Link scope, neighbour discovery for proxied addresses, and an expired hop limit are left to the kernel. */
static __always_inline int needs_slow_path(const struct ipv6hdr *ip, const struct flow *flow)
{
	if (is_link_scope(&flow->source) || is_link_scope(&flow->destination) || ip->hop_limit <= 1)
		return 1;
	return flow->protocol == ICMP6 && flow->icmp_type >= 133 && flow->icmp_type <= 137;
}

static __always_inline int read_inline_path(const struct prefix_entry *entry, struct path *path)
{
	__u32 index = entry->local_index;
	struct addr *local = bpf_map_lookup_elem(&locals, &index);

	if (!local)
		return 0;
	*path = (struct path){
		.local = *local, .remote = entry->remote, .mtu = entry->mtu, .kind = entry->has_inline_path - 1
	};
	return 1;
}

/* The path of a flow whose prefix entry has no inline path, and its route. Null: the packet takes the slow path, as all do
 * that are to be replicated. */
static __always_inline struct path_route *find_path(packet *p, const struct settings *set, struct scratch *scratch,
						    const struct flow *flow, struct path *path, __u32 *version)
{
	struct prefix_match *match = &scratch->match;
	struct path_route *route;
	struct tunnel *tunnel = find_tunnel_by(match, &flow->source, &flow->destination);

	if (!tunnel)
		return 0;
	if (!(tunnel->flags & ALL_ADDRESSES << NEAR) &&
	    (is_on_side(tunnel, NEAR, &flow->destination, match) || is_own_address(&flow->source) ||
	     !is_routed_into_tunnel(p, set, flow)))
		return 0;
	*version = tunnel->version;
	route = select_path(tunnel, flow, path, &scratch->members);
	return scratch->members ? 0 : route;
}

static __noinline int encap(packet *p, struct settings *set)
{
	__u32 length = packet_length(p) - ETH_HLEN, version = 0;
	struct prefix_match *match;
	struct flow_entry *cached;
	struct path_route *route = 0;
	struct scratch *scratch;
	struct ipv6hdr *ip;
	struct flow flow;
	struct path *path;
	struct next_hop *hop;
	int begins, verdict;
	void *frame;

	ip = ip6_header(p, ETH_HLEN, 0);
	if (!ip)
		return ACT_PASS;
	parse_flow(p, ip, &flow);
	flow.ingress = ingress_ifindex(p);
	if (needs_slow_path(ip, &flow) || !has_stated_length(p, ETH_HLEN, ip))
		return ACT_PASS;
	begins = is_bonding(set) && is_syn(p, ETH_HLEN + IP6, &flow);
	cached = begins ? 0 : flow_lookup(set, &flow, ingress_ifindex(p));
	if (cached) {
		if (wire_length(p, ETH_HLEN) > cached->path.mtu || length > 0xffff || !can_transmit(cached->link))
			return ACT_PASS;
		if (cached->path.kind == PATH_ENCRYPTED)
			return encap_encrypted(p, ip, &cached->path, length);
		if (has_ip4_or_udp(&cached->path))
			return encap_ip4_or_udp(p, &cached->path, cached, 0, flow.hash);
		ip->hop_limit--;
		return encap_cached(p, ENCAPSULATED_IP6, *(__be32 *)ip, flow.hash, cached, COUNT_ENCAP);
	}
	if (is_bonding(set) && (flow.protocol == TCP || flow.protocol == ICMP6)) {
		verdict = relay_packet(p, ETH_HLEN, set, &flow);
		if (verdict != NOT_RELAYED)
			return verdict;
	}
	scratch = get_scratch();
	if (!scratch)
		return ACT_PASS;
	match = &scratch->match;
	path = &scratch->path;
	if (set->has_bypass && match_prefix(BYPASS, &flow.destination, match))
		return ACT_PASS;
	if (!(match_prefix_inline(FAR, &flow.destination, match, 1) && match->entry.has_inline_path &&
	      read_inline_path(&match->entry, path))) {
		route = find_path(p, set, scratch, &flow, path, &version);
		if (!route)
			return ACT_PASS;
	}
	if (addr_equal(&flow.destination, &path->local) || wire_length(p, ETH_HLEN) > path->mtu || length > 0xffff)
		return ACT_PASS;
	if (path->kind == PATH_ENCRYPTED) {
		ip = ip6_header(p, ETH_HLEN, 0);
		flow_store_encrypted(set, &flow, ingress_ifindex(p), path);
		return ip ? encap_encrypted(p, ip, path, length) : ACT_PASS;
	}
	hop = route ? nh_of_path(p, set, path, route, version) : nh_of_inline_path(p, set, path, match);
	ip = ip6_header(p, ETH_HLEN, 0);
	if (!hop || !ip || !can_transmit(hop->link) || !fits_link(path, hop))
		return ACT_PASS;
	if (path->kind != PATH_DIRECT)
		flow_store(set, &flow, ingress_ifindex(p), path, hop);
	if (has_ip4_or_udp(path))
		return encap_ip4_or_udp(p, path, 0, hop, flow.hash);
	ip->hop_limit--;
	if (path->kind == PATH_DIRECT) {
		count(COUNT_HANDED_OVER);
		return redirect_to(hop, (void *)ip - ETH_HLEN, ETH_P_IPV6);
	}
	frame = encapsulate(p, ENCAPSULATED_IP6, *(__be32 *)ip, path, flow.hash, COUNT_ENCAP);
	return frame ? redirect_to(hop, frame, ETH_P_IPV6) : ACT_DROP;
}
