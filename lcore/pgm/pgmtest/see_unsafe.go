// SPDX-License-Identifier: Apache-2.0

package pgmtest

/*
#cgo pkg-config: libdpdk
#cgo CFLAGS: -O3 -g -std=gnu11 -Wall -Wextra -Werror
#cgo CFLAGS: -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2 -fstack-protector-strong -fstack-clash-protection
#include "../pgm.h"

// Data packets that lie one behind the other, as often as said, without a way back to Go between them. Each round is
// later by one cycle, and sequence numbers are moved on by one. The data's first word becomes the number's complement,
// so that checksums stay right.
static void see_rounds(struct pgm *p, uint8_t *packets, uint32_t n, uint32_t len, uint32_t rounds)
{
	uint64_t tsc = 1;
	for (uint32_t r = 0; r < rounds; r++, tsc++)
		for (uint32_t i = 0; i < n; i++) {
			uint8_t *k = packets + (size_t)i * len;
			uint32_t sqn;
			pgm_see(p, k, len, 1, 0, tsc);
			__builtin_memcpy(&sqn, k + 16, 4);
			sqn = __builtin_bswap32(__builtin_bswap32(sqn) + 1);
			__builtin_memcpy(k + 16, &sqn, 4);
			sqn = ~sqn;
			__builtin_memcpy(k + 24, &sqn, 4);
		}
}
*/
import "C"

import "unsafe"

// See shows a struct pgm one payload, as a worker does. A program that calls it must have lcore/pgm, whose tests import
// this package.
func See(tracker unsafe.Pointer, payload []byte, group uint32, direction uint8, tsc uint64) {
	C.pgm_see((*C.struct_pgm)(tracker), (*C.uint8_t)(unsafe.SliceData(payload)), C.uint32_t(len(payload)), C.uint32_t(group),
		C.uint8_t(direction), C.uint64_t(tsc))
}

// SeeRounds shows it data packets of one length many times, each time with the next sequence numbers.
func SeeRounds(tracker unsafe.Pointer, packets []byte, length, rounds int) {
	C.see_rounds((*C.struct_pgm)(tracker), (*C.uint8_t)(unsafe.SliceData(packets)), C.uint32_t(len(packets)/length),
		C.uint32_t(length), C.uint32_t(rounds))
}
