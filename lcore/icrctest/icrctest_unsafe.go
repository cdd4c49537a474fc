// SPDX-License-Identifier: Apache-2.0

// Package icrctest gives tests of the ICRC each of its versions. The workers use the fastest alone, and stay in C.
package icrctest

/*
#cgo pkg-config: libdpdk
#cgo CFLAGS: -O2 -g -std=gnu11 -Wall -Wextra -Werror
#cgo CFLAGS: -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2 -fstack-protector-strong -fstack-clash-protection
#cgo portable CFLAGS: -DCAUSEWAY_PORTABLE
#include <stddef.h>

#include "../icrc_version.h"

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

static void icrc_use(unsigned v)
{
	icrc_init();
	icrc = icrc_versions[v].fn;
	icrc_burst = icrc_versions[v].burst;
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

	_ "causeway/lcore" // has the versions
)

// Kind says what stands in front of the BTH, and so which bits the ICRC reads as ones.
type Kind C.enum_icrc_kind

// The kinds of packet that the workers meet on Ethernet.
const (
	IPv4 Kind = C.ICRC_IPV4 // RoCEv2: IPv4 header without options, and UDP
	IPv6 Kind = C.ICRC_IPV6 // RoCEv2: IPv6 header without extensions, and UDP
	GRH  Kind = C.ICRC_GRH  // RoCEv1: a GRH
)

// Version is one version of the ICRC.
type Version struct {
	name  string
	index C.uint // in C's list
}

// Versions returns those that this CPU can run, fastest first.
func Versions() []Version {
	C.icrc_init()
	var vs []Version
	for i := range C.icrc_nversions {
		if v := C.icrc_at(i); v.runs_here != 0 {
			vs = append(vs, Version{C.GoString(v.name), i})
		}
	}
	return vs
}

// String returns the version's name.
func (v Version) String() string { return v.name }

// Use makes workers use the version, in place of the fastest. Only while none runs.
func (v Version) Use() { C.icrc_use(v.index) }

// One computes the ICRC of p, from the network header up to and without the ICRC field. The value is as stored by a
// little-endian 32-bit store.
func (v Version) One(kind Kind, p []byte) uint32 {
	return uint32(C.icrc_one(v.index, C.enum_icrc_kind(kind), bytePtr(p), C.size_t(len(p))))
}

// Job is one packet of a burst.
type Job struct {
	Kind   Kind
	Packet []byte
}

// Burst computes the ICRCs of all jobs by one call of the version's burst form.
func (v Version) Burst(jobs []Job) []uint32 {
	var pin runtime.Pinner
	defer pin.Unpin()
	c := make([]C.struct_icrc_job, len(jobs))
	for i, j := range jobs {
		p := unsafe.SliceData(j.Packet)
		pin.Pin(p)
		c[i] = C.struct_icrc_job{p: (*C.uint8_t)(p), len: C.uint32_t(len(j.Packet)), kind: C.enum_icrc_kind(j.Kind)}
	}
	out := make([]uint32, len(jobs))
	C.icrc_many(v.index, unsafe.SliceData(c), C.uint(len(c)), (*C.uint32_t)(unsafe.SliceData(out)))
	return out
}

// Repeat computes the ICRC of p as many times as rounds says, in C.
func (v Version) Repeat(kind Kind, p []byte, rounds int) uint32 {
	return uint32(C.icrc_repeat(v.index, C.enum_icrc_kind(kind), bytePtr(p), C.size_t(len(p)), C.size_t(rounds)))
}

func bytePtr(p []byte) *C.uint8_t { return (*C.uint8_t)(unsafe.SliceData(p)) }
