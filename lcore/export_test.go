// SPDX-License-Identifier: Apache-2.0

package lcore

import "time"

// Until is SetDeadline for clocks that have run apart: a TSC, and for how long the system's clock is to run.
func (r Lease) Until(tsc uint64, left time.Duration) { r.until(tsc, 0, left) }
