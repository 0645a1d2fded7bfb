/* The map that the tunnel programs and the program of the relay's socket share. */
#pragma once
#include "abi.h"
#include "map_fields.h"

#define MAP(name, kind, keys, values, size, flags) \
	struct { \
		MAP_FIELDS(kind, keys, values, size, flags) \
		__uint(pinning, LIBBPF_PIN_BY_NAME); \
	} name SEC(".maps")

/* The relayed connections. */
MAP(relayed, BPF_MAP_TYPE_HASH, struct relay_key, __u32, RELAYED_CONNECTIONS, BPF_F_NO_PREALLOC);
