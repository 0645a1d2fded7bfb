/* The maps of the tunnel programs. All are pinned by name, so that they outlive the daemon: a name that is changed here is
 * not found by the programs of a running host. The sizes are minima; the daemon sets the actual ones. */
#pragma once
#include "abi.h"
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include "relayed_map.h"

MAP(settings, BPF_MAP_TYPE_ARRAY, __u32, struct settings, 1, 0);
/* Two sets of one table per side; the table of side `s` is at `SIDES * settings.length_set + s`. */
MAP(lengths, BPF_MAP_TYPE_ARRAY, __u32, struct prefix_lengths, 2 * SIDES, 0);
MAP(prefixes, BPF_MAP_TYPE_HASH, struct prefix_key, struct prefix_entry, 64, BPF_F_NO_PREALLOC);
/* Mappable, because its values then begin at a page: each slot is one cache line. */
MAP(slots, BPF_MAP_TYPE_ARRAY, __u32, struct prefix_slot, 64, BPF_F_MMAPABLE);
MAP(tunnels, BPF_MAP_TYPE_HASH, __u32, struct tunnel, 64, BPF_F_NO_PREALLOC);
MAP(rules, BPF_MAP_TYPE_HASH, struct rules_key, struct rules, 64, BPF_F_NO_PREALLOC);
/* The local tunnel endpoints, and the index of each in `locals`: only a packet to one of these is ever decapsulated. */
MAP(ends, BPF_MAP_TYPE_HASH, struct addr, __u32, 64, BPF_F_NO_PREALLOC);
/* Local addresses of mobility signalling over IPv4: their mobility messages and ESP are left to the daemon, and their echoes
 * are probes. */
MAP(signalling, BPF_MAP_TYPE_HASH, struct addr, __u8, SIGNALLING_ADDRESSES, BPF_F_NO_PREALLOC);
MAP(locals, BPF_MAP_TYPE_ARRAY, __u32, struct addr, LOCAL_ENDPOINTS, 0);
/* The next hop cache, the flow cache, and the interfaces with the XDP program. */
MAP(hops, BPF_MAP_TYPE_PERCPU_ARRAY, __u32, struct next_hop, 64, 0);
MAP(passages, BPF_MAP_TYPE_PERCPU_ARRAY, __u32, struct flow_entry, 64, 0);
MAP(fronts, BPF_MAP_TYPE_ARRAY, __u32, struct xdp_iface, XDP_IFACES, 0);
/* The traffic of paths, by the number that a path has; whether the daemon is to be notified of the next packet sent by it;
 * and these notifications: the number. */
MAP(path_stamps, BPF_MAP_TYPE_ARRAY, __u32, struct path_stamp, PATH_STATS, 0);
MAP(path_counts, BPF_MAP_TYPE_PERCPU_ARRAY, __u32, struct path_count, PATH_STATS, 0);
MAP(path_wanted, BPF_MAP_TYPE_ARRAY, __u32, __u32, PATH_STATS, 0);
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} path_events SEC(".maps");
/* The rules of relayed connections, by prefix; and the SYNs that are held. */
MAP(bonds, BPF_MAP_TYPE_HASH, struct prefix_key, struct bond, 64, BPF_F_NO_PREALLOC);
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 65536);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} syns SEC(".maps");
MAP(counters, BPF_MAP_TYPE_PERCPU_ARRAY, __u32, __u64, COUNTERS, 0);

static __always_inline void count(__u32 what)
{
	__u64 *value = bpf_map_lookup_elem(&counters, &what);
	if (value)
		(*value)++;
}

static __always_inline struct settings *get_settings(void)
{
	__u32 zero = 0;
	return bpf_map_lookup_elem(&settings, &zero);
}
