// SPDX-License-Identifier: Apache-2.0

package bond

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"causeway/dpdk"
	"causeway/dpdk/lacp"
)

// A fakePort is net_bonding without links and frames.
type fakePort struct {
	mu       sync.Mutex
	notYet   int // so many calls of Set fail
	collects map[int]bool
	sends    map[int]bool
	polls    bool // workers poll
	began    time.Time
	came     chan struct{}
	slow     []slowFrame
	peer     *lacp.Bond // at the other end; nil: nobody
	mute     map[int]bool
	doubled  bool // two members were received from at once
	tells    []time.Duration
	log      strings.Builder
}

type slowFrame struct {
	member int
	frame  []byte
}

func (p *fakePort) Set(member int, collect, distribute bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.notYet > 0 {
		p.notYet--
		return fmt.Errorf("member %d: %w", member, dpdk.ErrNoLinkYet)
	}
	p.collects[member], p.sends[member] = collect, distribute
	n := 0
	for _, c := range p.collects {
		if c {
			n++
		}
	}
	p.doubled = p.doubled || n > 1
	return nil
}

// Drained: workers poll each half millisecond, where they do.
func (p *fakePort) Drained(int) uint64 {
	if !p.polls {
		return 0
	}
	return uint64(time.Since(p.began) / (500 * time.Microsecond))
}

func (p *fakePort) SlowCame() <-chan struct{} { return p.came }

func (p *fakePort) TakeSlow() (int, []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.slow) == 0 {
		return 0, nil
	}
	f := p.slow[0]
	p.slow = p.slow[1:]
	return f.member, f.frame
}

func (p *fakePort) SendSlow(member int, frame []byte) error {
	if p.peer != nil && !p.mute[member] {
		p.peer.Receive(time.Now(), member, frame)
	}
	return nil
}

// fromPeer is a LACPDU of the other end.
func (p *fakePort) fromPeer(member int, frame []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mute[member] {
		return
	}
	p.slow = append(p.slow, slowFrame{member, frame})
	select {
	case p.came <- struct{}{}:
	default:
	}
}

// Write takes the log.
func (p *fakePort) Write(b []byte) (int, error) { return p.log.Write(b) }

// start runs a bond of two members.
func start(t *testing.T, mode bool) (*Bond, *fakePort) {
	t.Helper()
	p := &fakePort{collects: map[int]bool{}, sends: map[int]bool{}, mute: map[int]bool{}, polls: true, came: make(chan struct{}, 1), began: time.Now()}
	b := New(Config{Port: p, Members: []string{"eth1", "eth2"}, LACP: mode, System: [6]byte{2, 0, 0, 0, 0, 1}, Log: slog.New(slog.NewTextHandler(p, nil)),
		Wake: func() {}, Changed: func() { p.tells = append(p.tells, time.Since(p.began)) }})
	ctx, end := context.WithCancel(context.Background())
	var ended sync.WaitGroup
	ended.Go(func() { b.Run(ctx) })
	t.Cleanup(func() {
		end()
		ended.Wait()
	})
	return b, p
}

func (p *fakePort) want(t *testing.T, what string, collects, sends []int) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	for name, x := range map[string]struct {
		got  map[int]bool
		want []int
	}{"received from": {p.collects, collects}, "sent by": {p.sends, sends}} {
		for i := range 2 {
			if x.got[i] != slices.Contains(x.want, i) {
				t.Errorf("%s: %s member %d: %v", what, name, i, x.got[i])
			}
		}
	}
}

