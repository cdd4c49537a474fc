/* SPDX-License-Identifier: Apache-2.0 */
#define BARE
#include "bare.h"

#include "../../lcore/roce_to_ib.c"
