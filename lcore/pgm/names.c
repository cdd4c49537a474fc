/* SPDX-License-Identifier: Apache-2.0 */
#include "pgm.h"

#define PGM_COUNT(symbol, sentence) #symbol,
const char *const pgm_count_symbol[PGM_COUNTS] = {
#include "count.def"
};
#undef PGM_COUNT

#define PGM_COUNT(symbol, sentence) sentence,
const char *const pgm_count_sentence[PGM_COUNTS] = {
#include "count.def"
};
#undef PGM_COUNT

#define PGM_FAULT(symbol, sentence) #symbol,
const char *const pgm_fault_symbol[PGM_FAULTS] = {
	"fine",
#include "fault.def"
};
#undef PGM_FAULT
