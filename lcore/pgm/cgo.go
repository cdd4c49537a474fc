// SPDX-License-Identifier: Apache-2.0

// Package pgm knows the streams of Pragmatic General Multicast (RFC 3208) that pass a worker: what was lost, came late
// or twice, was asked for and repaired. Workers look at payloads in C (pgm.h); here trackers are made and read.
//
//	source ── SPM, ODATA, RDATA, NCF, POLL ──▶ receivers      a stream's name, its TSI: GSI and source port
//	source ◀── NAK, NNAK, POLR, SPMR, ACK ──── receivers      the source's port is their destination port
package pgm

/*
#cgo pkg-config: libdpdk
#cgo CFLAGS: -O3 -g -std=gnu11 -Wall -Wextra -Werror
#cgo CFLAGS: -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2 -fstack-protector-strong -fstack-clash-protection
*/
import "C"
