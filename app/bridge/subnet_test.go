// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"causeway/ibside/ib"
	"causeway/ibside/sa"
	"causeway/ibside/sa/opensmtest"
	"causeway/tables"
)

var nobody netip.Addr

func (r *rig) awaitWhole(when string) {
	r.t.Helper()
	r.await(when, func() string { return r.whole(nobody) })
}

// join makes the other host join a group.
func (r *rig) join(mgid ib.GID, qkey ib.QKey) {
	r.t.Helper()
	f := ib.MCMemberFields{MGID: mgid, QKey: qkey, PKey: ib.PKeyDefault, JoinState: ib.JoinFull}
	if _, err := r.other.Join(r.t.Context(), f); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) leave(mgid ib.GID) {
	r.t.Helper()
	if err := r.other.Leave(r.t.Context(), mgid, ib.GID{}, ib.JoinFull); err != nil {
		r.t.Fatal(err)
	}
}

// TestSubnetRestart begins without an SM, then ends opensm as a crash would and starts one that gives other MLIDs.
func TestSubnetRestart(t *testing.T) {
	s := opensmtest.Start(t)
	r := newRig(t, s, seldom())
	defer r.end()
	if r.loop.Status().Ready {
		t.Error("ready without an SM")
	}
	m := s.Manage("smhost")
	r.awaitWhole("at first")
	r.await("at first", func() string {
		if st := r.loop.Status(); !st.Ready || st.Aliases != len(rigAliases) {
			return fmt.Sprintf("%+v", st)
		}
		return ""
	})
	before, _, _ := r.tables.Groups.Lookup(tables.GroupAddr{IP: rigGroups[0].IP})
	missed := r.watch()
	m.Kill()
	r.ibPort.Event(sa.SMChange)
	r.awaitLine("subnet_stale", string(sa.SMChange))
	r.awaitLine("subnet_stale", sa.ErrUnreachable.Error())
	s.Manage("smhost")
	for i := range 8 { // takes the MLIDs that the groups had, or changes the order in which they are given
		r.join(ib.MGIDRDMACM(netip.AddrFrom4([4]byte{239, 9, 9, byte(i)}), ib.PKeyDefault, 2), ib.QKeyRDMAUDP)
	}
	r.ibPort.Event(sa.Reregister)
	r.awaitLine("subnet_registered")
	r.awaitWhole("after the restart")
	if n := missed(); n != 0 {
		t.Errorf("groups or nodes were not in the tables %d times", n)
	}
	after, _, _ := r.tables.Groups.Lookup(tables.GroupAddr{IP: rigGroups[0].IP})
	t.Logf("%v went to %v, and goes to %v", after.IP, before.MLID, after.MLID)
	r.end()
	for _, g := range rigGroups {
		if all, err := r.other.Groups(t.Context(), ib.MCMemberMGID, ib.MCMemberFields{MGID: rigMGID(g.IP)}); err != nil || len(all) != 0 {
			t.Errorf("after the end, group %v has %+v, %v", g.IP, all, err)
		}
	}
	if path, err := r.other.Path(t.Context(), ib.GIDFromGUID(0xfe80<<48, rigAliases[0])); err == nil {
		t.Errorf("after the end, an alias resolves to %v", path.DLID)
	}
}

// TestSubnetMLIDs restarts the SM and gives groups of another host the MLIDs that the bridge's groups had before.
func TestSubnetMLIDs(t *testing.T) {
	s := opensmtest.Start(t)
	m := s.Manage("smhost")
	r := newRig(t, s, seldom())
	defer r.end()
	r.awaitWhole("at first")
	was := map[netip.Addr]ib.LID{}
	for _, g := range rigGroups {
		e, _, _ := r.tables.Groups.Lookup(tables.GroupAddr{IP: g.IP})
		was[g.IP] = e.MLID
	}
	m.Kill()
	s.Manage("smhost")
	for i := range rigGroups {
		r.join(ib.MGIDRDMACM(netip.AddrFrom4([4]byte{239, 8, 8, byte(i)}), ib.PKeyDefault, 2), ib.QKeyRDMAUDP)
	}
	r.ibPort.Event(sa.Reregister)
	r.awaitWhole("after the restart")
	moved := 0
	for _, g := range rigGroups {
		if e, _, _ := r.tables.Groups.Lookup(tables.GroupAddr{IP: g.IP}); e.MLID != was[g.IP] {
			moved++
			r.awaitLine("group_renewed", "group="+g.IP.String(), fmt.Sprintf("mlid=%v", e.MLID), fmt.Sprintf("was=%v", was[g.IP]))
		}
	}
	if moved == 0 {
		t.Error("no MLID changed: the test proves nothing")
	}
}

// TestSubnetLIDs restarts the SM so that it gives each port other LIDs.
func TestSubnetLIDs(t *testing.T) {
	s := opensmtest.Start(t)
	m := s.Manage("smhost")
	c := seldom()
	c.Watch = 20 * time.Millisecond
	r := newRig(t, s, c)
	defer r.end()
	r.awaitWhole("at first")
	before := r.ibPort.Own().LID
	owner := r.owners()
	missed := r.watch()
	m.Kill()
	s.Manage("smhost", "-l", "3")
	r.awaitLine("subnet_registered")
	r.awaitWhole("with other LIDs")
	if now := r.ibPort.Own().LID; now == before || r.tables.Nodes.LookupOwnLID(before) {
		t.Errorf("the bridge is at %v, and was at %v", now, before)
	}
	r.awaitLine("subnet_stale")
	r.awaitLine("node_moved")
	for lid, ip := range r.owners() {
		if was, had := owner[lid]; had && was == ip && r.wrongOwner(lid, ip) {
			t.Errorf("LID %v still names %v, which had it before", lid, ip)
		}
	}
	if n := missed(); n != 0 {
		t.Errorf("groups or nodes were not in the tables %d times", n)
	}
}

