/* The maps. All are pinned by name, so they outlive the daemon. Sizes here are least sizes; the daemon sets them. */
#pragma once
#include "abi.h"
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#define MAP(name, kind, keys, values, size, flags) \
	struct { \
		__uint(type, kind); \
		__type(key, keys); \
		__type(value, values); \
		__uint(max_entries, size); \
		__uint(map_flags, flags); \
		__uint(pinning, LIBBPF_PIN_BY_NAME); \
	} name SEC(".maps")

MAP(settings, BPF_MAP_TYPE_ARRAY, __u32, struct settings, 1, 0);
/* Twice a table for each side, that of the side `s` at `SIDES * settings.lengths + s`. */
MAP(lengths, BPF_MAP_TYPE_ARRAY, __u32, struct lengths, 2 * SIDES, 0);
MAP(prefixes, BPF_MAP_TYPE_HASH, struct prefix, struct way, 64, BPF_F_NO_PREALLOC);
/* Begins with a page, so that each slot is one line of memory. */
MAP(slots, BPF_MAP_TYPE_ARRAY, __u32, struct slot, 64, BPF_F_MMAPABLE);
MAP(tunnels, BPF_MAP_TYPE_HASH, __u32, struct tunnel, 64, BPF_F_NO_PREALLOC);
MAP(rules, BPF_MAP_TYPE_HASH, struct rules_key, struct rules, 64, BPF_F_NO_PREALLOC);
/* Our ends of tunnels, and the place of each in `locals`: only what is sent to one of these is ever taken for a tunnelled
 * packet. */
MAP(ends, BPF_MAP_TYPE_HASH, struct addr, __u32, 64, BPF_F_NO_PREALLOC);
MAP(locals, BPF_MAP_TYPE_ARRAY, __u32, struct addr, LOCALS, 0);
MAP(hops, BPF_MAP_TYPE_PERCPU_ARRAY, __u32, struct hop, 64, 0);
MAP(passages, BPF_MAP_TYPE_PERCPU_ARRAY, __u32, struct passage, 64, 0);
MAP(fronts, BPF_MAP_TYPE_ARRAY, __u32, struct front, FRONTS, 0);
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
