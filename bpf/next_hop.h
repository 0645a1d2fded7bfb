/* The next hop cache. A lookup in the routing tables for every packet would cost as much as all the rest. Decapsulated
 * packets are cached by their addresses; encapsulated ones by the gateway of their path, so that a hundred thousand paths
 * share the few neighbours there are. An entry lives briefly, and when it expires the kernel sends one packet by its own
 * neighbour entry, which thus stays in use and is probed (NUD). */
#pragma once
#include "outer_header.h"
#include "tunnel_lookup.h"

/* The route of a path is refreshed every 2^6 lifetimes (16 s), in case no change of routes is announced. */
#define ROUTE_LIFETIMES_SHIFT 6
#define MIN_MTU 1280

/* Looks up the route of a packet that arrived by an interface. Returns the result of bpf_fib_lookup; the MTU is in
 * `mtu_result`. The lookup is always that of a received packet: for a packet of this host, rules with a source prefix
 * would make the kernel select the source address, but that of an outer header is given. */
static __always_inline long fib_lookup(packet *p, __u32 ingress, const struct addr *source, const struct addr *destination,
				       struct bpf_fib_lookup *result)
{
	__builtin_memset(result, 0, sizeof(*result));
	result->family = AF_INET6;
	result->tot_len = 1;
	result->ifindex = ingress;
	*(struct addr *)result->ipv6_src = *source;
	*(struct addr *)result->ipv6_dst = *destination;
	return bpf_fib_lookup(p, result, sizeof(*result), 0);
}

static __always_inline int is_over_ip4(const struct path *path)
{
	return path->kind == PATH_IP4 || path->kind == PATH_UDP4;
}

static __always_inline int has_ip4_or_udp(const struct path *path)
{
	return path->kind >= PATH_IP4 && path->kind <= PATH_UDP6;
}

/* Octets of the outer headers of a path with IPv4 or UDP. */
static __always_inline __u32 outer_length_of(const struct path *path)
{
	if (path->kind == PATH_UDP6)
		return IP6 + UDP_HEADER;
	return path->kind == PATH_UDP4 ? IP4 + UDP_HEADER : IP4;
}

/* Looks up the route of the outer packets of a path. Over IPv4, packets of a path with a link take the route by that link,
 * like those of a socket bound to it; but the kernel refuses such a lookup if the link does not forward IPv4. */
static __always_inline long fib_lookup_path(packet *p, const struct settings *set, const struct path *path,
					    struct bpf_fib_lookup *result)
{
	long failed;

	if (!is_over_ip4(path))
		return fib_lookup(p, set->device, &path->local, &path->remote, result);
	__builtin_memset(result, 0, sizeof(*result));
	result->family = AF_INET;
	result->tot_len = 1;
	result->ifindex = path->link;
	result->ipv4_src = path->local.w[3];
	result->ipv4_dst = path->remote.w[3];
	failed = path->link ? bpf_fib_lookup(p, result, sizeof(*result), BPF_FIB_LOOKUP_OUTPUT) : BPF_FIB_LKUP_RET_FWD_DISABLED;
	if (failed != BPF_FIB_LKUP_RET_FWD_DISABLED)
		return failed;
	result->ifindex = set->device;
	return bpf_fib_lookup(p, result, sizeof(*result), 0);
}

static __always_inline struct next_hop *nh_entry(const struct settings *set, const struct nh_key *key)
{
	__u32 i = finish_hash(hash_addrs(&key->source, &key->destination) + key->required_link) & set->cache_mask;
	return bpf_map_lookup_elem(&hops, &i);
}

static __always_inline int nh_matches(const struct next_hop *hop, const struct settings *set, const struct nh_key *key)
{
	return hop->generation == set->generation && hop->required_link == key->required_link &&
	       addr_equal(&hop->destination, &key->destination) && addr_equal(&hop->source, &key->source);
}

/* Whether what was resolved then is still valid. */
static __always_inline int is_fresh(const struct settings *set, __u64 resolved, __u64 now)
{
	return !((now - resolved) >> set->lifetime_shift);
}

/* Whether the kernel's neighbour entry may resolve the next hop. The slow path would also report an unreachable neighbour to
 * the sender, but there the firewall would filter packets that are to bypass it. */
