/* Lists TCP connections that wait for a retransmission timer which has backed off, for the daemon to wake them after a
 * change of path (RFC 6069). Fields of the kernel are found by name when the program is loaded. */
#include <linux/bpf.h>
#include <linux/in6.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define FOUND __attribute__((preserve_access_index))

struct seq_file;
struct bpf_iter_meta { struct seq_file *seq; } FOUND;
struct sock_common {
	__be16 skc_dport;
	__u16 skc_num;
	unsigned short skc_family;
	volatile unsigned char skc_state;
	struct in6_addr skc_v6_daddr, skc_v6_rcv_saddr;
} FOUND;
struct inet_connection_sock { __u8 icsk_backoff; } FOUND;
struct tcp_sock { struct inet_connection_sock inet_conn; __u32 snd_una, snd_nxt; } FOUND;
struct tcp6_sock { struct tcp_sock tcp; } FOUND;
struct bpf_iter__tcp { struct bpf_iter_meta *meta; struct sock_common *sk_common; } FOUND;

/* linux/src/shim/transport.rs reads the same. */
struct stalled {
	struct in6_addr local, peer;
	__be16 local_port, peer_port;
	__be32 unacknowledged;
	__u32 backoff;
};

SEC("iter/tcp") int stalled(struct bpf_iter__tcp *ctx)
{
	struct sock_common *common = ctx->sk_common;
	struct stalled found = {};
	struct tcp6_sock *socket;

	if (!common || common->skc_family != 10)
		return 0;
	socket = bpf_skc_to_tcp6_sock(common);
	if (!socket || socket->tcp.snd_una == socket->tcp.snd_nxt || !socket->tcp.inet_conn.icsk_backoff)
		return 0;
	found.local = common->skc_v6_rcv_saddr;
	found.peer = common->skc_v6_daddr;
	found.local_port = bpf_htons(common->skc_num);
	found.peer_port = common->skc_dport;
	found.unacknowledged = bpf_htonl(socket->tcp.snd_una);
	found.backoff = socket->tcp.inet_conn.icsk_backoff;
	bpf_seq_write(ctx->meta->seq, &found, sizeof(found));
	return 0;
}

char _license[] SEC("license") = "Dual MIT/GPL";
