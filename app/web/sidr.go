// SPDX-License-Identifier: Apache-2.0

package web

import (
	"fmt"
	"io"

	"causeway/lcore"
	"causeway/lcore/manage"
)

// writeSIDR tells what became of requests for services. The direction is that of the request.
func writeSIDR(w io.Writer, s *manage.Status) {
	for d := range s.Counters.Services {
		direction := lcore.Direction(d)
		for r, n := range s.Counters.Services[d] {
			counter(w, fmt.Sprintf(`causeway_sidr_total{direction="%v",result="%v"}`, direction, manage.ServiceResult(r)), n)
		}
		gauge(w, fmt.Sprintf(`causeway_sidr_pending{direction="%v"}`, direction), uint64(s.Asked[d]))
	}
}