static __always_inline int may_resolve(const struct settings *set, long failed)
{
	return REFRESHES_NEXT_HOPS && failed == BPF_FIB_LKUP_RET_NO_NEIGH && set->firewalled & FIREWALL_BYPASSED;
}

/* Stores what a lookup has returned; `uses_neighbour`: the next packet uses the kernel's neighbour entry. An unresolved next
 * hop expires at once, and accepts what any link does, because its MTU is unknown. */
static __always_inline void nh_store(struct next_hop *hop, const struct settings *set, const struct nh_key *key,
				     const struct bpf_fib_lookup *result, __u64 now, int uses_neighbour, int unresolved)
{
	hop->source = key->source;
	hop->destination = key->destination;
	hop->required_link = key->required_link;
	hop->generation = set->generation;
	hop->epoch = REFRESHES_NEXT_HOPS && (uses_neighbour || unresolved) ? USE_NEIGHBOUR : 0;
	hop->neighbour.nh_family = result->family;
	*(struct addr *)hop->neighbour.ipv6_nh = *(const struct addr *)result->ipv6_dst;
	hop->resolved = unresolved ? now - (1ULL << set->lifetime_shift) : now;
	hop->link = result->ifindex;
	hop->mtu = unresolved ? MIN_MTU : result->mtu_result;
	__builtin_memcpy(hop->mac, result->dmac, 6);
	__builtin_memcpy(hop->mac + 6, result->smac, 6);
}

/* Whether the TC program, which runs after this one, is to refresh an expired entry and use the kernel's. It does so at once,
 * unless it runs on another processor. */
static __always_inline int is_left_to_tc(const struct settings *set, const struct next_hop *hop, __u64 now)
{
	return !REFRESHES_NEXT_HOPS && !((now - hop->resolved) >> set->lifetime_shift >> 1);
}

/* The next hop of a packet that goes into no tunnel; its link is the tunnel device if no route leads on, as for this
 * host's own addresses, and wherever a firewall filters forwarded packets. Null: the packet takes the slow path. */
static __noinline struct next_hop *nh_lookup(packet *p, const struct settings *set, const struct nh_key *key)
{
	struct next_hop *hop = nh_entry(set, key);
	int firewalled = set->firewalled & FIREWALLED_IP6;
	__u64 now = bpf_jiffies64();
	struct scratch *scratch;
	struct bpf_fib_lookup *result;
	long failed = BPF_FIB_LKUP_RET_NOT_FWDED;
	int known;

	if (!hop)
		return 0;
	known = nh_matches(hop, set, key) && (!firewalled || hop->link == set->device);
	if (known && is_fresh(set, hop->resolved, now))
		return hop;
	if (known && is_left_to_tc(set, hop, now))
		return 0;
	scratch = get_scratch();
	if (!scratch)
		return 0;
	result = &scratch->fib;
	if (firewalled)
		__builtin_memset(result, 0, sizeof(*result));
	else
		failed = fib_lookup(p, ingress_ifindex(p), &key->source, &key->destination, result);
	if (failed == BPF_FIB_LKUP_RET_NOT_FWDED) {
		result->ifindex = set->device;
	} else if (result->ifindex == set->device || (failed && !may_resolve(set, failed))) {
		hop->generation = 0;
		return 0;
	}
	nh_store(hop, set, key, result, now, known && !failed, may_resolve(set, failed));
	return known && !REFRESHES_NEXT_HOPS ? 0 : hop;
}

/* A route resolved in another generation is void: the daemon increments the generation when routes change. The generation
 * also ends after some seconds, at a different time for each remote endpoint, so that not all routes are looked up at the
 * same moment. This also voids a route that was resolved for one endpoint while its slot was given to another. */
static __always_inline __u32 route_generation_of(const struct settings *set, const struct addr *remote, __u64 now)
{
	__u32 phase = (remote->w[1] ^ remote->w[3]) * 0x9e3779b9U;

	return (set->generation + (__u32)((now + phase) >> set->lifetime_shift >> ROUTE_LIFETIMES_SHIFT)) | 1U << 31;
}

/* Resolves the next hop of a path in the routing tables. Null: the packet takes the slow path. */
static __noinline struct next_hop *resolve_path(packet *p, const struct settings *set, const struct path *path,
						struct nh_key *gateway)
{
	struct scratch *scratch = get_scratch();
	__u64 now = bpf_jiffies64();
	struct bpf_fib_lookup *result;
	struct next_hop *hop;
	long failed;
	int known;

