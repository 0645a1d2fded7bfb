/* The shim's programs (RFC 5533 §12): `leave_ethernet` and `leave_bare` see what goes out of an uplink, `arrive_...` what
 * comes in, `cut` what had to be cut to size first, because the kernel can segment no packet with this header. All let
 * other programs have their turn with what they do not take. */
#include "shim/count.h"
#include "shim/rewrite.h"
#include <linux/pkt_cls.h>

#define NEXT TC_ACT_UNSPEC
#define SOURCE_MAC 6

/* Neighbour discovery is no conversation. */
static __always_inline int is_discovery(struct __sk_buff *skb, const struct ipv6hdr *ip)
{
	const __u8 *type = (const void *)(ip + 1);
	return ip->nexthdr == ICMP6 && (void *)(type + 1) <= end(skb) && *type >= 133 && *type <= 137;
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

/* Sends a packet out by the context's link. The kernel wants an Ethernet header to replace, so one without gets one. */
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

/* The way the kernel has found is by the context's link, as a rule: its route says so. A packet that comes by another
 * link bears no source, for `cut` to know that the link-layer addresses are no good. */
static __always_inline int bounce(struct __sk_buff *skb, const struct context *context, __u32 l2)
{
	struct settings6 *set = get_settings6();
	__u8 nobody[6] = {};

	if (!set || !set->bounce || (!l2 && bpf_skb_change_head(skb, ETH_HLEN, 0)))
		return TC_ACT_SHOT;
	if (skb->ifindex != context->link && bpf_skb_store_bytes(skb, SOURCE_MAC, nobody, sizeof(nobody), 0))
		return TC_ACT_SHOT;
	return bpf_redirect(set->bounce, 0);
}

static __always_inline int leave(struct __sk_buff *skb, __u32 l2)
{
	struct context *found, context;
	struct ipv6hdr *ip;
	struct load load;
	struct pair pair;

	if (skb->protocol != bpf_htons(ETH_P_IPV6) || pull(skb, l2 + IP6 + 1))
		return NEXT;
	ip = header(skb, l2, 0);
	if (!ip || ip->nexthdr == SHIM6)
		return NEXT;
	pair.local = read_addr(&ip->saddr);
	pair.peer = read_addr(&ip->daddr);
	if (stays_on_link(&pair.local) || stays_on_link(&pair.peer))
		return NEXT;
	load = load_out(skb, l2);
	found = find_context(skb, &pair);
	if (!found) {
		if (!is_discovery(skb, ip))
			converse(skb, &pair, &load, 1);
		return NEXT;
	}
	sent(found->slot, &load);
	if (!found->rewrites)
		return NEXT;
	/* One packet never sees two states of a context. */
	context = *found;
	if (skb->gso_size)
		return bounce(skb, &context, l2);
	if (put_on(skb, l2, ip, &context))
		return TC_ACT_SHOT;
	return skb->ifindex == context.link ? NEXT : redirect(skb, &context, l2);
}

/* Hands the head of a packet to the daemon, which tells the sender that there is no such context (RFC 5533 §12.3). */
static __always_inline void hand_up(struct __sk_buff *skb, __u32 l2)
{
	struct packet_event *event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);
	__u32 length = skb->len - l2;

	if (!event)
		return;
	length = length < HEAD ? length : HEAD;
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
		if (same(&tagged->source[i], source))
			return 1;
	}
	return 0;
}

/* The shim's header, nearly always right behind the IPv6 header. */
static __always_inline int read_shim(struct __sk_buff *skb, __u32 l2, int front, __u8 shim[SHIM_HEADER])
{
	struct ipv6hdr *ip = header(skb, l2, SHIM_HEADER);

	if (front || !ip)
		return bpf_skb_load_bytes(skb, l2 + IP6 + front, shim, SHIM_HEADER);
	__builtin_memcpy(shim, ip + 1, SHIM_HEADER);
	return 0;
}

