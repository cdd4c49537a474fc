// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"errors"
	"testing"

	"causeway/ibside"
	"causeway/ibside/ib"
)

// TestMemberships joins without subnet administration, and without a device: on Ethernet, an IPv6 group can be sent to
// without a request to rdma_cm.
func TestMemberships(t *testing.T) {
	p := newTestPort(Config{})
	p.workers = []*worker{{}}
	p.attributes.port = PortInfo{PKeys: []ib.PKey{ib.PKeyDefault}, Info: ibside.Info{Ethernet: true}}
	send := ibside.Join{MGID: testMGID, QKey: groupQKey, PKey: ib.PKeyDefault}
	if m, err := p.Join(t.Context(), send); err != nil || m.QKey != groupQKey || !p.groups.Has(testMGID) {
		t.Fatalf("joined as %+v, %v", m, err)
	}
	receive := send
	receive.Receive = true
	if _, err := p.Join(t.Context(), receive); !errors.Is(err, errNoIPv6Groups) || p.counters().JoinErrors != 1 || !p.groups.Has(testMGID) {
		t.Errorf("to receive: %v, %+v", err, p.counters())
	}
	p.memberships.lost(testMGID, cmEvent{kind: "by the test"})
	p.memberships.ended.Wait()
	if c := p.counters(); c.Rejoined != 1 || c.JoinErrors != 2 || c.Events[string(eventMembership)] != 1 {
		t.Errorf("after a loss: %+v", c)
	}
	if err := p.Leave(t.Context(), testMGID); err != nil || p.groups.Has(testMGID) || p.Leave(t.Context(), testMGID) == nil {
		t.Errorf("left: %v", err)
	}
	p.memberships.lost(testMGID, cmEvent{kind: "by the test"})
	p.memberships.ended.Wait()
	if c := p.counters(); c.Rejoined != 1 || p.groups.Has(testMGID) {
		t.Errorf("a group that was left is back: %+v", c)
	}
	p.stop()
	p.memberships.close()
	if _, err := p.Join(t.Context(), send); !errors.Is(err, errClosed) {
		t.Errorf("after the end: %v", err)
	}
}
