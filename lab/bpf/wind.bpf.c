/* Traffic that costs next to nothing: `blow` is run by hand on frames that live in a page pool, as a network card's do, and
 * sends each by an interface, of one flow after the other; `pass` sends on what arrives, the least a router can do; `count`
 * and `swallow` end what has come, a socket buffer or a frame. */
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>

/* All headers: Ethernet, two of IPv6, and what stands before UDP's payload. lab/src/traffic/wind.rs knows the same. */
#define HEAD 104
#define NEXT_HEADER 20
#define FLOWS 64

struct order {
	__u8 head[HEAD];
	__u32 link;
	__u32 flows;  /* how many orders there are, a power of two */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, FLOWS);
	__type(key, __u32);
	__type(value, struct order);
} orders SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} arrived SEC(".maps");

static const __u32 zero = 0;
static __u32 turn;

/* The pages come back as the last receiver left them, so the headers are written anew each time. */
SEC("xdp") int blow(struct xdp_md *frame)
{
	struct order *order = bpf_map_lookup_elem(&orders, &zero);
	void *data = (void *)(long)frame->data, *end = (void *)(long)frame->data_end;
	__u32 flow;

	if (!order || data + HEAD > end)
		return XDP_DROP;
	flow = turn++ & (order->flows - 1);
	order = bpf_map_lookup_elem(&orders, &flow);
	if (!order)
		return XDP_DROP;
	__builtin_memcpy(data, order->head, HEAD);
	return bpf_redirect(order->link, 0);
}

SEC("xdp") int pass(struct xdp_md *frame)
{
	struct order *order = bpf_map_lookup_elem(&orders, &zero);

	return order && frame->data < frame->data_end ? bpf_redirect(order->link, 0) : XDP_DROP;
}

/* UDP, and IPv6 in IPv6: neighbour discovery and TCP go on. */
static __always_inline int is_wind(const __u8 *data, const void *end)
{
	__u64 *number = bpf_map_lookup_elem(&arrived, &zero);

	if ((const void *)(data + NEXT_HEADER + 1) > end || (data[NEXT_HEADER] != 17 && data[NEXT_HEADER] != 41))
		return 0;
	if (number)
		*number += 1;
	return 1;
}

SEC("classifier") int count(struct __sk_buff *skb)
{
	return is_wind((void *)(long)skb->data, (void *)(long)skb->data_end) ? TC_ACT_SHOT : TC_ACT_OK;
}

SEC("xdp") int swallow(struct xdp_md *frame)
{
	return is_wind((void *)(long)frame->data, (void *)(long)frame->data_end) ? XDP_DROP : XDP_PASS;
}

char _license[] SEC("license") = "Dual MIT/GPL";
