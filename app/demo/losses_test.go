// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"causeway/app/bridge"
	"causeway/app/segment"
	"causeway/ibside/fabric"
	"causeway/ibside/ib"
	"causeway/lcore"
)

// TestPatience checks that messages count as lost after a time without any, in which the process has looked: one that
// stood still may have all of them in its sockets.
func TestPatience(t *testing.T) {
	p := newPatience(7)
	now := p.since.Add(time.Hour)
	if p.isOver(7, now) {
		t.Error("lost at the first look after an hour")
	}
	for range lossLooks {
		p.isOver(7, now)
	}
	if !p.isOver(7, now) {
		t.Error("not lost after an hour of looks")
	}
	if p.isOver(8, now) || p.isOver(8, now.Add(lossTimeout/2)) {
		t.Error("lost when one has just arrived")
	}
}

// TestLossesTold checks that the summary says who has counted losses, or that nobody has.
func TestLossesTold(t *testing.T) {
	f, message := sent(3)
	f.arrive(0, message(1))
	for _, c := range []struct {
		name string
		lost losses
		port bridge.Losses
		drop lcore.Counters
		want string
	}{
		{"by the kernel", losses{"dut1 tx_dropped": 1, "host1 Udp.RcvbufErrors": 4}, bridge.Losses{}, lcore.Counters{},
			"Lost elsewhere: 4 host1 Udp.RcvbufErrors, 1 dut1 tx_dropped."},
		{"by the bridge's port", losses{}, bridge.Losses{Before: bridge.Lost{"missed": 5}}, lcore.Counters{}, "5 bridge roce_to_ib before missed"},
		{"by nobody", losses{}, bridge.Losses{}, lcore.Counters{}, "nobody has counted"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := &result{flows: []*flow{f}, Lost: c.lost}
			r.take(c.drop)
			r.Lost.ofBridge([2]bridge.Losses{c.port})
			var out bytes.Buffer
			if err := r.write(Options{Out: &out}); err != nil || !strings.Contains(out.String(), c.want) {
				t.Errorf("%v, %s", err, out.String())
			}
		})
	}
}

// TestLossesAround checks that losses are seen at each place around the bridge where a message can be lost.
func TestLossesAround(t *testing.T) {
	needNamespaces(t)
	tb := &testbed{}
	for _, step := range []func() error{
		tb.makeSegment, func() error { return tb.makeHosts(segment.NewNamespace) }, func() error { return tb.makeSubnet("") },
	} {
		if err := step(); err != nil {
			t.Fatal(errors.Join(err, tb.close()))
		}
	}
	defer func() {
		if err := tb.close(); err != nil {
			t.Error(err)
		}
	}()
	before := tb.around()
	err := tb.segment.Do(func() error { // the bridge's port takes nothing that is as long
		l, err := netlink.LinkByName(segment.Port)
		return errors.Join(err, netlink.LinkSetMTU(l, 1500))
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := tb.hosts[0].send(toIB, ib.QPMulticast, false, make([]byte, 3000)); err != nil {
		t.Fatal(err)
	}
	n := tb.nodes[0].QP()
	if why := n.Send(unroutable(n.QPN())); why != "" {
		t.Fatal(why)
	}
	const wait = time.Minute
	for began := time.Now(); ; time.Sleep(time.Millisecond) {
		l := tb.around().since(before).String()
		if strings.Contains(l, segment.Far+" tx_dropped") && strings.Contains(l, "subnet no_route") {
			return
		}
		if time.Since(began) > wait {
			t.Fatalf("it sees %q", l)
		}
	}
}

// TestSNMP checks how the kernel's counters are read.
func TestSNMP(t *testing.T) {
	got := snmp("Ip: Forwarding InDiscards\nIp: 1 7\nUdp: InDatagrams RcvbufErrors\nUdp: 3 9\n", "Udp6RcvbufErrors                \t4\n")
	if got["Ip.InDiscards"] != 7 || got["Udp.RcvbufErrors"] != 9 || got["Udp6RcvbufErrors"] != 4 || len(got) != 5 {
		t.Errorf("%v", got)
	}
}

// unroutable is a message to a LID that nobody has.
func unroutable(to ib.QPN) *fabric.Send {
	return &fabric.Send{AH: fabric.AH{DLID: 0x77}, DestQP: to, QKey: ib.QKeyRDMAUDP, Payload: []byte("for nobody")}
}
