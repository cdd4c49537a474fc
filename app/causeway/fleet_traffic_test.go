// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"syscall"
	"time"

	"causeway/app/fleettest"
	"causeway/ibside/fabric"
	"causeway/ibside/ib"
)

// fleetTraffic is numbered messages both ways, all the time: of each host to the group and to the node, and of other nodes to
// groups.
type fleetTraffic struct {
	f          *bridgeFleet
	listener   *program // host 0, which has joined the groups
	node       *fabric.Node
	senders    []*program
	marks      map[uint32]uint64 // up to which number of each stream all was judged
	assignment int               // that was the newest then
}

// figuresFile names the file that what was lost is appended to, of which make fleet-figures makes a table.
const figuresFile = "CAUSEWAY_FLEET_FIGURES"

// begin begins it. The subnet's nodes come with it.
func (f *bridgeFleet) begin() *fleetTraffic {
	f.t.Helper()
	x := &fleetTraffic{f: f}
	groups := []string{"listen", "-json", "-any-source", "-on", "packet:h0"}
	for _, g := range toRoCE {
		groups = append(groups, "-group", g)
	}
	f.capture.Receiver(f.within(f.hosts[0]), "h0")
	x.listener = f.hosts[0].launch(f.t, groups...)
	x.listener.qpn()
	x.node = f.node(0x70)
	node := x.node.QP().QPN().String()
	f.learned(0x70)
	send := []string{"send", "-json", "-rate", strconv.Itoa(int(f.rate)), "-to"}
	for i := range f.hosts {
		x.senders = append(x.senders, f.hosts[i].launch(f.t, append(send, toIB, "-on", "packet:h0")...),
			f.hosts[i].launch(f.t, append(send, "10.9.0.70", "-qpn", node, "-on", "packet:h0", "-own-qpn", "99")...))
	}
	for i, g := range toRoCE {
		x.senders = append(x.senders, launch(f.t, append(send, g, "-on", "fabric:"+f.socket, "-guid", fmt.Sprintf("0x8%d", i))...))
	}
	x.listener.await("all traffic", func() bool { return f.capture.Streams() >= len(x.senders) })
	x.assignment, x.marks = f.assignment(), f.capture.Boundary()
	f.capture.Take(func(m fleettest.Seen) bool { return m.Number <= x.marks[m.Stream] })
	f.capture.Came(x.marks)
	return x
}

// node has a node on the subnet receive what hosts send.
func (f *bridgeFleet) node(guid ib.GUID) *fabric.Node {
	f.t.Helper()
	port, err := f.subnet.Attach(fabric.PortConfig{Name: "node", GUID: guid})
	if err != nil {
		f.t.Fatal(err)
	}
	n, err := fabric.StartNode(port, fabric.NodeConfig{
		Name: "node", GUID: guid, Role: fabric.RoleListen,
		Groups:    []fabric.GroupConfig{{MGID: mgidOf(toIB), QKey: ib.QKeyRDMAUDP}},
		OnMessage: func(_ *fabric.Node, r *fabric.Received) { f.capture.Arrive(r.Payload, true) },
	})
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { n.Close() })
	return n
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
			code, says, _ := try("ctl", "-s", f.console(n), "show", "nodes")
			if code != exitOK || line.MatchString(says) {
				break
			}
			if time.Since(began) > within {
				f.t.Fatalf("m%d does not learn that the node has LID %v:\n%s", n, lid, says)
			}
		}
	}
}

// end ends it, and checks that nothing came twice, out of order or damaged.
func (x *fleetTraffic) end() {
	x.f.t.Helper()
	for _, s := range x.senders {
		signalTo(x.f.t, s, syscall.SIGTERM)
	}
	for _, s := range x.senders {
		s.wait()
	}
	x.listener.end(syscall.SIGTERM)
	if r := x.listener.last(); r.Sum.Duplicates+r.Sum.Reordered+r.Sum.Corrupted != 0 || len(r.Streams) != len(toRoCE) {
		x.f.t.Errorf("to RoCE: %+v", r)
	}
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

// during has something happen while messages pass, and judges what was sent until then, once messages of all streams pass again.
func (f *bridgeFleet) during(what string, most time.Duration, happens func()) {
	f.t.Helper()
	if f.traffic == nil {
		f.traffic = f.begin()
	}
	f.settled()
	stretch := fleettest.Bound(f.t)
	happens()
	f.passed()
	next, until := f.assignment(), f.capture.Boundary()
	f.traffic.judge(what, stretch(most)+f.late, next, until)
	f.late = 0
}

// passed waits until members forward what the newest assignment gives them, and no more: what they forward by one is counted with it.
func (f *bridgeFleet) passed() {
	f.t.Helper()
	for _, n := range f.running() {
		f.members[n].await("that shards have passed", func() bool {
			return fleettest.Passed(fmt.Sprint("m", n), f.ctl(n, "show", "fleet"), f.ctl(n, "show", "shards"))
		})
	}
}

// running are the members that run.
func (f *bridgeFleet) running() []int {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(f.members)), func(n int) bool {
		select {
		case <-f.members[n].done:
			return true
		default:
			return false
		}
	})
}

// settled waits until those members that run hear each other on both fabrics: what happens next, happens alone.
func (f *bridgeFleet) settled() {
	f.t.Helper()
	running := f.running()
	for _, n := range running {
		for _, other := range running {
			for _, on := range []string{"ethernet", "infiniband"} {
				if other != n {
					f.hears(n, fmt.Sprint("m", other), on, "up")
				}
			}
		}
	}
	f.switched()
}
