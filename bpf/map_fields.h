/* The fields of the definition of a map, after which `pinning` may follow. */
#pragma once
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#define MAP_FIELDS(kind, keys, values, size, flags) \
	__uint(type, kind); \
	__type(key, keys); \
	__type(value, values); \
	__uint(max_entries, size); \
	__uint(map_flags, flags);
