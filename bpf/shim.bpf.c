/* The Shim6 programs (RFC 5533 §12): `leave_ethernet` and `leave_bare` run on the egress of an uplink, `arrive_...` on its
 * ingress, and `cut` on the segments of large packets, which the kernel has to segment first because it can segment no
 * packet with a shim header. All pass to the next program what they do not handle. */
#include "shim/activity.h"
#include "shim/payload_header.h"
#include <linux/pkt_cls.h>

#define NEXT TC_ACT_UNSPEC
#define SOURCE_MAC 6

/* Neighbour discovery is not traffic of a context. */
static __always_inline int is_discovery(struct __sk_buff *skb, const struct ipv6hdr *ip)
{
	const __u8 *type = (const void *)(ip + 1);
	return ip->nexthdr == ICMP6 && (void *)(type + 1) <= packet_end(skb) && *type >= 133 && *type <= 137;
}

static __always_inline struct context *find_context(struct __sk_buff *skb, const struct pair *ulids)
{
	struct context_key key = { *ulids, skb->mark };
	struct context *context;

	if (skb->mark) {
		context = bpf_map_lookup_elem(&contexts, &key);
		if (context)
			return context;
		key.fork = 0;
	}
	return bpf_map_lookup_elem(&contexts, &key);
}

/* Redirects a packet to the context's link. The kernel needs an Ethernet header to replace, so a packet without one gets
 * one. */
static __always_inline int redirect(struct __sk_buff *skb, const struct context *context, __u32 l2)
{
	struct bpf_redir_neigh hop = { .nh_family = AF_INET6 };

	if (!l2 && bpf_skb_change_head(skb, ETH_HLEN, 0))
		return TC_ACT_SHOT;
	if (!(context->next_hop.w[0] | context->next_hop.w[1] | context->next_hop.w[2] | context->next_hop.w[3]))
		return bpf_redirect_neigh(context->link, 0, 0, 0);
	*(struct addr *)hop.ipv6_nh = context->next_hop;
	return bpf_redirect_neigh(context->link, &hop, sizeof(hop), 0);
}

/* Redirects a large packet to the interface on which it is segmented. Usually the kernel has routed it to the context's
 * link. On another link its link-layer addresses are of no use, which a source address of zero tells `cut`. */
static __always_inline int redirect_to_segmentation(struct __sk_buff *skb, const struct context *context, __u32 l2)
{
	struct shim_settings *set = get_shim_settings();
	__u8 no_source[6] = {};

	if (!set || !set->segmentation_link || (!l2 && bpf_skb_change_head(skb, ETH_HLEN, 0)))
		return TC_ACT_SHOT;
	if (skb->ifindex != context->link && bpf_skb_store_bytes(skb, SOURCE_MAC, no_source, sizeof(no_source), 0))
		return TC_ACT_SHOT;
	return bpf_redirect(set->segmentation_link, 0);
}

static __always_inline int egress(struct __sk_buff *skb, __u32 l2)
{
	struct context *found, context;
	struct ipv6hdr *ip;
	struct load load;
	struct pair pair;

	if (skb->protocol != bpf_htons(ETH_P_IPV6) || pull(skb, l2 + IP6 + 1))
		return NEXT;
	ip = ip6_header(skb, l2, 0);
	if (!ip || ip->nexthdr == SHIM6)
		return NEXT;
	pair.local = read_addr(&ip->saddr);
	pair.peer = read_addr(&ip->daddr);
	if (is_link_scope(&pair.local) || is_link_scope(&pair.peer))
		return NEXT;
	load = load_out(skb, l2);
	found = find_context(skb, &pair);
	if (!found) {
		if (!is_discovery(skb, ip))
			count_conversation(skb, &pair, &load, 1);
		return NEXT;
	}
	count_sent(found->index, &load);
	if (!found->rewrites)
		return NEXT;
	/* One packet never sees two states of a context. */
	context = *found;
	if (skb->gso_size)
		return redirect_to_segmentation(skb, &context, l2);
	if (insert_header(skb, l2, ip, &context))
		return TC_ACT_SHOT;
	return skb->ifindex == context.link ? NEXT : redirect(skb, &context, l2);
}

/* Passes the first octets of a packet to the daemon, which reports to the sender that there is no such context (RFC 5533
 * §12.3). */
static __always_inline void pass_to_daemon(struct __sk_buff *skb, __u32 l2)
{
	struct packet_event *event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);
	__u32 length = skb->len - l2;

	if (!event)
		return;
	length = length < EVENT_OCTETS ? length : EVENT_OCTETS;
	event->kind = PACKET;
	event->link = skb->ifindex;
	event->length = length;
	event->zero = 0;
	if (length < IP6 + SHIM_HEADER || bpf_skb_load_bytes(skb, l2, event->octets, length))
		bpf_ringbuf_discard(event, 0);
	else
		bpf_ringbuf_submit(event, 0);
}

static __always_inline int is_source(const struct tagged *tagged, const struct addr *source)
{
	for (__u32 i = 0; i < LOCATORS; i++) {
		if (i >= tagged->sources)
			break;
		if (addr_equal(&tagged->source[i], source))
			return 1;
	}
	return 0;
}

