/* SPDX-License-Identifier: Apache-2.0 */
#define BARE
#include "bare.h"

#include "../../lcore/ib_to_roce.c"
