// SPDX-License-Identifier: Apache-2.0

package manage_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"causeway/ibside/ib"
	"causeway/lcore/frame"
	"causeway/lcore/manage"
	"causeway/tables"
)

// The addresses of all tests: a bridge at .254, a node at .7, RoCE hosts below.
var (
	bridgeMAC = frame.MAC{2, 0, 0, 0, 0, 0xfe}
	hostMAC   = frame.MAC{2, 0, 0, 0, 0, 1}
	otherMAC  = frame.MAC{2, 0, 0, 0, 0, 2}
	bridge4   = netip.MustParseAddr("10.9.0.254")
	bridge6   = netip.MustParseAddr("fd09::fe")
	host4     = netip.MustParseAddr("10.9.0.1")
	host6     = netip.MustParseAddr("fd09::1")
	node4     = netip.MustParseAddr("10.9.0.7")
	node6     = netip.MustParseAddr("fd09::7")
	far4      = netip.MustParseAddr("192.0.2.9") // behind a router
	nodeGID   = ib.GIDFromGUID(0xfe80<<48, 7)
	hostLink  = frame.Link{MAC: hostMAC}
	otherLink = frame.Link{MAC: otherMAC}
)

// A rig is a running loop with real tables and otherwise fakes. Time is fake (testing/synctest).
type rig struct {
	t       *testing.T
	cfg     manage.Config
	loop    *manage.Loop
	tables  *tables.Tables
	ibPort  *ibPort
	w       *worker
	log     *logged
	stop    context.CancelFunc
	result  chan error
	stopped bool
}

// logged is a log that several goroutines write to.
type logged struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logged) count(part string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return bytes.Count(l.b.Bytes(), []byte(part))
}

func config() manage.Config {
	return manage.Config{
		MAC:  bridgeMAC,
		PKey: ib.PKeyDefault,
		Segment: manage.Segment{
			Addresses: []netip.Prefix{netip.PrefixFrom(bridge4, 24), netip.PrefixFrom(bridge6, 64)}, Version: 2, RoCEMTU: 4096,
		},
		IBMTU: 4096, MaxHosts: 16, ProxyQPs: 8, ProxyQPLimits: manage.ProxyQPLimits{PerHost: 3}, PuntRing: 4095,
		Nodes: []manage.Node{{IP4: node4, IP6: node6, GID: nodeGID, LID: 7}},
	}
}

// smallTables are the sizes of the tables of most tests.
var smallTables = tables.Config{MaxHosts: 16, MaxProxyQPs: 16, MaxNodes: 16, MaxGroups: 64, MaxReaders: 1}

// start starts a loop; edit, if not nil, changes its configuration and port.
func start(t *testing.T, edit func(*manage.Config, *ibPort)) *rig {
	t.Helper()
	return startWith(t, smallTables, edit)
}

func startWith(t *testing.T, size tables.Config, edit func(*manage.Config, *ibPort)) *rig {
	t.Helper()
	s := &rig{t: t, cfg: config(), ibPort: newPort(), w: &worker{}, log: &logged{}, result: make(chan error, 1)}
	if edit != nil {
		edit(&s.cfg, s.ibPort)
	}
	if s.cfg.AwaitPunted == nil { // as the datapath does: else each idle millisecond is a turn of the loop
		s.w.ready = make(chan struct{}, 1)
		s.cfg.Punted, s.cfg.AwaitPunted = s.w.ready, func() bool { return true }
	}
	var err error
	if s.tables, err = tables.New(size); err != nil {
		t.Fatal(err)
	}
	s.loop = manage.New(s.cfg, s.tables, s.ibPort, []manage.Worker{s.w}, slog.New(slog.NewTextHandler(s.log, nil)))
	if s.loop.Status().Ready {
		t.Error("ready before it has begun")
	}
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	go func() { s.result <- s.loop.Run(ctx) }()
	t.Cleanup(func() {
		if !s.stopped {
			if err := s.end(); err != nil {
				t.Errorf("Run: %v", err)
			}
		}
		s.tables.Close()
	})
	s.settle()
	return s
}

// end stops the loop and returns Run's result.
func (s *rig) end() error {
	s.stop()
	s.stopped = true
	return <-s.result
}

// settle waits until the loop has nothing left to do.
func (s *rig) settle() { sleep(5 * time.Millisecond) }

// seen tells the race detector that what a test has read or written is before the loop's next turn.
var seen sync.Mutex

func pass(m *sync.Mutex) {
	m.Lock()
	defer m.Unlock()
}

// sleep lets time pass. Afterwards the test may read what the loop has written meanwhile.
func sleep(d time.Duration) {
	pass(&seen)
	time.Sleep(d)
	synctest.Wait()
}

// removeHost removes a host from the tables.
func (s *rig) removeHost(ip netip.Addr) {
	s.t.Helper()
	if err := s.tables.Hosts.Delete(ip); err != nil {
		s.t.Fatal(err)
	}
	pass(&seen)
}

// give passes a frame to the loop and returns the frames that it sent in answer.
func (s *rig) give(b []byte) [][]byte {
	s.w.give(manage.Punted{Data: b})
	s.settle()
	return s.w.take()
}

// count returns the current counters.
func (s *rig) count() manage.Counters {
	sleep(200 * time.Millisecond) // until the next publication
	return s.loop.Status().Counters
}

// host returns a host's entry.
func (s *rig) host(ip netip.Addr) (tables.Host, bool) {
	h, _, ok := s.tables.Hosts.Find(ip)
	return h, ok
}

// bubble runs a test on a fake clock.
func bubble(t *testing.T, name string, f func(*testing.T)) {
	t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
}

// frames parses frames; each must be complete.
func frames(t *testing.T, sent [][]byte) []frame.Frame {
	t.Helper()
	var out []frame.Frame
	for _, b := range sent {
		f, fault := frame.Open(b)
		if fault != "" || len(b) < frame.MinLen {
			t.Fatalf("sent a frame of %d bytes that is bad: %q", len(b), fault)
		}
		out = append(out, f)
	}
	return out
}
