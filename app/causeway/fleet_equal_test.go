// SPDX-License-Identifier: Apache-2.0

package main

import (
	"syscall"
	"time"

	"causeway/ibside/fabric"
	"causeway/ibside/ib"
)

// heartbeats has the node send messages to a group that are equal in every byte, as heartbeats without a number are, while the group's
// shard passes, back and forth. Members cannot tell such messages apart: none leaves twice, and a pass may lose those of its overlap.
func (f *bridgeFleet) heartbeats() {
	f.t.Helper()
	const gap, passes, most = 50 * time.Millisecond, 4, 300 * time.Millisecond
	group, n := toRoCE[0], f.traffic.node // a group of the first member's
	joined, err := n.SA().Join(f.t.Context(), ib.MCMemberFields{MGID: mgidOf(group), QKey: ib.QKeyRDMAUDP, PKey: ib.PKeyDefault, JoinState: ib.JoinSendOnlyFull})
	if err != nil {
		f.t.Fatal(err)
	}
	listener := f.hosts[1].launch(f.t, "listen", "-json", "-any-source", "-on", "packet:h0", "-group", group)
	listener.qpn()
	sent, end, ended := uint64(0), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for ; ; sent++ {
			select {
			case <-end:
				return
			case <-time.After(gap):
			}
			n.QP().Send(&fabric.Send{
				AH:     fabric.AH{DLID: joined.MLID, SL: joined.SL, GRH: &ib.GRHFields{DGID: joined.MGID, HopLimit: joined.HopLimit}},
				DestQP: ib.QPMulticast, QKey: joined.QKey, Payload: []byte("I am alive"),
			})
		}
	}()
	time.Sleep(time.Second)
	for range passes / 2 {
		f.drain(1)
		f.passed()
		f.ctl(1, "fleet", "resume")
		f.passed()
	}
	time.Sleep(time.Second)
	close(end)
	<-ended
	time.Sleep(200 * time.Millisecond)
	listener.end(syscall.SIGTERM)
	came := listener.last().Foreign
	lost := time.Duration(sent-came) * gap
	f.t.Logf("heartbeats: %d of %d came, %v apart, over %d passes", came, sent, gap, passes)
	if came > sent || lost > passes*most {
		f.t.Errorf("of %d heartbeats came %d", sent, came)
	}
	f.figure("equal messages, 20 a second, while their shard passes four times", lost)
}
