/* What the daemon and the programs both know: the values of the maps. linux/src/bpf/abi.rs writes the same, field by
 * field. A change of any layout needs a new LAYOUT there, so that programs never read a predecessor's maps. */
#pragma once
#include <linux/types.h>

#define PATHS 8     /* of one tunnel */
#define FENCES 6    /* prefixes kept inside a tunnel's value; a tunnel with more is checked through the prefix map */
#define RULES 16    /* flow rules of one tunnel */
#define LENGTHS 16  /* different prefix lengths in use, on each side */
#define NO_LENGTH 255
#define LOCALS 256  /* our ends of tunnels that ways can name */
#define CARRIED_END (LOCALS + 1)  /* what ends over IPv4 have for a place */
#define ANY_PROTOCOL 0xffff
#define FRONTS 256  /* interfaces whose frames are taken before the kernel has them */

/* PAST is no side: destinations that the host's routes lead past every tunnel. */
enum side { FAR, NEAR, PAST, SIDES };

struct addr { __u32 w[4]; };

/* Addresses are read and written by halves, and stand so that this may be done: in packets by themselves. */
typedef __u64 __attribute__((may_alias)) half;
#define BY_HALVES __attribute__((aligned(sizeof(half))))

struct settings {
	__u32 device;      /* interface index of the tunnel device */
	__u32 generation;  /* a cached next hop of another generation is void */
	__u32 lengths;     /* which of the two sets of tables of lengths holds */
	__u32 hop_mask;    /* size of the next hop cache less 1, the size being a power of two */
	__u32 epoch;       /* what was decided of packets out of tunnels in another epoch is void: tunnels have changed */
	__u32 past;        /* not 0: some destinations are led past the tunnels */
	__u32 life;        /* of a cached next hop: 2 to this power jiffies, a quarter of a second at most */
	__u32 slot_mask;   /* number of slots less 1, it being a power of two */
	__u32 hooked;      /* packets of these families pass hooks of a firewall: the kernel forwards them */
};

/* Bits of `settings.hooked`: families of inner packets. */
enum { HOOKED_IP6 = 1, HOOKED_IP4 = 2 };

/* Prefix lengths in use on one side, longest first: the address is masked with each and looked up, unless it lies outside
 * of the one network that holds all prefixes of this length. */
struct length { struct addr mask, around, around_mask; __u32 bits; };
struct lengths { struct length of[LENGTHS]; };

struct prefix { struct addr address; __u8 bits, side; __u16 zero; };

/* What a prefix leads to. Nearly every tunnel of a home agent has one path and no flow rules, and holds every near
 * address: then all that its packets need is here. With a hundred thousand tunnels each line of memory is one that no
 * cache has, and an entry of this size takes two that lie together. */
struct way {
	__u32 tunnel;
	__u32 era;      /* in which gateway and link were asked for; the daemon writes zero */
	__u16 mtu;      /* largest inner packet, octets */
	__u8 whole;     /* not 0: all is told here */
	__u8 local;     /* our end of the path, by its place in `locals` */
	__u32 link;     /* by which the gateway is reached */
	struct addr remote, gateway;
} BY_HALVES;

/* The way of a far prefix of at most 64 bits, at the last of these bits. */
struct slot {
	__u64 number;   /* the prefix's bits as a number */
	__u32 bits;     /* how many there are; 0: the slot is empty */
	__u32 seal;     /* what the daemon wrote, stirred */
	struct way way;
};

/* How packets leave by a path: with an outer header; without, `remote` being a neighbour on `link`; or the daemon carries
 * them by IPv4, and is handed them with an outer header whose addresses tell it both ends (RFC 5555). */
enum { WRAPPED, HANDED, CARRIED };

struct path {
	struct addr local, remote;
	__u32 link;        /* 0: as the routing tables say */
	__u32 mtu;         /* largest inner packet, octets */
	__u16 bid, weight;
	__u32 kind;
} BY_HALVES;

/* Where a path leads: what the programs asked the routing tables last, and of which state of the tunnel. The daemon
 * writes zeros. */
struct route {
	__u32 link, era, version, zero;
	struct addr gateway;
};

struct lane { struct path path; struct route route; };
struct fence { struct addr address, mask; };

enum { ALL = 1, MORE = 4 };  /* shifted by the side: holds every address; has more prefixes than the fences show */

struct tunnel {
	__u32 id, version;
	__u8 flags, paths, fences, near;  /* near: bit i is set if fence i is of the near side */
	__u32 rules, weight, zero;
	struct lane lane[PATHS];
	struct fence fence[FENCES];
};

/* Flow rules are a value of their own because few tunnels have any. The version ties them to the tunnel's value. */
struct rules_key { __u32 tunnel, version; };
struct rule {
	struct addr source, source_mask, destination, destination_mask;
	__u16 protocol, source_first, source_last, destination_first, destination_last, bid;
};
struct rules { struct rule of[RULES]; };

/* What leads to a neighbour, in a cache of each processor: found by a packet's addresses, or by the gateway of a path
 * (`from` unspecified, `wanted` its link). */
struct hop {
	struct addr from, to;
	struct addr local, remote;  /* of the one outer header that such packets came in and were judged with in `epoch` */
	__u64 stamp;       /* jiffies: reading a clock costs as much as all else here */
	__u32 link, generation, mtu, epoch;
	__u8 mac[12];      /* destination, source */
	__u32 wanted;      /* the link asked for */
};

/* What was decided of a flow's last packet into a tunnel, in a cache of each processor. */
struct passage {
	struct addr from, to;
	struct path path;
	__u64 stamp;       /* of the next hop */
	__u32 hash, ports, protocol;
	__u32 link, generation, epoch;
	__u8 mac[12];      /* destination, source */
	__u32 arrived;     /* the interface it came in by; 0: this host's own flow */
};

/* An interface whose frames are taken at the driver, at its number modulo FRONTS. */
struct front {
	__u32 link;
	__u16 mac[3];
	__u8 sends, zero;  /* sends: not 0 if frames taken elsewhere can be sent by it */
};

enum counter {
	ENCAPSULATED, ENCAPSULATED_SLOW, DECAPSULATED, HAIRPINNED,
	DROPPED_SOURCE, DROPPED_SCOPE, DROPPED_ECN, DROPPED_FORM, DROPPED_NO_TUNNEL, DROPPED_NO_PATH, DROPPED_NO_ROUTE,
	DROPPED_TOO_BIG, DROPPED_ROOM, HANDED_OVER, TO_BE_CUT, TO_BE_CARRIED, ENCAPSULATED_XDP, DECAPSULATED_XDP, HAIRPINNED_XDP,
	TO_BE_SEGMENTED, DROPPED_NESTED,
	COUNTERS
};