// TestActiveBackup checks that one member carries frames, the next as soon as it has lost its link, and that a link that
// comes back changes nothing.
func TestActiveBackup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, p := start(t, false)
		p.notYet = 2
		b.SetLink(1, "")
		time.Sleep(20 * time.Millisecond)
		p.want(t, "the second has a link", []int{1}, []int{1})
		b.SetLink(0, "")
		time.Sleep(time.Second)
		p.want(t, "the first has one, too", []int{1}, []int{1})
		if m := b.Members(); !m[0].Standby || m[0].Carries || !m[1].Carries || m[1].Changes != 1 || b.Down() != "" {
			t.Errorf("%+v", m)
		}
		b.SetLink(1, NoCarrier)
		p.want(t, "it has failed, and workers have not taken all of it", []int{1}, []int{0})
		time.Sleep(3 * time.Millisecond)
		p.want(t, "they have", []int{0}, []int{0})
		p.polls = false
		b.SetLink(1, "")
		b.SetLink(0, NoCarrier)
		time.Sleep(19 * time.Millisecond)
		p.want(t, "workers do not poll", []int{0}, []int{1})
		time.Sleep(3 * time.Millisecond)
		p.want(t, "they never do", []int{1}, []int{1})
		b.SetLink(1, NoCarrier)
		time.Sleep(failOver - time.Millisecond)
		p.want(t, "no link", nil, nil)
		if strings.Contains(p.log.String(), "bond_down") {
			t.Error("a fail-over is an error")
		}
		time.Sleep(time.Second)
		if why := b.Down(); !strings.Contains(why, "eth1: it has no carrier; eth2: it has no carrier") || strings.Count(p.log.String(), "bond_down") != 1 {
			t.Errorf("%s; logged\n%s", why, p.log.String())
		}
		if p.doubled {
			t.Error("two members were received from at once")
		}
		if len(p.tells) != 3 {
			t.Errorf("told of changes at %v; want three", p.tells)
		}
	})
}

// connect puts another bond at the other end.
func (p *fakePort) connect(now time.Time) {
	p.peer = lacp.New([6]byte{2, 0, 0, 0, 0, 2}, 2, p.fromPeer)
	p.peer.SetLink(now, 0, true)
	p.peer.SetLink(now, 1, true)
}

// TestLACP checks that what the protocol decides is done, without any traffic; and that changes are told at once, but not
// more often than each second.
func TestLACP(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, p := start(t, true)
		p.connect(time.Now())
		peer := func(d time.Duration) {
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
				p.peer.Tick(time.Now())
			}
		}
		b.SetLink(0, "")
		b.SetLink(1, "")
		peer(2 * time.Second)
		p.want(t, "both", []int{0, 1}, []int{0, 1})
		tells := len(p.tells)
		peer(10 * time.Minute)
		p.want(t, "after ten minutes", []int{0, 1}, []int{0, 1})
		if len(p.tells) != tells || strings.Contains(p.log.String(), "bond_member_off") {
			t.Errorf("there were changes:\n%s", p.log.String())
		}
		p.mute[1] = true
		peer(3100 * time.Millisecond)
		p.want(t, "the second is silent", []int{0, 1}, []int{0})
		if m := b.Members(); !strings.Contains(m[1].Why, "no LACPDU has come") || m[1].Protocol.Receiving != lacp.WasCurrent || m[0].Why != "" {
			t.Errorf("%+v", m)
		}
		if len(p.tells) != tells+1 {
			t.Errorf("told of changes at %v", p.tells)
		}
		peer(3 * time.Second)
		p.want(t, "still", []int{0}, []int{0})
		p.mute[1] = false
		peer(1100 * time.Millisecond)
		p.want(t, "it speaks again", []int{0, 1}, []int{0, 1})
		tells = len(p.tells)
		for range 10 {
			b.SetLink(1, NoCarrier)
			time.Sleep(50 * time.Millisecond)
			b.SetLink(1, "")
			peer(50 * time.Millisecond)
		}
		peer(2 * time.Second)
		if n := len(p.tells) - tells; n < 1 || n > 4 {
			t.Errorf("told of changes %d times in three seconds", n)
		}
		b.Leave()
		p.mu.Lock()
		defer p.mu.Unlock()
		for i, x := range p.peer.Ports() {
			if x.Distributing {
				t.Errorf("after the end, the other end sends by port %d", i)
			}
		}
	})
}
