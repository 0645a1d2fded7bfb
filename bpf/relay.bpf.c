/* Gives SYNs of relayed connections to the listening socket of the relay, whatever their destination: the relay has put
 * their addresses and ports into the map `relayed`, and the routing rule for the mark of relay.h delivers them here. */
#include "relayed_map.h"
#include <bpf/bpf_endian.h>

#define AF_INET6 10
#define TCP 6

struct {
	__uint(type, BPF_MAP_TYPE_SOCKMAP);
	__type(key, __u32);
	__type(value, __u32);
	__uint(max_entries, 1);
} listener SEC(".maps");

static __always_inline struct addr mapped(__u32 a)
{
	return (struct addr){ .w = { 0, 0, bpf_htonl(0xffff), a } };
}

SEC("sk_lookup") int relay_listener(struct bpf_sk_lookup *c)
{
	struct relay_key key = {};
	struct bpf_sock *socket;
	__u32 zero = 0, remote, local;

	if (c->protocol != TCP)
		return SK_PASS;
	/* All fields are read in any case: the verifier accepts constant offsets into the context only, which clang does not keep
	 * where it merges branches. */
	key.source = (struct addr){ .w = { c->remote_ip6[0], c->remote_ip6[1], c->remote_ip6[2], c->remote_ip6[3] } };
	key.destination = (struct addr){ .w = { c->local_ip6[0], c->local_ip6[1], c->local_ip6[2], c->local_ip6[3] } };
	remote = c->remote_ip4;
	local = c->local_ip4;
	asm volatile("" : "+r"(remote), "+r"(local));
	if (c->family != AF_INET6) {
		key.source = mapped(remote);
		key.destination = mapped(local);
	}
	key.source_port = bpf_ntohs(c->remote_port);
	key.destination_port = c->local_port;
	if (!bpf_map_lookup_elem(&relayed, &key))
		return SK_PASS;
	socket = bpf_map_lookup_elem(&listener, &zero);
	if (!socket)
		return SK_PASS;
	bpf_sk_assign(c, socket, 0);
	bpf_sk_release(socket);
	return SK_PASS;
}

char _license[] SEC("license") = "Dual MIT/GPL";
