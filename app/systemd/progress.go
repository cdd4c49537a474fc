// SPDX-License-Identifier: Apache-2.0

package systemd

import (
	"fmt"

	"causeway/lcore"
	"causeway/lcore/manage"
)

// progress is a reading of the counters that must keep moving: each worker's loops and management's publications.
type progress struct {
	workers    []uint64
	management uint64
}

func progressOf(workers []lcore.Counters, status manage.Status) progress {
	p := progress{management: status.Publication}
	for i := range workers {
		p.workers = append(p.workers, workers[i].Loops)
	}
	return p
}

// stalled names a worker, or management, that made no progress since an earlier reading; "" when all did. A bridge
// without workers has stopped.
func (p progress) stalled(earlier progress) string {
	if len(p.workers) == 0 {
		return "no worker is running"
	}
	for i, loops := range p.workers {
		if i < len(earlier.workers) && loops == earlier.workers[i] || loops == 0 {
			return fmt.Sprintf("worker %d makes no progress", i)
		}
	}
	if p.management == earlier.management {
		return "management makes no progress"
	}
	return ""
}

// statusLine is the line that systemctl status shows.
func statusLine(at state, s manage.Status, stalled string, faults []string) string {
	switch {
	case at == stopping:
		return "Stopping"
	case stalled != "":
		return "Watchdog not triggered: " + stalled
	case at == reloading:
		return "Reloading the configuration"
	case len(faults) > 0:
		return "Not ready: " + faults[0]
	case at == starting || !s.Ready:
		return fmt.Sprintf("Waiting for %d joins and paths", s.Waiting)
	}
	return fmt.Sprintf("Bridging: %s, %s, %s, %s", counted(s.Groups, "group"), counted(s.Hosts, "RoCE host"), counted(s.Nodes, "InfiniBand node"),
		counted(s.ProxyQPs, "proxy QP"))
}

// counted returns a number of things: 1 group, 2 groups.
func counted(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}
