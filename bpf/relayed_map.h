/* The map that the tunnel programs and the program of the relay's socket share. */
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

/* The relayed connections. */
MAP(relayed, BPF_MAP_TYPE_HASH, struct relay_key, __u32, RELAYED_CONNECTIONS, BPF_F_NO_PREALLOC);
