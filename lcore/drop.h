/* SPDX-License-Identifier: Apache-2.0 */
/* The drop reasons; drop.def is the list. */
#ifndef CAUSEWAY_DROP_H
#define CAUSEWAY_DROP_H

enum drop {
	PASS, /* not dropped: the value that every check returns for a good packet */
#define DROP(name, sentence) DROP_##name,
#include "drop.def"
#undef DROP
	DROP_COUNT
};

/* The name of a reason as metrics and console print it, and its sentence; both static. */
const char *drop_name(enum drop reason);
const char *drop_sentence(enum drop reason);

#endif
