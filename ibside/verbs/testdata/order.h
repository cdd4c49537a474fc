/* SPDX-License-Identifier: Apache-2.0 */
/* In place of the barriers of direct.h: each has the device look at what has been stored by then (rings.c). */
#ifndef CAUSEWAY_VERBS_ORDER_H
#define CAUSEWAY_VERBS_ORDER_H

void rings_requests_written(void);
void rings_records_written(void);
void rings_buffers_written(void);
void rings_bell(const void *at);

#define direct_requests_before_records() rings_requests_written()
#define direct_buffers_before_record() rings_buffers_written()
#define direct_records_before_bells() rings_records_written()
#define direct_flush_bell(x) rings_bell(x)
#define direct_owner_before_rest() __asm__ volatile("" ::: "memory")

#endif
