/* SPDX-License-Identifier: Apache-2.0 */
/* What a fuzzer finds. */
#ifndef CAUSEWAY_LCORE_FUZZ_CHECK_H
#define CAUSEWAY_LCORE_FUZZ_CHECK_H

#define CHECK(what)                                                                                                    \
	do {                                                                                                           \
		if (!(what))                                                                                           \
			check_failed(#what, __FILE__, __LINE__);                                                       \
	} while (0)
void check_failed(const char *what, const char *file, int line) __attribute__((noreturn));

#endif
