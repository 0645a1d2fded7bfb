/* The maps of the Shim6 programs. None is pinned: contexts do not outlive the daemon, which alone can find another path for
 * them. */
#pragma once
#include "abi.h"
#include "../map_fields.h"

#define MAP(name, kind, keys, values, size, flags) \
	struct { \
		MAP_FIELDS(kind, keys, values, size, flags) \
	} name SEC(".maps")
#define CONTEXTS 1  /* the daemon sets the actual size */

MAP(shim_settings, BPF_MAP_TYPE_ARRAY, __u32, struct shim_settings, 1, 0);
MAP(contexts, BPF_MAP_TYPE_HASH, struct context_key, struct context, CONTEXTS, BPF_F_NO_PREALLOC);
MAP(tags, BPF_MAP_TYPE_HASH, __u64, struct tagged, CONTEXTS, BPF_F_NO_PREALLOC);
/* The traffic of contexts by index, apart from the contexts, so that a context is replaced without touching its traffic. */
MAP(carried, BPF_MAP_TYPE_ARRAY, __u32, struct traffic, CONTEXTS, 0);
/* The notifications that the daemon has requested, by the index of the context. */
MAP(asked, BPF_MAP_TYPE_ARRAY, __u32, __u32, CONTEXTS, 0);
MAP(conversations, BPF_MAP_TYPE_LRU_HASH, struct pair, struct conversation, 16384, 0);

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 256 * 1024);
} events SEC(".maps");

static __always_inline struct shim_settings *get_shim_settings(void)
{
	__u32 zero = 0;
	return bpf_map_lookup_elem(&shim_settings, &zero);
}
