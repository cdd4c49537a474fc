// SPDX-License-Identifier: Apache-2.0

// Package condition says what keeps a bridge from carrying all that it is to carry.
package condition

import (
	"context"
	"fmt"
	"strings"
	"time"

	"causeway/app/bridge"
	"causeway/app/bridge/link"
	"causeway/ibside/multipath"
	"causeway/lcore"
	"causeway/lcore/manage"
)

// A Source is a bridge. A *bridge.Bridge is one.
type Source interface {
	Status() manage.Status
	Link() link.State // of the Ethernet port
	InfiniBandDown() string
	Memory() bridge.Memory
	Limits() []bridge.Limit
	ListGroups(ctx context.Context, q manage.Query) (manage.List[manage.GroupEntry], error)
	ListNodes(ctx context.Context, q manage.Query) (manage.List[manage.NodeEntry], error)
}

// Ready reports whether a bridge is ready for traffic: there is nothing that Unready would name. A drained bridge is
// not.
func Ready(b Source) bool { return b.Status().Ready && len(Faults(b)) == 0 }

// Unready returns why a bridge is not ready for traffic, one reason a line, with at most so many missing joins and
// paths; none when it is.
func Unready(ctx context.Context, b Source, most int) []string {
	lines := Faults(b)
	if s := b.Status(); !s.Ready && Barred(b) == "" {
		lines = append(lines, fmt.Sprintf("waiting for joins, paths and P_Keys: %d", s.Waiting))
		lines = append(lines, manage.Awaited(ctx, b, &s, most)...)
	}
	return lines
}

// refusedFor is how long a bridge counts as one that refuses after it has refused something.
const refusedFor = time.Minute

// Faults returns the reasons that are not management's, one a line.
func Faults(b Source) (lines []string) {
	if l := b.Link(); !l.Up() {
		lines = append(lines, "the Ethernet port has no link: "+l.String())
	}
	if why := b.InfiniBandDown(); why != "" {
		lines = append(lines, "the InfiniBand port has no link: "+why)
	}
	if part := fleet(b); len(part) > 0 {
		lines = append(lines, part...)
	} else if why := Barred(b); why != "" {
		lines = append(lines, "the bridge carries nothing: "+why)
	}
	m, s := b.Memory(), b.Status()
	for _, x := range []struct {
		what, key string
		use       [2]int
		refused   time.Time
	}{
		{"RoCE hosts", "hosts", m.Hosts, s.Refused.Hosts},
		{"RoCE queue pairs", "proxy_qps", m.ProxyQPs, s.Refused.ProxyQPs},
	} {
		if full(x.use) && !x.refused.IsZero() && time.Since(x.refused) < refusedFor {
			do := "raise [workers] " + x.key
			if x.key == "proxy_qps" && m.ProxyQPsShort {
				do = "the InfiniBand device makes no more (proxy_qps_short in the log)"
			}
			lines = append(lines, fmt.Sprintf("new %s are refused: all %d that there is room for are in use; %s", x.what, x.use[1], do))
		}
	}
	return lines
}

// Barred says why a bridge carries nothing because of another one; "": it may.
func Barred(b any) string {
	if x, ok := b.(interface{ Barred() string }); ok {
		return x.Barred()
	}
	return ""
}

// Drained reports whether an operator has drained a bridge that is in no fleet.
func Drained(b interface{ Status() manage.Status }) bool {
	return b.Status().Drained && Barred(b) == ""
}

// fleetMember is a source that may be one of a fleet.
type fleetMember interface {
	Part() (p bridge.Part, in bool)
}

// fleet returns why a bridge of a fleet does nothing.
func fleet(b Source) (lines []string) {
	x, ok := b.(fleetMember)
	if !ok {
		return nil
	}
	switch p, in := x.Part(); {
	case !in:
	case p.Why != "":
		lines = append(lines, "the bridge does no part of its fleet's work: "+p.Why)
	case p.Lease <= 0:
		lines = append(lines, "the bridge has no lease to forward for its fleet: etcd does not answer")
	}
	return lines
}

func full(use [2]int) bool { return use[1] > 0 && use[0] >= use[1] }

