/* Lists the TCP connections whose retransmission timer has backed off, so that the daemon can have them retransmit after a
 * change of path (RFC 6069). Fields of kernel structures are relocated by name (CO-RE) when the program is loaded. */
#include <linux/bpf.h>
#include <linux/in6.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define CORE __attribute__((preserve_access_index))

struct seq_file;
struct bpf_iter_meta { struct seq_file *seq; } CORE;
struct sock_common {
	__be16 skc_dport;
	__u16 skc_num;
	unsigned short skc_family;
	volatile unsigned char skc_state;
	struct in6_addr skc_v6_daddr, skc_v6_rcv_saddr;
} CORE;
struct inet_connection_sock { __u8 icsk_backoff; } CORE;
struct tcp_sock { struct inet_connection_sock inet_conn; __u32 snd_una, snd_nxt; } CORE;
struct tcp6_sock { struct tcp_sock tcp; } CORE;
struct bpf_iter__tcp { struct bpf_iter_meta *meta; struct sock_common *sk_common; } CORE;

/* linux/src/shim/transport.rs parses the same. */
struct backed_off {
	struct in6_addr local, peer;
	__be16 local_port, peer_port;
	__be32 unacknowledged;
	__u32 backoff;
};

SEC("iter/tcp") int stalled(struct bpf_iter__tcp *ctx)
{
	struct sock_common *common = ctx->sk_common;
	struct backed_off row = {};
	struct tcp6_sock *socket;

	if (!common || common->skc_family != 10)
		return 0;
	socket = bpf_skc_to_tcp6_sock(common);
	if (!socket || socket->tcp.snd_una == socket->tcp.snd_nxt || !socket->tcp.inet_conn.icsk_backoff)
		return 0;
	row.local = common->skc_v6_rcv_saddr;
	row.peer = common->skc_v6_daddr;
	row.local_port = bpf_htons(common->skc_num);
	row.peer_port = common->skc_dport;
	row.unacknowledged = bpf_htonl(socket->tcp.snd_una);
	row.backoff = socket->tcp.inet_conn.icsk_backoff;
	bpf_seq_write(ctx->meta->seq, &row, sizeof(row));
	return 0;
}

char _license[] SEC("license") = "Dual MIT/GPL";
