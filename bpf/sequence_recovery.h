/* Sequence recovery, by which the second copy of a replicated packet is eliminated (IEEE 802.1CB §7.4.3.4, the vector
 * algorithm; RFC 8655 §3.2.2.2): the first copy of each number passes. What is far from the last numbers is discarded, until
 * nothing has passed for a while: then the sender has restarted. In TC only. */
#pragma once
#include "maps.h"

/* The number is in a Destination Options header of eight octets, the only option of which is an experimental one (RFC 4727
 * §3.4) that others skip. Over IPv4 and in UDP it is before the inner packet too. */
#define SEQUENCE_HEADER 8
#define SEQUENCE_OPTION 0x1e
struct sequence_header {
	__u8 next, length, option, option_length;
	__be32 sequence;
};

static __always_inline int is_sequence_header(const struct sequence_header *header)
{
	return header->length == 0 && header->option == SEQUENCE_OPTION && header->option_length == sizeof(header->sequence);
}

#if HAS_SKB
/* Numbers ahead of the highest one that are taken for losses. */
#define RECOVERY_AHEAD 65536
/* frerSeqRcvyResetMSec (§10.4.1.7), in nanoseconds. */
#define RECOVERY_RESET 1000000000ULL

MAP(sequences, BPF_MAP_TYPE_HASH, __u32, struct sequence_state, 64, BPF_F_NO_PREALLOC);

enum recovery { PASSED, RESET, ELIMINATED, ROGUE };

/* Moves the history from the highest number to `sequence`, with no number between them accepted. */
static __always_inline void advance(struct sequence_state *state, __u32 sequence, int is_reset)
{
	__u32 from = state->highest / 64, words = (sequence / 64 - from) & (~0U / 64);

	if (is_reset || words > RECOVERY_WORDS)
		words = RECOVERY_WORDS;
	for (__u32 i = 1; i <= RECOVERY_WORDS; i++) {
		if (i > words)
			break;
		state->history[(from + i) & (RECOVERY_WORDS - 1)] = 0;
	}
	state->highest = sequence;
	state->started = 1;
}

/* Whether the first packet with this number passes; the lock is held. */
static __always_inline enum recovery recover_locked(struct sequence_state *state, __u32 sequence, __u64 now)
{
	__u32 word = sequence / 64 & (RECOVERY_WORDS - 1);
	__u64 bit = 1ULL << (sequence & 63);
	__s32 ahead = sequence - state->highest;
	int is_rogue = !state->started || ahead > RECOVERY_AHEAD || ahead < -RECOVERY_WINDOW;

	if (is_rogue && state->started && now - state->accepted < RECOVERY_RESET)
		return ROGUE;
	if (is_rogue || ahead > 0)
		advance(state, sequence, is_rogue);
	if (state->history[word] & bit)
		return ELIMINATED;
	state->history[word] |= bit;
	state->accepted = now;
	return is_rogue ? RESET : PASSED;
}

/* Whether a packet of the tunnel with this number passes; counts why if not. One of a tunnel without replicated flows does.
 * Verified once, and not with each caller. */
__noinline int recover_sequence(__u32 tunnel, __u32 sequence)
{
	struct sequence_state *state = bpf_map_lookup_elem(&sequences, &tunnel);
	__u64 now = bpf_ktime_get_coarse_ns();
	enum recovery result;

	if (!state)
		return 1;
	bpf_spin_lock(&state->lock);
	result = recover_locked(state, sequence, now);
	bpf_spin_unlock(&state->lock);
	if (result == ELIMINATED)
		count(COUNT_ELIMINATED);
	if (result == ROGUE)
		count(COUNT_DROPPED_ROGUE);
	if (result == RESET)
		count(COUNT_RECOVERY_RESETS);
	return result <= RESET;
}
#else
/* At the driver no packet with a number is decapsulated. */
static __always_inline int recover_sequence(__u32 tunnel, __u32 sequence) { return (void)tunnel, (void)sequence, 1; }
#endif
