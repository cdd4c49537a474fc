// SPDX-License-Identifier: Apache-2.0

package manage_test

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"causeway/ibside"
	"causeway/ibside/ib"
	"causeway/lcore/manage"
	"causeway/tables"
)

var (
	group4 = netip.MustParseAddr("239.1.2.3")
	group6 = netip.MustParseAddr("ff05::1:3")
)

func mgid(group netip.Addr) ib.GID { return ib.MGIDRDMACM(group, ib.PKeyDefault, 2) }

func toIB(group netip.Addr) manage.Group {
	return manage.Group{IP: group, MGID: mgid(group), QKey: ib.QKeyRDMAUDP, PKey: ib.PKeyDefault, ToIB: true}
}

func toRoCE(group netip.Addr) manage.Group {
	g := toIB(group)
	g.ToIB, g.ToRoCE = false, true
	return g
}

func with(groups ...manage.Group) func(*manageConfig, *ibPort) {
	return func(c *manageConfig, _ *ibPort) { c.Groups = groups }
}

func TestJoin(t *testing.T) {
	bubble(t, "both ways", func(t *testing.T) {
		in, out := toIB(group4), toRoCE(group6)
		s := start(t, with(in, out))
		if st := s.loop.Status(); !st.Ready || st.Groups != 2 || st.Waiting != 0 {
			t.Fatalf("status %+v", st)
		}
		if s.ibPort.joined[in.MGID].Receive || !s.ibPort.joined[out.MGID].Receive {
			t.Errorf("joined as %+v", s.ibPort.joined)
		}
		g, _, ok := s.tables.Groups.Find(group4)
		want := tables.Group{
			IP: group4, MGID: in.MGID, MLID: g.MLID, SL: 2, QKey: ib.QKeyRDMAUDP, RoCEQKey: ib.QKeyRDMAUDP,
			MTUToIB: 2048, MTUToRoCE: 4096, Version: 2, ToIB: true,
		}
		if !ok || g != want || !g.MLID.IsMulticast() {
			t.Errorf("group %+v, want %+v", g, want)
		}
		if err := s.end(); err != nil || len(s.ibPort.joined) != 0 {
			t.Errorf("at the end: %v, and still joined: %v", err, s.ibPort.joined)
		}
	})
}

// TestJoinBackOff checks that there are 0.1 s, 0.2 s, … and 10 s at most between tries, each a quarter more or less and
// different for each group, and that the bridge is ready in the end.
func TestJoinBackOff(t *testing.T) {
	bubble(t, "a port that fails at first", func(t *testing.T) {
		var mu sync.Mutex
		at := map[ib.GID][]time.Time{}
		s := start(t, func(c *manageConfig, d *ibPort) {
			c.Groups = []manage.Group{toIB(group4), toRoCE(group6)}
			d.join = func(_ context.Context, j ibside.Join, try int) error {
				mu.Lock()
				defer mu.Unlock()
				at[j.MGID] = append(at[j.MGID], time.Now())
				if try <= 10 {
					return errors.New("the SA is busy")
				}
				return nil
			}
		})
		if st := s.loop.Status(); st.Ready || st.Waiting != 2 || st.Groups != 0 {
			t.Errorf("status %+v", st)
		}
		sleep(2 * time.Minute)
		synctest.Wait()
		if st := s.loop.Status(); !st.Ready || st.Waiting != 0 || st.Groups != 2 {
			t.Errorf("later, status %+v", st)
		}
		for i, want := range []time.Duration{100, 200, 400, 800, 1600, 3200, 6400, 10000, 10000, 10000} {
			var waits []time.Duration
			for _, tries := range at {
				waits = append(waits, tries[i+1].Sub(tries[i]))
			}
			want *= time.Millisecond
			if least, most := slices.Min(waits), slices.Max(waits); least < want*3/4 || most > want*5/4 || least == most {
				t.Errorf("after try %d waited %v, want %v and a quarter less or more, and not both alike", i+1, waits, want)
			}
		}
	})
}