// fabrics returns which of several InfiniBand ports cannot take over.
func fabrics(b Source) (lines []string) {
	x, ok := b.(interface{ Fabrics() []multipath.Report })
	if !ok {
		return nil
	}
	for _, f := range x.Fabrics() {
		switch {
		case f.Down != "":
			lines = append(lines, fmt.Sprintf("one of several InfiniBand ports is down, %s: %s; the others carry what they reach", f.Name, f.Down))
		case f.Missing > 0:
			lines = append(lines, fmt.Sprintf("%d groups are not joined on InfiniBand port %s, and others carry them (ib_path_join_failed in the log)", f.Missing, f.Name))
		case f.SMSilent:
			lines = append(lines, fmt.Sprintf("the subnet manager of InfiniBand port %s does not answer: what flows goes on, and nothing new is joined or found there", f.Name))
		}
	}
	return lines
}

// Remarks returns what an operator must know of a bridge that may be ready all the same, one a line: that it is
// drained, that a change waits for confirmation, that faults are injected, what is full.
func Remarks(b Source) (lines []string) {
	if Drained(b) {
		lines = append(lines, `it is drained: it has left its groups, services and nodes to another bridge; "resume" takes them up again`)
	}
	if x, ok := b.(interface{ Pending() (time.Time, bool) }); ok {
		if until, is := x.Pending(); is {
			lines = append(lines, fmt.Sprintf(`a change waits for "confirm"; without it, it goes back at %s`, until.Format(time.TimeOnly)))
		}
	}
	if x, ok := b.(interface{ Injections() [2]lcore.Injection }); ok {
		for d, i := range x.Injections() {
			if i != (lcore.Injection{}) {
				lines = append(lines, fmt.Sprintf(`faults are injected, %v: %s; "clear injection" ends it`, lcore.Direction(d), injection(&i)))
			}
		}
	}
	if n := b.Status().LostNodes; n > 0 {
		lines = append(lines, fmt.Sprintf("InfiniBand nodes that are not on their subnet any more: %d; what goes to them is lost, and \"show nodes\" names them", n))
	}
	lines = append(lines, fabrics(b)...)
	if x, ok := b.(interface{ Yields() string }); ok && x.Yields() != "" {
		lines = append(lines, x.Yields())
	}
	m := b.Memory()
	for _, x := range []struct {
		what, key string
		use       [2]int
	}{
		{"RoCE hosts", "hosts", m.Hosts}, {"InfiniBand nodes", "nodes", m.Nodes}, {"groups", "groups", m.Groups}, {"proxy QPs", "proxy_qps", m.ProxyQPs},
		{"packet buffers", "mbufs", [2]int{m.PacketsUsed, m.Packets}}, {"PGM streams", "pgm_streams", m.Streams}, {"requests for services", "", m.Requests},
	} {
		switch {
		case !full(x.use):
		case x.key == "proxy_qps" && m.ProxyQPsShort:
			lines = append(lines, fmt.Sprintf("full: %d of %d %s that the InfiniBand device makes", x.use[0], x.use[1], x.what))
		case x.key == "":
			lines = append(lines, fmt.Sprintf("full: %d of %d %s", x.use[0], x.use[1], x.what))
		default:
			lines = append(lines, fmt.Sprintf("full: %d of %d %s ([workers] %s)", x.use[0], x.use[1], x.what, x.key))
		}
	}
	for _, l := range b.Limits() {
		lines = append(lines, "full in the last minute: "+l.Note)
	}
	return lines
}

// injection says what is injected.
func injection(i *lcore.Injection) string {
	var parts []string
	share := func(what string, x float64) {
		if x > 0 {
			parts = append(parts, fmt.Sprintf("%s %.4g%%", what, 100*x))
		}
	}
	share("drop", i.Drop)
	share("duplicate", i.Duplicate)
	share("reorder", i.Reorder)
	if i.DelayShare > 0 {
		parts = append(parts, fmt.Sprintf("delay %.4g%% by %v", 100*i.DelayShare, i.Delay))
	}
	return strings.Join(parts, ", ")
}
