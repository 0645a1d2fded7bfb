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

/* A packet of `octets` leaves by the path with this number; 0: none is counted. Times, which all processors share, are
 * written once a tick. */
static __noinline void stamp_sent(__u32 stat, __u32 packets, __u32 octets)
{
	__u64 now = bpf_ktime_get_coarse_ns();
	struct path_count *count;
	struct path_stamp *stamp;

	stamp = bpf_map_lookup_elem(&path_stamps, &stat);
	count = bpf_map_lookup_elem(&path_counts, &stat);
	if (!stamp || !count)
		return;
	count->packets_out += packets;
	count->octets_out += octets;
	if (!stamp->unanswered)
		stamp->unanswered = now;
	if (stamp->sent == now)
		return;
	stamp->sent = now;
	notify_sent(stat);
}

/* A packet of `octets` has come by the path. */
static __noinline void stamp_received(__u32 stat, __u32 packets, __u32 octets)
{
	__u64 now = bpf_ktime_get_coarse_ns();
	struct path_count *count;
	struct path_stamp *stamp;

	stamp = bpf_map_lookup_elem(&path_stamps, &stat);
	count = bpf_map_lookup_elem(&path_counts, &stat);
	if (!stamp || !count)
		return;
	count->packets_in += packets;
	count->octets_in += octets;
	if (stamp->unanswered)
		stamp->unanswered = 0;
	if (stamp->received != now)
		stamp->received = now;
}

static __always_inline void note_sent(packet *p, __u32 stat, __u32 octets)
{
	if (stat)
		stamp_sent(stat, segments(p), octets);
}

/* Whether the inner packet at `at` is an echo reply to this host: the answer to a probe, of which the daemon knows. */
static __noinline int is_probe_reply(packet *p, __u32 at)
{
	struct ipv6hdr *ip = ip6_header(p, at, 1);
	struct addr to ALIGN_HALF;

	if (!ip || ip->version != 6 || ip->nexthdr != ICMP6 || *(const __u8 *)(ip + 1) != ECHO_REPLY)
		return 0;
	to = read_addr(&ip->daddr);
	return is_own_address(&to);
}

static __always_inline void note_received(packet *p, __u32 stat, __u32 octets)
{
	if (stat)
		stamp_received(stat, segments(p), octets);
}

/* The same for a packet whose inner one is at `at`. */
static __always_inline void note_inner(packet *p, __u32 stat, __u32 at)
{
	if (stat && !is_probe_reply(p, at))
		stamp_received(stat, segments(p), packet_length(p) - at);
}
