// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"causeway/app/fleettest"
	"causeway/ibside/fabric"
	"causeway/ibside/ib"
)

// fleetTraffic is numbered messages both ways: of each host to the group and to the node, and of the node to groups.
type fleetTraffic struct {
	f          *bridgeFleet
	listeners  [2]*program // of the node, of host 0
	senders    []*program
	assignment int // when it began
}

// fleetRate is how many messages a second each stream has: as many as figures are to be exact, but in CI few enough for a slow
// machine, which fourteen streams at 100 alone keep busy.
var fleetRate = func() time.Duration {
	if os.Getenv(figuresFile) != "" {
		return 100
	}
	return 40
}()

// figuresFile names the file that what was lost is appended to, of which make fleet-figures makes a table.
const figuresFile = "CAUSEWAY_FLEET_FIGURES"

// begin begins it. The subnet's nodes come with it.
func (f *bridgeFleet) begin() *fleetTraffic {
	f.t.Helper()
	x := &fleetTraffic{f: f, assignment: f.assignment()}
	groups := []string{"listen", "-json", "-any-source", "-on", "packet:h0"}
	for _, g := range toRoCE {
		groups = append(groups, "-group", g)
	}
	x.listeners[0] = launch(f.t, "listen", "-json", "-any-source", "-on", "fabric:"+f.socket, "-guid", "0x70", "-group", toIB)
	x.listeners[1] = f.hosts[0].launch(f.t, groups...)
	node := x.listeners[0].qpn()
	x.listeners[1].qpn()
	f.learned(0x70)
	send := []string{"send", "-json", "-rate", strconv.Itoa(int(fleetRate)), "-to"}
	for i := range f.hosts {
		x.senders = append(x.senders, f.hosts[i].launch(f.t, append(send, toIB, "-on", "packet:h0")...),
			f.hosts[i].launch(f.t, append(send, "10.9.0.70", "-qpn", node, "-on", "packet:h0", "-own-qpn", "99")...))
	}
	for i, g := range toRoCE {
		x.senders = append(x.senders, launch(f.t, append(send, g, "-on", "fabric:"+f.socket, "-guid", fmt.Sprintf("0x8%d", i))...))
	}
	x.listeners[1].await("all traffic", func() bool { return f.capture.Streams() >= len(x.senders) })
	return x
}

// learned waits until the members that run know the node by the LID that it has now: what they send to its former one
// reaches nobody, and could hide what is lost.
func (f *bridgeFleet) learned(node ib.GUID) {
	f.t.Helper()
	ports := f.subnet.Ports()
	lid := ports[slices.IndexFunc(ports, func(p fabric.PortInfo) bool { return p.GUID == node })].LID
	line := regexp.MustCompile(fmt.Sprintf(`(?m)^10\.9\.0\.70 .* %v .*resolved`, lid))
	for n := range f.members {
		for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
			p := launch(f.t, "ctl", "-s", f.console(n), "show", "nodes")
			if p.wait() != exitOK || line.MatchString(p.stdout.String()) {
				break
			}
			if time.Since(began) > within {
				f.t.Fatalf("m%d does not learn that the node has LID %v:\n%v", n, lid, &p.stdout)
			}
		}
	}
}

// end ends it, and checks that nothing came twice or out of order, and that no stream lost more than a time's.
func (x *fleetTraffic) end(what string, most time.Duration) {
	x.f.t.Helper()
	for _, s := range x.senders {
		s.end(syscall.SIGTERM)
	}
	time.Sleep(200 * time.Millisecond) // what is under way
	lost, reports := time.Duration(0), []report(nil)
	for i, l := range x.listeners {
		l.end(syscall.SIGTERM)
		r, worst := l.last(), time.Duration(0)
		for _, s := range r.Streams {
			worst = max(worst, time.Duration(s.Lost)*time.Second/fleetRate)
		}
		lost, reports = max(lost, worst), append(reports, r)
		way := []string{"to InfiniBand", "to RoCE"}[i]
		late := time.Duration(r.Sum.Latency.Max) * time.Microsecond
		x.f.t.Logf("%s, %s: %d messages of %d streams came, %v lost at most, %v late at most", what, way, r.Sum.Unique, len(r.Streams), worst, late)
		if r.Sum.Duplicates+r.Sum.Reordered+r.Sum.Corrupted != 0 || len(r.Streams) != []int{2 * fleetHosts, len(toRoCE)}[i] {
			x.f.t.Errorf("%s, %s: %+v", what, way, r)
		}
		if worst > most {
			x.f.t.Errorf("%s, %s: %v were lost, of %v", what, way, worst, most)
		}
	}
	x.judge(what, most, reports...)
	x.f.figure(what, lost)
}

// figure appends what was lost to the file for figures, if there is one.
func (f *bridgeFleet) figure(what string, lost time.Duration) {
	f.t.Helper()
	name := os.Getenv(figuresFile)
	if name == "" {
		return
	}
	file, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		err = errors.Join(json.NewEncoder(file).Encode(map[string]any{"event": what, "lost_ms": lost.Milliseconds()}), file.Close())
	}
	if err != nil {
		f.t.Error(err)
	}
}

// during has something happen while messages pass.
func (f *bridgeFleet) during(what string, most, rest time.Duration, happens func()) {
	f.t.Helper()
	x := f.begin()
	before, stretch := f.noOverlap(), fleettest.Bound(f.t)
	time.Sleep(500 * time.Millisecond)
	happens()
	time.Sleep(rest)
	most = stretch(most)
	for p, lines := range f.noOverlap() {
		if more := lines[len(before[p]):]; len(more) > 0 && most == 0 {
			most = 3 * 150 * time.Millisecond
			f.t.Logf("%s: shares passed without an overlap, because this machine is slow:\n%s", what, strings.Join(more, ""))
		}
	}
	x.end(what, most)
}

// noOverlap returns what each member has logged of shares that passed to or from it with a loss. After one that was killed, its
// witness has written, too.
func (f *bridgeFleet) noOverlap() map[*program][]string {
	said := map[*program][]string{}
	for _, p := range f.members {
		for line := range strings.Lines(p.stderr.String()) {
			if strings.Contains(line, `"fleet_no_overlap"`) {
				said[p] = append(said[p], line)
			}
		}
	}
	return said
}