/* The shim header, nearly always right behind the IPv6 header. */
static __always_inline int read_shim(struct __sk_buff *skb, __u32 l2, int options, __u8 shim[SHIM_HEADER])
{
	struct ipv6hdr *ip = ip6_header(skb, l2, SHIM_HEADER);

	if (options || !ip)
		return bpf_skb_load_bytes(skb, l2 + IP6 + options, shim, SHIM_HEADER);
	__builtin_memcpy(shim, ip + 1, SHIM_HEADER);
	return 0;
}

/* A packet with a payload extension header is restored to its ULIDs; control messages pass. */
static __always_inline int receive(struct __sk_buff *skb, __u32 l2, const struct load *load, int options)
{
	struct ipv6hdr *ip = ip6_header(skb, l2, 0);
	__u8 shim[SHIM_HEADER], next;
	struct tagged *tagged;
	struct addr source;
	struct pair ulids;
	__u64 tag;

	if (!ip || options < 0 || read_shim(skb, l2, options, shim))
		return NEXT;
	if (!(shim[2] & 0x80) || shim[1])
		return NEXT;
	tag = (__u64)(shim[2] & 0x7f) << 40 | (__u64)shim[3] << 32 | (__u64)shim[4] << 24 | shim[5] << 16 | shim[6] << 8 |
	      shim[7];
	next = shim[0];
	source = read_addr(&ip->saddr);
	tagged = bpf_map_lookup_elem(&tags, &tag);
	if (!tagged || !is_source(tagged, &source)) {
		pass_to_daemon(skb, l2);
		return TC_ACT_SHOT;
	}
	ulids = tagged->ulids;
	count_received(tagged->index, load);
	return remove_header(skb, l2, ip, &ulids, next, options) ? TC_ACT_SHOT : NEXT;
}

/* Whether the header that follows hop-by-hop options, if there are any, is a shim header. */
static __always_inline int is_shim(struct __sk_buff *skb, const struct ipv6hdr *ip)
{
	const __u8 *options = (const void *)(ip + 1);

	if (ip->nexthdr == HOP_BY_HOP)
		return (void *)(options + 1) <= packet_end(skb) && *options == SHIM6;
	return ip->nexthdr == SHIM6;
}

static __always_inline int ingress(struct __sk_buff *skb, __u32 l2)
{
	struct context *context;
	struct ipv6hdr *ip;
	struct load load;
	struct pair pair;

	if (skb->protocol != bpf_htons(ETH_P_IPV6) || skb->pkt_type != PACKET_HOST || pull(skb, l2 + IP6 + SHIM_HEADER))
		return NEXT;
	ip = ip6_header(skb, l2, 0);
	if (!ip)
		return NEXT;
	load = load_in(skb, l2);
	if (is_shim(skb, ip))
		return receive(skb, l2, &load, hop_by_hop_length(skb, l2, ip->nexthdr));
	pair.local = read_addr(&ip->daddr);
	pair.peer = read_addr(&ip->saddr);
	context = find_context(skb, &pair);
	if (context)
		count_received(context->index, &load);
	else if (!is_discovery(skb, ip))
		count_conversation(skb, &pair, &load, 0);
	return NEXT;
}

SEC("classifier") int leave_ethernet(struct __sk_buff *skb) { return egress(skb, ETH_HLEN); }
SEC("classifier") int leave_bare(struct __sk_buff *skb) { return egress(skb, 0); }
SEC("classifier") int arrive_ethernet(struct __sk_buff *skb) { return ingress(skb, ETH_HLEN); }
SEC("classifier") int arrive_bare(struct __sk_buff *skb) { return ingress(skb, 0); }

/* A segment of a large packet, which was counted as a whole. */
SEC("classifier") int cut(struct __sk_buff *skb)
{
	struct context *found, context;
	struct ipv6hdr *ip;
	struct pair pair;
	const __u16 *mac;
	int no_source;

	if (skb->protocol != bpf_htons(ETH_P_IPV6) || pull(skb, ETH_HLEN + IP6))
		return TC_ACT_SHOT;
	ip = ip6_header(skb, ETH_HLEN, 0);
	if (!ip)
		return TC_ACT_SHOT;
	mac = (const void *)(ip) - ETH_HLEN + SOURCE_MAC;
	no_source = !(mac[0] | mac[1] | mac[2]);
	pair.local = read_addr(&ip->saddr);
	pair.peer = read_addr(&ip->daddr);
	found = find_context(skb, &pair);
	if (!found)
		return TC_ACT_SHOT;
	context = *found;
	/* Since then the context has returned to its ULIDs as locators. */
	if (!context.rewrites)
		return redirect(skb, &context, ETH_HLEN);
	if (skb->gso_size || insert_header(skb, ETH_HLEN, ip, &context))
		return TC_ACT_SHOT;
	return no_source ? redirect(skb, &context, ETH_HLEN) : bpf_redirect(context.link, 0);
}

char _license[] SEC("license") = "Dual MIT/GPL";
