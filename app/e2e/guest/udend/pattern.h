// SPDX-License-Identifier: Apache-2.0

/* Test payloads whose every byte can be checked by a receiver that knows nothing
 * but the payload: seq and length decide all of it. The Go twin is pattern.go.
 *
 *   0        4        8                              length
 *   +--------+--------+---------------------------------+
 *   | crc BE | seq BE | byte i = noise(seq, i)          |
 *   +--------+--------+---------------------------------+
 *
 * crc is the CRC-32 of Ethernet over all that follows it. A payload below 8 bytes
 * has no stamp: all its bytes are noise(length, i). */

#ifndef UDEND_PATTERN_H
#define UDEND_PATTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PATTERN_STAMP = 8 };

/* Writes the payload of n bytes that carries seq. */
void pattern_write(uint8_t *b, size_t n, uint32_t seq);

/* True if b is a payload that pattern_write makes; *seq is then what it carries,
 * or 0 below 8 bytes. */
bool pattern_check(const uint8_t *b, size_t n, uint32_t *seq);

/* The CRC-32 of Ethernet, zlib and Go's hash/crc32.IEEE. */
uint32_t crc32_ieee(const uint8_t *b, size_t n);

#endif
