/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAUSEWAY_DPDKTEST_H
#define CAUSEWAY_DPDKTEST_H

#include <stdint.h>

struct dpdk_flow_rule;

/* Writes the rule as rte_flow gets it: item names, and the headers' bytes as spec&mask in hex. */
int dpdktest_flow_show(const struct dpdk_flow_rule *r, char *out, unsigned size);
/* Asks the PMD whether it would take the rule. */
int dpdktest_flow_validate(uint16_t port, const struct dpdk_flow_rule *r);

#endif
