// SPDX-License-Identifier: Apache-2.0

/* The choice of the ICRC version, and what all versions share. */
#include <pthread.h>

#include "icrc_version.h"

/* The place of byte i of the network header in a mask. */
#define AT(i) (ICRC_PAD + (i))

/* IBTA Annex A17 (RoCEv2) and A16 (RoCEv1). Each line ends with BTH byte 4, which holds FECN and BECN. */
const uint8_t icrc_mask[ICRC_KINDS][ICRC_MASK_LEN] = {
	[ICRC_IPV4] =
		{
			[AT(1)] = 0xff,  /* TOS */
			[AT(8)] = 0xff,  /* TTL */
			[AT(10)] = 0xff, /* header checksum */
			[AT(11)] = 0xff,
			[AT(26)] = 0xff, /* UDP checksum */
			[AT(27)] = 0xff,
			[AT(32)] = 0xff,
		},
	[ICRC_IPV6] =
		{
			[AT(0)] = 0x0f, /* traffic class, flow label */
			[AT(1)] = 0xff,
			[AT(2)] = 0xff,
			[AT(3)] = 0xff,
			[AT(7)] = 0xff,  /* hop limit */
			[AT(46)] = 0xff, /* UDP checksum */
			[AT(47)] = 0xff,
			[AT(52)] = 0xff,
		},
	[ICRC_GRH] =
		{
			[AT(0)] = 0x0f, /* TClass, FlowLabel */
			[AT(1)] = 0xff,
			[AT(2)] = 0xff,
			[AT(3)] = 0xff,
			[AT(7)] = 0xff, /* HopLmt */
			[AT(44)] = 0xff,
		},
};

const uint8_t icrc_seed[ICRC_MASK_LEN] = {
	[AT(0)] = ICRC_SEED & 0xff,
	[AT(1)] = ICRC_SEED >> 8 & 0xff,
	[AT(2)] = ICRC_SEED >> 16 & 0xff,
	[AT(3)] = ICRC_SEED >> 24,
};

struct icrc_version icrc_versions[] = {
#ifdef CAUSEWAY_X86
	{"avx512", icrc_avx512, icrc_avx512_burst, 0},
	{"pclmul", icrc_pclmul, icrc_pclmul_burst, 0},
#endif
	{"table", icrc_table, icrc_table_burst, 1},
};
const unsigned icrc_nversions = sizeof icrc_versions / sizeof icrc_versions[0];

static uint32_t icrc_first(enum icrc_kind kind, const uint8_t *p, uint32_t len)
{
	icrc_init();
	return icrc(kind, p, len);
}

static void icrc_burst_first(const struct icrc_job *jobs, unsigned n, uint32_t *out)
{
	icrc_init();
	icrc_burst(jobs, n, out);
}

icrc_fn icrc = icrc_first;
icrc_burst_fn icrc_burst = icrc_burst_first;

static const struct icrc_version *chosen;

/* Marks the versions that this CPU, and the kernel's saving of its registers, can run. */
static void look_at_cpu(void)
{
#ifdef CAUSEWAY_X86
	__builtin_cpu_init();
	icrc_versions[0].runs_here = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
				     __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("vpclmulqdq");
	icrc_versions[1].runs_here = __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");
	icrc_words_init();
#endif
}

static void choose(void)
{
	icrc_table_init();
	look_at_cpu();
	chosen = icrc_versions;
	while (!chosen->runs_here)
		chosen++;
	icrc = chosen->fn;
	icrc_burst = chosen->burst;
}

const char *icrc_init(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, choose);
	return chosen->name;
}