// TestJoinsTogether checks that there are at most 16 requests at a time, and that no group is delayed by others that
// cannot be joined or whose request is not answered.
func TestJoinsTogether(t *testing.T) {
	var groups []manage.Group
	for i := range 60 {
		groups = append(groups, toIB(netip.AddrFrom4([4]byte{239, 1, 2, byte(i)})))
	}
	bubble(t, "40 of 60 fail", func(t *testing.T) {
		s := start(t, func(c *manageConfig, d *ibPort) {
			c.Groups = groups
			d.join = func(ctx context.Context, j ibside.Join, _ int) error {
				time.Sleep(time.Millisecond)
				i := slices.IndexFunc(groups, func(g manage.Group) bool { return g.MGID == j.MGID })
				switch {
				case i < 20:
					return errors.New("rejected")
				case i < 40:
					<-ctx.Done()
					return ctx.Err()
				}
				return nil
			}
		})
		sleep(30 * time.Second)
		synctest.Wait()
		if st := s.loop.Status(); st.Groups != 20 || st.Waiting != 40 || st.Ready {
			t.Errorf("status %+v", st)
		}
		if s.ibPort.busiest > 16 {
			t.Errorf("%d questions at a time", s.ibPort.busiest)
		}
	})
}

// TestEndWhileJoining checks that Run waits for its requests to the port, and undoes a join that succeeded too late.
func TestEndWhileJoining(t *testing.T) {
	for range 20 { // whether the loop or the join notices first is chance
		bubble(t, "late", endWhileJoining)
	}
}

func endWhileJoining(t *testing.T) {
	s := start(t, func(c *manageConfig, d *ibPort) {
		c.Groups = []manage.Group{toIB(group4), toRoCE(group6)}
		d.join = func(ctx context.Context, j ibside.Join, _ int) error {
			if j.MGID == mgid(group4) {
				time.Sleep(time.Second) // and then succeeds, even if the context has ended
				return nil
			}
			<-ctx.Done()
			return ctx.Err()
		}
	})
	if err := s.end(); err != nil {
		t.Error(err)
	}
	if s.ibPort.busy != 0 || len(s.ibPort.joined) != 0 || len(s.ibPort.leaves) != 1 {
		t.Errorf("%d calls under way, joined %v, left %v", s.ibPort.busy, s.ibPort.joined, s.ibPort.leaves)
	}
}

// oneGroup makes tables with room for one group.
var oneGroup = tables.Config{MaxHosts: 16, MaxProxyQPs: 16, MaxNodes: 16, MaxGroups: 1, MaxReaders: 1}

// TestGroupRejected checks that a group that the tables reject is left and tried again, and that the bridge is not
// ready.
func TestGroupRejected(t *testing.T) {
	bubble(t, "no room", func(t *testing.T) {
		s := startWith(t, oneGroup, with(toIB(group4), toIB(netip.MustParseAddr("239.1.2.4"))))
		sleep(5 * time.Second)
		if st := s.loop.Status(); st.Ready || st.Groups != 1 || len(s.ibPort.leaves) != 1 || len(s.ibPort.joined) != 1 {
			t.Errorf("status %+v, left %v", st, s.ibPort.leaves)
		}
		sleep(10 * time.Second)
		if st := s.loop.Status(); st.Ready || len(s.ibPort.leaves) != 2 || st.Joined[0].MGID == s.ibPort.leaves[0] {
			t.Errorf("later, status %+v, left %v", st, s.ibPort.leaves)
		}
	})
	bubble(t, "the same MGID twice", func(t *testing.T) {
		one, two := toIB(group4), toIB(netip.MustParseAddr("239.1.2.4"))
		two.MGID = one.MGID
		s := start(t, with(one, two))
		sleep(time.Minute)
		if st := s.loop.Status(); st.Ready || st.Groups != 1 || s.ibPort.joins[one.MGID] != 1 || s.log.count("group_rejected") != 1 {
			t.Errorf("status %+v, joins %v", st, s.ibPort.joins)
		}
	})
}

