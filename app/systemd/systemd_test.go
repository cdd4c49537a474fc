// SPDX-License-Identifier: Apache-2.0

package systemd

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"causeway/lcore"
	"causeway/lcore/manage"
)

// A manager is a fake service manager with a real socket.
type manager struct {
	t    *testing.T
	conn *net.UnixConn
}

// manages sets the environment as the service manager does.
func manages(t *testing.T, watchdog time.Duration) *manager {
	t.Helper()
	at := filepath.Join(t.TempDir(), "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: at, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	t.Setenv("NOTIFY_SOCKET", at)
	t.Setenv("WATCHDOG_USEC", "")
	t.Setenv("WATCHDOG_PID", "")
	if watchdog > 0 {
		t.Setenv("WATCHDOG_USEC", strconv.FormatInt(watchdog.Microseconds(), 10))
		t.Setenv("WATCHDOG_PID", strconv.Itoa(os.Getpid()))
	}
	return &manager{t: t, conn: conn}
}

// next returns the next message, and false when there is none for that time.
func (m *manager) next(within time.Duration) (string, bool) {
	m.t.Helper()
	b := make([]byte, 4096)
	if err := m.conn.SetReadDeadline(time.Now().Add(within)); err != nil {
		m.t.Fatal(err)
	}
	n, err := m.conn.Read(b)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return "", false
	}
	if err != nil {
		m.t.Fatal(err)
	}
	return string(b[:n]), true
}

// wants checks that a message with this beginning is among the next ones, and returns those before it.
func (m *manager) wants(prefix string) (before []string, message string) {
	m.t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		if got, ok := m.next(time.Second); !ok {
			continue
		} else if strings.HasPrefix(got, prefix) {
			return before, got
		} else {
			before = append(before, got)
		}
	}
	m.t.Fatalf("no %s; heard only %q", prefix, before)
	return nil, ""
}

// fed counts watchdog notifications in a period of time.
func (m *manager) triggered(during time.Duration) int {
	m.t.Helper()
	n := 0
	for end := time.Now().Add(during); time.Now().Before(end); {
		if got, ok := m.next(time.Until(end)); ok && got == "WATCHDOG=1" {
			n++
		}
	}
	return n
}

// fakeSource is a Source whose workers and management make progress with each reading, unless they are stalled.
type fakeSource struct {
	mu      sync.Mutex
	loops   []uint64
	status  manage.Status
	still   int // this worker is stalled; -1: none
	stopped bool
}

func (p *fakeSource) Workers() (out []lcore.Counters) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.loops {
		if i != p.still {
			p.loops[i] += 7
		}
		var c lcore.Counters
		c.Loops = p.loops[i]
		out = append(out, c)
	}
	return out
}

func (p *fakeSource) Status() manage.Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.stopped {
		p.status.Publication++
	}
	return p.status
}

func (p *fakeSource) set(f func(p *fakeSource)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f(p)
}

func newFakeSource() *fakeSource { return &fakeSource{loops: []uint64{1, 1}, still: -1} }

const watchdog = 2 * minInterval

// TestCourse takes a bridge from its start through a reload to its end.
func TestCourse(t *testing.T) {
	m, b := manages(t, watchdog), newFakeSource()
	b.status.Waiting = 3
	s := New(slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	end := s.Report(ctx, b)

	before, extend := m.wants("EXTEND_TIMEOUT_USEC=")
	if !slices.Equal(before, []string{"STATUS=Waiting for 3 joins and paths"}) || extend != "EXTEND_TIMEOUT_USEC=1000000" {
		t.Errorf("at first %q, then %q", before, extend)
	}
	s.Reloading()() // too early: READY=1 at its end would be wrong
	b.set(func(p *fakeSource) { p.status = manage.Status{Ready: true, Groups: 2, Hosts: 5, Nodes: 1, ProxyQPs: 9} })
	s.Ready()
	if before, _ := m.wants("READY=1"); slices.ContainsFunc(before, func(s string) bool { return !strings.HasPrefix(s, "EXTEND") }) {
		t.Errorf("before it was ready: %q", before)
	}
	m.wants("STATUS=Bridging: 2 groups, 5 RoCE hosts, 1 InfiniBand node, 9 proxy QPs")
	m.wants("WATCHDOG=1")

	done := s.Reloading()
	if _, got := m.wants("RELOADING=1\n"); !strings.Contains(got, "MONOTONIC_USEC=") {
		t.Errorf("%q", got)
	}
	m.wants("STATUS=Reloading the configuration")
	m.wants("WATCHDOG=1") // a long reload is not a stall
	done()
	m.wants("READY=1")
	cancel()
	m.wants("STOPPING=1")
	end()
	if again, ok := m.next(2 * watchdog); ok && !strings.HasPrefix(again, "STATUS=") && again != "WATCHDOG=1" {
		t.Errorf("after its end: %q", again)
	}
}

// TestStalled checks that there is no watchdog notification while a worker, management or all workers are stalled, and
// that they resume afterwards.
func TestStalled(t *testing.T) {
	for name, test := range map[string]struct {
		stop, move func(p *fakeSource)
		status     string
	}{
		"worker": {func(p *fakeSource) { p.still = 1 }, func(p *fakeSource) { p.still = -1 }, "worker 1 makes no progress"},
		"management": {func(p *fakeSource) { p.stopped = true }, func(p *fakeSource) { p.stopped = false },
			"management makes no progress"},
		"no worker": {func(p *fakeSource) { p.loops = nil }, func(p *fakeSource) { p.loops = []uint64{1} }, "no worker is running"},
	} {
		t.Run(name, func(t *testing.T) {
			m, b := manages(t, watchdog), newFakeSource()
			b.status.Ready = true
			s := New(slog.New(slog.DiscardHandler))
			s.Ready()
			defer s.Report(t.Context(), b)()
			m.wants("WATCHDOG=1")
			if n := m.triggered(3 * watchdog); n < 3 || n > 7 {
				t.Errorf("triggered %d times in three of the watchdog's intervals: want about 6", n)
			}
			b.set(test.stop)
			m.wants("STATUS=Watchdog not triggered: " + test.status)
			if n := m.triggered(3 * watchdog); n != 0 {
				t.Errorf("triggered %d times, though %s", n, test.status)
			}
			b.set(test.move)
			m.wants("WATCHDOG=1")
		})
	}
}

// TestStalledBeforeReady checks that a start that hangs runs into its timeout.
func TestStalledBeforeReady(t *testing.T) {
	m, b := manages(t, watchdog), newFakeSource()
	b.still = 0
	defer New(slog.New(slog.DiscardHandler)).Report(t.Context(), b)()
	m.wants("STATUS=Watchdog not triggered")
	for end := time.Now().Add(2 * watchdog); time.Now().Before(end); {
		if got, ok := m.next(time.Until(end)); ok && strings.HasPrefix(got, "EXTEND") {
			t.Fatalf("%q, though a worker is stalled", got)
		}
	}
}

// TestAlone checks that there is no notification without a service manager, and one log line when its socket has gone.
func TestAlone(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "")
	s := New(slog.New(slog.DiscardHandler))
	end := s.Report(t.Context(), newFakeSource())
	s.Ready()
	s.Reloading()()
	end()

	var log strings.Builder
	t.Setenv("NOTIFY_SOCKET", filepath.Join(t.TempDir(), "gone"))
	s = New(slog.New(slog.NewTextHandler(&log, nil)))
	s.Ready()
	s.Reloading()()
	s.Stopping()
	if n := strings.Count(log.String(), "\n"); n != 1 {
		t.Errorf("want one line about a socket that is not there, not\n%s", log.String())
	}
}
