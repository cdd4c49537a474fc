// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"causeway/dpdk"
	"causeway/ibside/fabricport/porttest"
	"causeway/ibside/ib"
)

var (
	deviceFlag = flag.String("device", "", "the RDMA device for tests on a real one, such as rxe0; its port 1 must be active and have an IPv4 address")
	netdevFlag = flag.String("netdev", "", "the device's network interface, which tests of faults take down (as root)")
)

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "verbs")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }() // it is temporary
	compiled = dir
	return m.Run()
}

// needDevice skips a test that a machine without RDMA cannot run. app/e2e runs it in a virtual machine.
func needDevice(t *testing.T) {
	t.Helper()
	if *deviceFlag == "" {
		t.Skip("needs an RDMA device: give -device rxe0; or run app/e2e's TestVerbsPort, which has one in a guest")
	}
}

var startEAL = sync.OnceValue(func() error {
	_, err := dpdk.Init(dpdk.EALConfig{Name: "verbs-test", MemoryMiB: 160, ForceNoHuge: true})
	return err
})

func newPool(t *testing.T, mbufs, room int) *dpdk.Mempool {
	t.Helper()
	if err := startEAL(); err != nil {
		t.Fatal(err)
	}
	pool, err := dpdk.NewMempool(fmt.Sprintf("verbs%d", poolSerial), mbufs, dpdk.Headroom+room, 0)
	poolSerial++
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := pool.Free(); err != nil { // the error says how many mbufs are in use
			t.Error(err)
		}
	})
	return pool
}

var poolSerial int

// side is a port on the device; the test acts as its workers.
type side struct {
	*Port
	pool *dpdk.Mempool
}

const testRoom = 40 + 4096 + 24

func newSide(t *testing.T, c Config) *side {
	t.Helper()
	needDevice(t)
	s := &side{pool: newPool(t, 2047, testRoom)}
	c.Device, c.Port, c.Pool = *deviceFlag, 1, s.pool
	c.Workers = max(c.Workers, 1)
	c.Receives = max(c.Receives, 512)
	var err error
	if s.Port, err = open(c); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		s.checkCounters(t)
	})
	return s
}

func (s *side) checkCounters(t *testing.T) {
	t.Helper()
	if c := s.counters(); c.Received != c.Delivered+c.Drops.Sum() || c.Posted != c.Sent+c.SendDrops.Sum() {
		t.Errorf("the counters do not balance: %+v", c)
	}
}

func (s *side) proxyQP(t *testing.T, worker int, qkey ib.QKey) (uint32, ib.QPN) {
	t.Helper()
	qp, qpn, err := s.CreateProxyQP(worker, s.cfg.PKey, qkey)
	if err != nil {
		t.Fatal(err)
	}
	return qp, qpn
}

func (s *side) alloc(t *testing.T, payload []byte) dpdk.Mbuf {
	t.Helper()
	m, err := s.pool.Alloc(payload)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// post posts and does the rest of the worker's loop.
func (s *side) post(t *testing.T, worker int, sends ...porttest.Send) {
	t.Helper()
	if n := porttest.Post(s.Pointer(worker), sends); n != len(sends) {
		t.Fatalf("post took %d of %d", n, len(sends))
	}
	porttest.Free(s.Pointer(worker))
}

// poll acts as a worker until n messages have come, or the time is up. Their mbufs are freed.
func (s *side) poll(worker, n int, d time.Duration) (got []porttest.Recv, bytes [][]byte) {
	for end := time.Now().Add(d); len(got) < n && time.Now().Before(end); {
		porttest.Free(s.Pointer(worker))
		burst := porttest.Poll(s.Pointer(worker), 64)
		for _, r := range burst {
			bytes = append(bytes, r.Mbuf.Bytes())
			r.Mbuf.Free()
			r.Mbuf = dpdk.Mbuf{}
			got = append(got, r)
		}
		if len(burst) == 0 {
			time.Sleep(200 * time.Microsecond)
		}
	}
	return got, bytes
}

// until acts as both sides' first workers until a condition holds, and reports whether it did in time.
func until(d time.Duration, ok func() bool, sides ...*side) bool {
	for end := time.Now().Add(d); !ok(); time.Sleep(200 * time.Microsecond) {
		if time.Now().After(end) {
			return false
		}
		for _, s := range sides {
			porttest.Free(s.Pointer(0))
		}
	}
	return true
}

// quiet waits until everything that was posted has completed.
func (s *side) quiet(t *testing.T) counters {
	t.Helper()
	var c counters
	if !until(10*time.Second, func() bool { c = s.counters(); return c.Posted == c.Sent+c.SendDrops.Sum() }, s) {
		t.Fatalf("sends do not end: %+v", c)
	}
	return c
}

func pattern(n, seed int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7 + seed*13 + i>>8)
	}
	return b
}

func TestOpenErrors(t *testing.T) {
	pool := newPool(t, 63, testRoom)
	small := newPool(t, 63, 1000)
	device := *deviceFlag
	for _, c := range []struct {
		name   string
		config Config
		device bool
		want   []string
	}{
		{"no such device", Config{Device: "nosuch0", Pool: pool, Workers: 1}, false, []string{`device "nosuch0"`, "this machine has "}},
		{"workers", Config{Device: "x", Pool: pool, Workers: 65}, false, []string{"verbs: x:1: 65 workers; use 1 to 64"}},
		{"no workers", Config{Device: "x", Pool: pool}, false, []string{"0 workers; use 1 to 64"}},
		{"receives", Config{Device: "x", Pool: pool, Workers: 1, Receives: 1 << 16}, false, []string{"65536 receive buffers; use 64 to 32768"}},
		{"depth", Config{Device: "x", Pool: pool, Workers: 1, SendDepth: 100}, false, []string{"send depth 100; use a power of two"}},
		{"no such port", Config{Device: device, Port: 2, Pool: pool, Workers: 1}, true, []string{"has no port 2", "counted from 1"}},
		{"GID", Config{Device: device, GID: gid("192.0.2.1"), Pool: pool, Workers: 1}, true, []string{"no GID ::ffff:192.0.2.1", "add the address"}},
		{"buffers", Config{Device: device, Pool: small, Workers: 1}, true, []string{"buffers hold 1000 bytes", "needs 4136", "larger"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.device {
				needDevice(t)
			}
			d, err := Open(c.config)
			if err == nil {
				d.Close()
				t.Fatal("no error")
			}
			text := err.Error()
			if !strings.HasPrefix(text, "verbs: ") || strings.Contains(text, "\n") {
				t.Errorf("error %q, want one line that begins with verbs:", text)
			}
			for _, part := range c.want {
				if !strings.Contains(text, part) {
					t.Errorf("error %q does not say %q", text, part)
				}
			}
		})
	}
}
