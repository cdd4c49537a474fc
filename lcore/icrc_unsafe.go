// SPDX-License-Identifier: Apache-2.0

package lcore

/*
#include <stddef.h>

#include "icrc_version.h"

static struct icrc_version icrc_at(unsigned i)
{
	return icrc_versions[i];
}

static uint32_t icrc_one(unsigned v, enum icrc_kind kind, const uint8_t *p, size_t len)
{
	return icrc_versions[v].fn(kind, p, len);
}

static void icrc_many(unsigned v, const struct icrc_job *jobs, unsigned n, uint32_t *out)
{
	icrc_versions[v].burst(jobs, n, out);
}

#define REPEAT_BURST 64

// Computes the same ICRC rounds times, in bursts, for measurements without a crossing per packet.
static uint32_t icrc_repeat(unsigned v, enum icrc_kind kind, const uint8_t *p, size_t len, size_t rounds)
{
	struct icrc_job jobs[REPEAT_BURST];
	uint32_t out[REPEAT_BURST] = {0};
	for (unsigned i = 0; i < REPEAT_BURST; i++)
		jobs[i] = (struct icrc_job){.p = p, .len = len, .kind = kind};
	for (; rounds > REPEAT_BURST; rounds -= REPEAT_BURST)
		icrc_versions[v].burst(jobs, REPEAT_BURST, out);
	icrc_versions[v].burst(jobs, rounds, out);
	return out[0];
}
*/
import "C"

import (
	"runtime"
	"unsafe"
)

func chooseICRC() string { return C.GoString(C.icrc_init()) }

func runnableICRC() []icrcVersion {
	chooseICRC()
	var vs []icrcVersion
	for i := range int(C.icrc_nversions) {
		if v := C.icrc_at(C.uint(i)); v.runs_here != 0 {
			vs = append(vs, icrcVersion{C.GoString(v.name), i})
		}
	}
	return vs
}

func icrcOne(index int, kind ICRCKind, p []byte) uint32 {
	return uint32(C.icrc_one(C.uint(index), C.enum_icrc_kind(kind), bytePtr(p), C.size_t(len(p))))
}

// icrcJob is one packet of a burst.
type icrcJob struct {
	kind ICRCKind
	p    []byte
}

// icrcBurst computes the ICRCs of all jobs by one call of a version's burst form.
func icrcBurst(index int, jobs []icrcJob) []uint32 {
	var pin runtime.Pinner
	defer pin.Unpin()
	c := make([]C.struct_icrc_job, len(jobs))
	for i, j := range jobs {
		p := unsafe.SliceData(j.p)
		pin.Pin(p)
		c[i] = C.struct_icrc_job{p: (*C.uint8_t)(p), len: C.uint32_t(len(j.p)), kind: C.enum_icrc_kind(j.kind)}
	}
	out := make([]uint32, len(jobs))
	C.icrc_many(C.uint(index), unsafe.SliceData(c), C.uint(len(c)), (*C.uint32_t)(unsafe.SliceData(out)))
	return out
}

// icrcRepeat computes the ICRC of p as many times as rounds says, in C.
func icrcRepeat(index int, kind ICRCKind, p []byte, rounds int) uint32 {
	return uint32(C.icrc_repeat(C.uint(index), C.enum_icrc_kind(kind), bytePtr(p), C.size_t(len(p)), C.size_t(rounds)))
}

func bytePtr(p []byte) *C.uint8_t { return (*C.uint8_t)(unsafe.SliceData(p)) }
