/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one place that decides whether x86's vector instructions may be used. CAUSEWAY_X86 is defined when they may: then
 * those of SSE4.1 are included here, and all where CAUSEWAY_X86_ALL is defined before: immintrin.h takes a compiler
 * longer than most of this program's files. Everywhere that it is used there is a portable branch of the same results;
 * the build tag "portable" of Go makes that one on x86. ThreadSanitizer understands atomic loads, not vector loads.
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
#ifdef CAUSEWAY_X86_ALL
#include <immintrin.h>
#else
#include <smmintrin.h>
#endif
#endif

#endif
