// SPDX-License-Identifier: Apache-2.0

package groups_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"causeway/ibside"
	"causeway/ibside/ib"
	"causeway/lcore/frame"
	"causeway/lcore/manage/ask"
	"causeway/lcore/manage/groups"
	"causeway/lcore/manage/inbox"
	"causeway/lcore/manage/local"
	"causeway/lcore/manage/punt"
	"causeway/lcore/manage/ratelog"
	"causeway/tables"
)

var (
	bridgeMAC = frame.MAC{2, 0, 0, 0, 0, 0xfe}
	otherMAC  = frame.MAC{2, 0, 0, 0, 0, 0xfd} // another bridge's
	host4     = netip.MustParseAddr("10.9.0.1")
	node4     = netip.MustParseAddr("10.9.0.7")
	group4    = netip.MustParseAddr("239.1.2.3")
	group6    = netip.MustParseAddr("ff15::1:2:3")
)

// entries are Tables with room for some groups.
type entries struct {
	room int
	ids  map[ib.GID]uint32
	all  map[ib.GID]tables.Group
	puts []tables.Group
}

func (e *entries) Put(g tables.Group) (uint32, error) {
	if _, there := e.all[g.MGID]; !there && len(e.all) >= e.room {
		return 0, errors.New("full")
	}
	if _, has := e.ids[g.MGID]; !has {
		e.ids[g.MGID] = uint32(len(e.ids))
	}
	e.all[g.MGID] = g
	e.puts = append(e.puts, g)
	return e.ids[g.MGID], nil
}

func (e *entries) DeleteMGID(mgid ib.GID) error {
	delete(e.all, mgid)
	return nil
}

// port is a Port whose subnet grants every join.
type port struct {
	mu     sync.Mutex
	mlid   ib.LID // of the next join
	joins  []time.Time
	joined map[ib.GID]ibside.Join
}

func (p *port) Join(_ context.Context, j ibside.Join) (ibside.Membership, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mlid++
	p.joins = append(p.joins, time.Now())
	p.joined[j.MGID] = j
	return ibside.Membership{MLID: p.mlid, QKey: j.QKey, MTU: 4}, nil
}

func (p *port) Leave(_ context.Context, mgid ib.GID) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.joined, mgid)
	return nil
}

// worker is a punt.Worker that keeps the frames that it should send.
type worker struct{ sent [][]byte }

func (w *worker) TakePunted() []punt.Frame { return nil }

func (w *worker) Send(_ uint8, b []byte) error {
	w.sent = append(w.sent, b)
	return nil
}

// A rig is Groups with fakes, and the test runs the loop. Time is fake (testing/synctest).
type rig struct {
	*groups.Groups
	tables  *entries
	port    *port
	worker  *worker
	inbox   *inbox.Inbox
	notices chan ibside.Notice
}

// bubble runs a test with Groups on a fake clock.
func bubble(t *testing.T, c groups.Config, test func(*testing.T, *rig)) {
	synctest.Test(t, func(t *testing.T) {
		r := &rig{
			tables: &entries{room: 64, ids: map[ib.GID]uint32{}, all: map[ib.GID]tables.Group{}},
			port:   &port{mlid: 0xc000, joined: map[ib.GID]ibside.Join{}}, worker: &worker{},
			inbox: inbox.New(256, errors.New("ended")), notices: make(chan ibside.Notice),
		}
		asker := ask.New(r.inbox)
		ctx, stop := context.WithCancel(context.Background())
		asker.Start(ctx)
		r.Groups = groups.New(c, groups.Deps{
			Tables: r.tables, Port: r.port, Ask: asker, Log: ratelog.New(slog.New(slog.NewTextHandler(io.Discard, nil))),
			Local:  &local.Addresses{Link: frame.Link{MAC: bridgeMAC}, IPs: []netip.Prefix{netip.MustParsePrefix("10.9.0.254/24")}},
			Frames: punt.NewWorkers([]punt.Worker{r.worker}), IsPeer: func(a netip.Addr) bool { return a == node4 },
			IsBridge:  func(m frame.MAC) bool { return m == otherMAC },
			Partition: func(ib.PKey) uint8 { return 0 }, Owners: &groups.Owners{},
		})
		asker.Go(func() {
			for {
				select {
				case n := <-r.notices:
					asker.Later(ctx, func() { r.Noticed(n) })
				case <-ctx.Done():
					return
				}
			}
		})
		test(t, r)
		stop()
		asker.Wait()
	})
}

// run runs the loop for a time.
func (r *rig) run(d time.Duration) {
	const turn = 10 * time.Millisecond
	for range d / turn {
		time.Sleep(turn)
		synctest.Wait()
		r.inbox.DoPending()
		r.Tick(time.Now(), time.Now())
		r.UpdateFilter()
	}
}

// set sets the groups.
func (r *rig) set(t *testing.T, gs ...groups.Group) {
	t.Helper()
	if err := r.Set(gs); err != nil {
		t.Fatal(err)
	}
	r.run(100 * time.Millisecond)
}

func toIB(ip netip.Addr) groups.Group {
	return groups.Group{IP: ip, MGID: ib.MGIDRoCE(ip), ToIB: true}
}

func toRoCE(ip netip.Addr) groups.Group {
	return groups.Group{IP: ip, MGID: ib.MGIDRoCE(ip), ToRoCE: true}
}