// TestSubnetStaleLIDs has an event while no SM answers: LIDs name nobody until one does, and GIDs go on naming nodes.
func TestSubnetStaleLIDs(t *testing.T) {
	s := opensmtest.Start(t)
	m := s.Manage("smhost")
	r := newRig(t, s, seldom())
	defer r.end()
	r.awaitWhole("at first")
	m.Kill()
	if len(r.owners()) != len(r.nodes) {
		t.Errorf("without an event, LIDs name %v", r.owners())
	}
	r.ibPort.Event(sa.Reregister)
	r.await("LIDs that name nobody", func() string {
		if all := r.owners(); len(all) > 0 {
			return fmt.Sprint(all)
		}
		return ""
	})
	for ip := range r.nodes {
		if n, _, ok := r.tables.Nodes.Find(ip); !ok || n.LID == 0 {
			t.Errorf("node %v is not in the tables", ip)
		} else if _, _, ok := r.tables.Nodes.LookupSource(n.GID); !ok {
			t.Errorf("GID %v names nobody", n.GID)
		}
	}
	s.Manage("smhost")
	r.awaitWhole("when the SM is back")
}

// TestSubnetFailover ends the master of two SMs; the port's state says when the other is master.
func TestSubnetFailover(t *testing.T) {
	for try := 1; !subnetFailsOver(t, try); try++ {
		if try == opensmtest.UpTries {
			t.Fatalf("no SM has taken over in %d tries", try)
		}
	}
}

// subnetFailsOver returns false when the other SM has not become master, which is opensm's affair and no failure of
// this test.
func subnetFailsOver(t *testing.T, try int) bool {
	s := opensmtest.Start(t)
	m, standby, ok := s.ManagePair(try)
	if !ok {
		return false
	}
	c := seldom()
	c.Watch = 20 * time.Millisecond
	r := newRig(t, s, c)
	defer r.end()
	r.awaitWhole("at first")
	missed := r.watch()
	m.Kill()
	if !opensmtest.HasWritten(standby.Log, "SUBNET UP", opensmtest.UpPatience(try)) {
		missed()
		r.abandoned = true
		return false
	}
	r.awaitLine("subnet_stale", string(sa.SMChange))
	r.awaitLine("subnet_registered")
	r.awaitWhole("with another SM")
	if n := missed(); n != 0 {
		t.Errorf("groups or nodes were not in the tables %d times", n)
	}
	return true
}

// TestSubnetRejects has another host make one of the bridge's groups first when the SM is new, with another Q_Key. The
// other groups are as they were, and this one is back when the other host has left.
func TestSubnetRejects(t *testing.T) {
	s := opensmtest.Start(t)
	m := s.Manage("smhost")
	r := newRig(t, s, seldom())
	defer r.end()
	r.awaitWhole("at first")
	missed := r.watch()
	m.Kill()
	s.Manage("smhost")
	rejected := rigGroups[0].IP
	r.join(rigMGID(rejected), ib.QKeyIPoIB)
	r.ibPort.Event(sa.Reregister)
	r.awaitLine("registration_rejected", "kind=group", rigMGID(rejected).String(), "parameters that do not fit")
	r.await("but the one that is rejected", func() string { return r.whole(rejected) })
	if w := r.wrongGroup(rejected); w == "" {
		t.Error("the group that is rejected is joined")
	}
	if r.log.has("subnet_registered") {
		t.Error("the registrar reports everything as registered")
	}
	r.leave(rigMGID(rejected))
	r.awaitWhole("when the other has left")
	r.awaitLine("subnet_registered")
	if n := missed(); n != 0 {
		t.Errorf("groups or nodes were not in the tables %d times", n)
	}
}

// TestSubnetLearns has another host make a group that is in a range, and leave it: the bridge follows, as a non-member.
// A restarted SM is subscribed to again.
func TestSubnetLearns(t *testing.T) {
	s := opensmtest.Start(t)
	m := s.Manage("smhost")
	r := newRig(t, s, seldom())
	defer r.end()
	r.awaitWhole("at first")
	r.await("the subscriptions", func() string { return r.subscribed(0) })
	for i := range 2 {
		ip := netip.AddrFrom4([4]byte{239, 7, 0, byte(7 + i)})
		r.join(rigMGID(ip), ib.QKeyRDMAUDP)
		r.await("a group of another", func() string {
			if e, _, ok := r.tables.Groups.Lookup(tables.GroupAddr{IP: ip}); !ok || !e.ToIB || !e.ToRoCE {
				return fmt.Sprintf("is %+v", e)
			}
			return ""
		})
		r.leave(rigMGID(ip))
		r.await("the group's end", func() string {
			if e, _, ok := r.tables.Groups.Lookup(tables.GroupAddr{IP: ip}); ok {
				return fmt.Sprintf("is still %+v", e)
			}
			return ""
		})
		if i == 0 {
			m.Kill()
			before := r.traps.confirmed.Load()
			s.Manage("smhost")
			r.ibPort.Event(sa.Reregister)
			r.awaitLine("subnet_stale")
			r.awaitWhole("after the restart")
			r.await("the subscriptions", func() string { return r.subscribed(before) })
		}
	}
}

// subscribed says how many of the four subscriptions have not been made since an earlier count.
func (r *rig) subscribed(before int32) string {
	if n := r.traps.confirmed.Load() - before; n < 4 {
		return fmt.Sprintf("%d of 4", n)
	}
	return ""
}