	gateway->required_link = 0;
	if (!scratch)
		return 0;
	result = &scratch->fib;
	failed = fib_lookup_path(p, set, path, result);
	if ((failed && !may_resolve(set, failed)) || result->ifindex == set->device ||
	    (path->link && result->ifindex != path->link))
		return 0;
	gateway->destination = result->family == AF_INET ? v4_mapped(result->ipv4_dst) : *(struct addr *)result->ipv6_dst;
	gateway->required_link = result->ifindex;
	hop = nh_entry(set, gateway);
	if (!hop)
		return 0;
	known = nh_matches(hop, set, gateway);
	if (known && is_fresh(set, hop->resolved, now))
		return hop;
	if (known && is_left_to_tc(set, hop, now))
		return 0;
	nh_store(hop, set, gateway, result, now, known, !!failed);
	return known && !REFRESHES_NEXT_HOPS ? 0 : hop;
}

/* Sends a packet of this Ethertype to the next hop; `frame` is its Ethernet header. */
static __always_inline int redirect_to(struct next_hop *hop, void *frame, __u16 type)
{
	if (REFRESHES_NEXT_HOPS && hop->epoch == USE_NEIGHBOUR) {
		hop->epoch = 0;
		return bpf_redirect_neigh(hop->link, &hop->neighbour, sizeof(hop->neighbour), 0);
	}
	write_ethernet(frame, hop->mac, type);
	return bpf_redirect(hop->link, 0);
}

/* The cached next hop of a path whose gateway is known. Null: it has to be resolved. */
static __always_inline struct next_hop *nh_cached(const struct settings *set, const struct nh_key *gateway, __u64 now)
{
	struct next_hop *hop = nh_entry(set, gateway);

	return hop && nh_matches(hop, set, gateway) && is_fresh(set, hop->resolved, now) ? hop : 0;
}

/* The next hop of a path of this version of its tunnel. Null: the packet takes the slow path. */
static __noinline struct next_hop *nh_of_path(packet *p, const struct settings *set, const struct path *path,
					      struct path_route *route, __u32 version)
{
	struct nh_key gateway = { .destination = route->gateway, .required_link = route->link };
	__u64 now = bpf_jiffies64();
	__u32 generation = route_generation_of(set, &path->remote, now);
	struct next_hop *hop = 0;

	if (route->route_generation == generation && route->version == version)
		hop = nh_cached(set, &gateway, now);
	if (hop)
		return hop;
	route->version = 0;
	hop = resolve_path(p, set, path, &gateway);
	if (gateway.required_link) {
		route->gateway = gateway.destination;
		route->link = gateway.required_link;
		route->route_generation = generation;
		route->version = version;
	}
	return hop;
}

/* The same for the inline path of a prefix entry. */
static __always_inline struct next_hop *nh_of_inline_path(packet *p, const struct settings *set, const struct path *path,
							  const struct prefix_match *match)
{
	struct nh_key gateway = { .destination = match->entry.gateway, .required_link = match->entry.link };
	__u64 now = bpf_jiffies64();
	__u32 generation = route_generation_of(set, &path->remote, now);
	struct next_hop *hop = 0;
	struct prefix_entry *entry;

	if (match->entry.route_generation == generation)
		hop = nh_cached(set, &gateway, now);
	if (hop)
		return hop;
	hop = resolve_path(p, set, path, &gateway);
	entry = entry_of(match);
	/* The tunnel may have a new remote endpoint by now. */
	if (gateway.required_link && entry && addr_equal(&entry->remote, &match->entry.remote)) {
		entry->gateway = gateway.destination;
		entry->link = gateway.required_link;
		entry->route_generation = generation;
	}
	return hop;
}

/* Whether the routing tables lead a packet from this interface into a tunnel: rules say behind which interfaces the near
 * side is, so that no other node uses its addresses as a source (RFC 3963 §9). */
static __noinline int is_routed_into_tunnel(packet *p, const struct settings *set, const struct flow *flow)
{
	struct scratch *scratch = get_scratch();
	long failed;

	if (!set || !flow || !scratch)
		return 0;
	failed = fib_lookup(p, ingress_ifindex(p), &flow->source, &flow->destination, &scratch->fib);
	return (!failed || failed == BPF_FIB_LKUP_RET_NO_NEIGH) && scratch->fib.ifindex == set->device;
}
