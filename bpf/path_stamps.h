/* The traffic of paths, by which the daemon notices that a path is in use, or that nothing comes back by it. */
#pragma once
#include "path_select.h"
#include "tunnel_lookup.h"

/* Notifies the daemon once if it has requested that. */
static __always_inline void notify_sent(__u32 stat)
{
	__u32 *wanted = bpf_map_lookup_elem(&path_wanted, &stat);

	if (wanted && *wanted && __sync_lock_test_and_set(wanted, 0))
		bpf_ringbuf_output(&path_events, &stat, sizeof(stat), 0);
}

/* The first packet in a tick of the clock leaves by the path. */
static __noinline void stamp_sent(__u32 stat)
{
	struct path_stamp *stamp = bpf_map_lookup_elem(&path_stamps, &stat);

	if (!stamp)
		return;
	stamp->sent = bpf_ktime_get_coarse_ns();
	if (!stamp->unanswered)
		stamp->unanswered = stamp->sent;
	notify_sent(stat);
}

/* The first packet in a tick of the clock has come by the path. */
static __noinline void stamp_received(__u32 stat)
{
	struct path_stamp *stamp = bpf_map_lookup_elem(&path_stamps, &stat);

	if (!stamp)
		return;
	stamp->received = bpf_ktime_get_coarse_ns();
	stamp->unanswered = 0;
}

/* Counts a packet of `octets` that leaves by the path with this number; 0: the traffic of the path is not counted. Times, which
 * all processors share, are written once a tick by each: to read the clock and to write the shared cache line for every packet
 * costs the program at the driver a tenth of its time. */
static __always_inline void note_sent(packet *p, __u32 stat, __u32 octets)
{
	struct path_count *count;
	__u64 tick;

	if (!stat)
		return;
	count = bpf_map_lookup_elem(&path_counts, &stat);
	if (!count)
		return;
	tick = bpf_jiffies64();
	count->packets_out += segments(p);
	count->octets_out += octets;
	if (count->tick_out == tick)
		return;
	count->tick_out = tick;
	stamp_sent(stat);
}

/* The same for a packet that has come by the path. */
static __always_inline void note_received(packet *p, __u32 stat, __u32 octets)
{
	struct path_count *count;
	__u64 tick;

	if (!stat)
		return;
	count = bpf_map_lookup_elem(&path_counts, &stat);
	if (!count)
		return;
	tick = bpf_jiffies64();
	count->packets_in += segments(p);
	count->octets_in += octets;
	if (count->tick_in == tick)
		return;
	count->tick_in = tick;
	stamp_received(stat);
}

/* Whether the inner packet at `at` is an echo reply to this host: the answer to a probe, of which the daemon knows. */
static __noinline int is_probe_reply(packet *p, __u32 at)
{
	struct ipv6hdr *ip = ip6_header(p, at, 1);
	struct addr to ALIGN_HALF;

	if (!ip || ip->version != 6 || *(const __u8 *)(ip + 1) != ECHO_REPLY)
		return 0;
	to = read_addr(&ip->daddr);
	return is_own_address(&to);
}

/* A packet whose inner one, `inner`, is at `at` has come by the path. */
static __always_inline void note_inner(packet *p, __u32 stat, __u32 at, const struct ipv6hdr *inner)
{
	if (!(inner && inner->nexthdr == ICMP6 && is_probe_reply(p, at)))
		note_received(p, stat, packet_length(p) - at);
}