/* A payload extension header; control messages go their own way. */
static __always_inline int open(struct __sk_buff *skb, __u32 l2, const struct load *load, int front)
{
	struct ipv6hdr *ip = header(skb, l2, 0);
	__u8 shim[SHIM_HEADER], next;
	struct tagged *tagged;
	struct addr source;
	struct pair ulids;
	__u64 tag;

	if (!ip || front < 0 || read_shim(skb, l2, front, shim))
		return NEXT;
	if (!(shim[2] & 0x80) || shim[1])
		return NEXT;
	tag = (__u64)(shim[2] & 0x7f) << 40 | (__u64)shim[3] << 32 | (__u64)shim[4] << 24 | shim[5] << 16 | shim[6] << 8 |
	      shim[7];
	next = shim[0];
	source = read_addr(&ip->saddr);
	tagged = bpf_map_lookup_elem(&tags, &tag);
	if (!tagged || !is_source(tagged, &source)) {
		hand_up(skb, l2);
		return TC_ACT_SHOT;
	}
	ulids = tagged->ulids;
	received(tagged->slot, load);
	return take_off(skb, l2, ip, &ulids, next, front) ? TC_ACT_SHOT : NEXT;
}

/* Whether the header that follows hop-by-hop options, if there are any, is the shim's. */
static __always_inline int is_shim(struct __sk_buff *skb, const struct ipv6hdr *ip)
{
	const __u8 *options = (const void *)(ip + 1);

	if (ip->nexthdr == HOP_BY_HOP)
		return (void *)(options + 1) <= end(skb) && *options == SHIM6;
	return ip->nexthdr == SHIM6;
}

static __always_inline int arrive(struct __sk_buff *skb, __u32 l2)
{
	struct context *context;
	struct ipv6hdr *ip;
	struct load load;
	struct pair pair;

	if (skb->protocol != bpf_htons(ETH_P_IPV6) || skb->pkt_type != PACKET_HOST || pull(skb, l2 + IP6 + SHIM_HEADER))
		return NEXT;
	ip = header(skb, l2, 0);
	if (!ip)
		return NEXT;
	load = load_in(skb, l2);
	if (is_shim(skb, ip))
		return open(skb, l2, &load, octets_in_front(skb, l2, ip->nexthdr));
	pair.local = read_addr(&ip->daddr);
	pair.peer = read_addr(&ip->saddr);
	context = find_context(skb, &pair);
	if (context)
		received(context->slot, &load);
	else if (!is_discovery(skb, ip))
		converse(skb, &pair, &load, 0);
	return NEXT;
}

SEC("classifier") int leave_ethernet(struct __sk_buff *skb) { return leave(skb, ETH_HLEN); }
SEC("classifier") int leave_bare(struct __sk_buff *skb) { return leave(skb, 0); }
SEC("classifier") int arrive_ethernet(struct __sk_buff *skb) { return arrive(skb, ETH_HLEN); }
SEC("classifier") int arrive_bare(struct __sk_buff *skb) { return arrive(skb, 0); }

/* A piece of a packet that was too large; what the packet has carried was counted as a whole. */
SEC("classifier") int cut(struct __sk_buff *skb)
{
	struct context *found, context;
	struct ipv6hdr *ip;
	struct pair pair;
	const __u16 *mac;
	int nobody;

	if (skb->protocol != bpf_htons(ETH_P_IPV6) || pull(skb, ETH_HLEN + IP6))
		return TC_ACT_SHOT;
	ip = header(skb, ETH_HLEN, 0);
	if (!ip)
		return TC_ACT_SHOT;
	mac = (const void *)(ip) - ETH_HLEN + SOURCE_MAC;
	nobody = !(mac[0] | mac[1] | mac[2]);
	pair.local = read_addr(&ip->saddr);
	pair.peer = read_addr(&ip->daddr);
	found = find_context(skb, &pair);
	if (!found)
		return TC_ACT_SHOT;
	context = *found;
	/* The context has gone back to its ULIDs meanwhile. */
	if (!context.rewrites)
		return redirect(skb, &context, ETH_HLEN);
	if (skb->gso_size || put_on(skb, ETH_HLEN, ip, &context))
		return TC_ACT_SHOT;
	return nobody ? redirect(skb, &context, ETH_HLEN) : bpf_redirect(context.link, 0);
}

char _license[] SEC("license") = "Dual MIT/GPL";
