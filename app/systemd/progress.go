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
	return fmt.Sprintf("Bridging: %s, %s, %s, %s", counted(s.Groups, "group"), counted(s.Hosts, "RoCE host"), counted(s.Nodes, "InfiniBand node"),
		counted(s.StandIns, "stand-in"))
}

// counted is a number of things: 1 group, 2 groups.
func counted(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}
