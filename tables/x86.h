/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one place that decides whether x86's vector instructions may be used. CAUSEWAY_X86 is defined when they may: then
 * those of SSE4.1 are included here. The few files that use more include immintrin.h, which takes a compiler longer than
 * most of this program's files. Everywhere that it is used there is a portable branch of the same results; tests build
 * that one on x86 with CAUSEWAY_PORTABLE. ThreadSanitizer understands atomic loads, not vector loads.
 */
#ifndef CAUSEWAY_X86_H
#define CAUSEWAY_X86_H

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define CAUSEWAY_PORTABLE 1
#endif
#endif

#if defined(__x86_64__) && !defined(CAUSEWAY_PORTABLE) && !defined(__SANITIZE_THREAD__)
#define CAUSEWAY_X86 1
#include <smmintrin.h>
#endif

#endif
