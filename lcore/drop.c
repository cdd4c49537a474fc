/* SPDX-License-Identifier: Apache-2.0 */
#include "drop.h"

static const char *const names[DROP_COUNT] = {
	"pass",
#define DROP(name, sentence) #name,
#include "drop.def"
#undef DROP
};

static const char *const sentences[DROP_COUNT] = {
	"the packet was not dropped",
#define DROP(name, sentence) sentence,
#include "drop.def"
#undef DROP
};

const char *drop_name(enum drop reason)
{
	return reason < DROP_COUNT ? names[reason] : "unknown";
}

const char *drop_sentence(enum drop reason)
{
	return reason < DROP_COUNT ? sentences[reason] : "unknown";
}