// TestEndWhileRejecting checks that Run waits until a group has been left that was joined while Run ended, and that the
// tables reject.
func TestEndWhileRejecting(t *testing.T) {
	for i := range 20 { // whether the loop or the join notices first is chance
		bubble(t, "late", func(t *testing.T) {
			s := startWith(t, oneGroup, func(c *manageConfig, d *ibPort) {
				c.Groups = []manage.Group{toIB(group4), toIB(netip.MustParseAddr("239.1.2.4"))}
				d.join = func(context.Context, ibside.Join, int) error {
					time.Sleep(time.Second)
					return nil
				}
				d.leave = func() { time.Sleep(200 * time.Millisecond) }
			})
			sleep(time.Duration(i%2) * time.Second)
			if err := s.end(); err != nil {
				t.Error(err)
			}
			s.ibPort.mu.Lock()
			defer s.ibPort.mu.Unlock()
			if s.ibPort.leaving != 0 || len(s.ibPort.joined) != 0 || len(s.ibPort.leaves) != 2 {
				t.Errorf("%d leaves are under way; left %v; in %v", s.ibPort.leaving, s.ibPort.leaves, s.ibPort.joined)
			}
		})
	}
}

// TestLeaveFails checks that a bridge whose subnet administrator does not confirm that it leaves ends well nonetheless:
// soon, when there is no answer at all.
func TestLeaveFails(t *testing.T) {
	bubble(t, "rejected", func(t *testing.T) {
		s := start(t, func(c *manageConfig, d *ibPort) {
			c.Groups = []manage.Group{toIB(group4), toRoCE(group6)}
			d.leaveErr = errors.New("no such member")
		})
		if err := s.end(); err != nil || len(s.ibPort.leaves) != 2 || s.log.count("leave_failed") != 2 {
			t.Errorf("error %v after leaving %v", err, s.ibPort.leaves)
		}
	})
	bubble(t, "no answer", func(t *testing.T) {
		s := start(t, func(c *manageConfig, d *ibPort) {
			c.Groups = []manage.Group{toIB(group4), toRoCE(group6)}
			d.leaveErr = errors.New("the SA does not answer")
			d.leave = func() { time.Sleep(time.Second) }
		})
		began := time.Now()
		if err := s.end(); err != nil || len(s.ibPort.leaves) != 1 || time.Since(began) > 1500*time.Millisecond {
			t.Errorf("error %v after leaving %v, after %v", err, s.ibPort.leaves, time.Since(began))
		}
	})
}

// TestNodes checks that nodes with a LID are in the tables at once, and the others when the subnet administrator knows
// their paths.
func TestNodes(t *testing.T) {
	bubble(t, "path", func(t *testing.T) {
		s := start(t, func(c *manageConfig, d *ibPort) {
			c.Nodes = append(c.Nodes, manageNode{IP4: netip.MustParseAddr("10.9.0.8"), GID: gid(8)})
			d.path = func(_ context.Context, _ ib.GID, try int) error {
				if try < 4 {
					return errors.New("no such path")
				}
				return nil
			}
		})
		if st := s.loop.Status(); st.Ready || st.Nodes != 1 || st.Waiting != 1 {
			t.Errorf("status %+v", st)
		}
		sleep(time.Second)
		synctest.Wait()
		if st := s.loop.Status(); !st.Ready || st.Nodes != 2 {
			t.Errorf("later, status %+v", st)
		}
		n, _, ok := s.tables.Nodes.FindGID(gid(8))
		if !ok || n.LID != 7 || n.SL != 1 {
			t.Errorf("node %+v", n)
		}
	})
}

// TestStaticRejected checks that a configuration that does not fit ends the loop at once.
func TestStaticRejected(t *testing.T) {
	for name, edit := range map[string]func(*manageConfig){
		"hosts": func(c *manageConfig) {
			for i := range 20 {
				c.Hosts = append(c.Hosts, tables.Host{IP: netip.AddrFrom4([4]byte{10, 9, 0, byte(20 + i)}), MAC: hostMAC, Version: 2, Static: true})
			}
		},
		"nodes": func(c *manageConfig) {
			c.Nodes = append(c.Nodes, manageNode{IP4: netip.MustParseAddr("10.9.0.9"), GID: nodeGID, LID: 9})
		},
	} {
		bubble(t, name, func(t *testing.T) {
			s := start(t, func(c *manageConfig, _ *ibPort) { edit(c) })
			if err := s.end(); err == nil {
				t.Error("no error")
			}
			if s.loop.Status().Ready {
				t.Error("ready")
			}
		})
	}
}
