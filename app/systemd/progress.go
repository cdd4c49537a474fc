// SPDX-License-Identifier: Apache-2.0

package systemd

import (
	"fmt"

	"causeway/lcore"
	"causeway/lcore/manage"
)

// progress is how often each of those who must not stand still has gone round.
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

// stuck names somebody who has not moved since an earlier reading; "": everybody has. A bridge without workers is not there.
func (p progress) stuck(earlier progress) string {
	if len(p.workers) == 0 {
		return "no worker runs"
	}
	for i, loops := range p.workers {
		if i < len(earlier.workers) && loops == earlier.workers[i] || loops == 0 {
			return fmt.Sprintf("worker %d stands still", i)
		}
	}
	if p.management == earlier.management {
		return "management stands still"
	}
	return ""
}

// statusLine is what systemctl status shows.
func statusLine(at state, s manage.Status, stuck string) string {
	switch {
	case at == stopping:
		return "Stopping"
	case stuck != "":
		return "No watchdog is fed: " + stuck
	case at == reloading:
		return "Taking a new configuration"
	case at == starting || !s.Ready:
		return fmt.Sprintf("Waiting for %d joins and paths", s.Waiting)
	}
	return fmt.Sprintf("Bridging: %d groups, %d RoCE hosts, %d InfiniBand nodes, %d stand-ins", s.Groups, s.Hosts, s.Nodes, s.StandIns)
}
