/* Packet generator of the testbed. `generate` is run by BPF_PROG_TEST_RUN on frames in a page pool, as a network card
 * delivers them, and redirects each to an interface, of one flow after the other. `redirect` sends every frame that arrives
 * to another interface without a lookup: the minimum work of a router. `count` and `count_driver` count and drop what
 * arrives, with a socket buffer or at the driver. */
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

/* All headers: Ethernet, two of IPv6, and UDP. As in lab/src/load/packet_generator.rs. */
#define HEADER_OCTETS 104
#define NEXT_HEADER_OFFSET 20
#define PORTS_OFFSET 54
/* Segments of TCP with this port are of a burst, not of a connection. As in lab/src/load/packet_generator.rs. */
#define BURST_PORT 9601
#define SLOTS 64

struct slot {
	__u8 headers[HEADER_OCTETS];
	__u32 ifindex;
	__u32 slots;  /* slots in use, a power of two */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SLOTS);
	__type(key, __u32);
	__type(value, struct slot);
} slots SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} arrived SEC(".maps");

static const __u32 zero = 0;
static __u32 sent;

/* A recycled page has the headers that the last receiver left, so they are written for each packet. */
SEC("xdp") int generate(struct xdp_md *frame)
{
	struct slot *slot = bpf_map_lookup_elem(&slots, &zero);
	void *data = (void *)(long)frame->data, *end = (void *)(long)frame->data_end;
	__u32 index;

	if (!slot || data + HEADER_OCTETS > end)
		return XDP_DROP;
	index = sent++ & (slot->slots - 1);
	slot = bpf_map_lookup_elem(&slots, &index);
	if (!slot)
		return XDP_DROP;
	__builtin_memcpy(data, slot->headers, HEADER_OCTETS);
	return bpf_redirect(slot->ifindex, 0);
}

SEC("xdp") int redirect(struct xdp_md *frame)
{
	struct slot *slot = bpf_map_lookup_elem(&slots, &zero);

	return slot && frame->data < frame->data_end ? bpf_redirect(slot->ifindex, 0) : XDP_DROP;
}

static __always_inline int is_burst_segment(const __u8 *data, const void *end)
{
	const __be16 *ports = (const void *)(data + PORTS_OFFSET);

	return (const void *)(ports + 2) <= end &&
	       (ports[0] == bpf_htons(BURST_PORT) || ports[1] == bpf_htons(BURST_PORT));
}

/* Counts UDP, IPv6-in-IPv6 and the TCP segments of bursts; neighbour discovery and TCP connections pass. */
static __always_inline int is_counted(const __u8 *data, const void *end)
{
	__u64 *number = bpf_map_lookup_elem(&arrived, &zero);

	if ((const void *)(data + NEXT_HEADER_OFFSET + 1) > end)
		return 0;
	switch (data[NEXT_HEADER_OFFSET]) {
	case 17:
	case 41:
		break;
	case 6:
		if (is_burst_segment(data, end))
			break;
		return 0;
	default:
		return 0;
	}
	if (number)
		*number += 1;
	return 1;
}

SEC("classifier") int count(struct __sk_buff *skb)
{
	return is_counted((void *)(long)skb->data, (void *)(long)skb->data_end) ? TC_ACT_SHOT : TC_ACT_OK;
}

SEC("xdp") int count_driver(struct xdp_md *frame)
{
	return is_counted((void *)(long)frame->data, (void *)(long)frame->data_end) ? XDP_DROP : XDP_PASS;
}

char _license[] SEC("license") = "Dual MIT/GPL";
