/* SPDX-License-Identifier: Apache-2.0 */
#define BARE
#include "bare.h"

#include <rte_launch.h>

#include "../../lcore/run.c"
#include "../../lcore/worker.c"

int bare_start(struct worker *w, unsigned lcore)
{
	w->stop = false;
	return rte_eal_remote_launch(bare_worker_run, w, lcore);
}
