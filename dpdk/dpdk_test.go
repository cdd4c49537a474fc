// SPDX-License-Identifier: Apache-2.0

package dpdk

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"causeway/dpdk/dpdktest"
)

// testEAL is the one EAL of the test process. Its worker, if this machine has a CPU to spare, is never launched.
var testEAL *EAL

// childTask names, in a process started by a test, what it is to do instead of running tests.
const childTask = "CAUSEWAY_DPDK_TEST_TASK"

func TestMain(m *testing.M) {
	if task := os.Getenv(childTask); task != "" {
		os.Exit(runTask(task))
	}
	os.Exit(runTests(m))
}

func runTests(m *testing.M) int {
	var err error
	if testEAL, err = Init(EALConfig{Name: "test", Workers: lastCPU(), MemoryMiB: 128, ForceNoHuge: true}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	if n := dpdktest.Ports(); n != 0 {
		fmt.Fprintf(os.Stderr, "%d ports are still there at the end\n", n)
		return 1
	}
	if err := testEAL.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

func lastCPU() []int {
	cpus := usableCPUs()
	return cpus[len(cpus)-1:]
}

// jumboRoom is the least data room that all kinds of port take with MTU 4200.
var jumboRoom = DataRoom(4200)

// newPool makes a pool for one test, which must have all its mbufs back when the test ends.
func newPool(t *testing.T) *Mempool {
	t.Helper()
	pool, err := NewMempool(poolName(), 2048, jumboRoom, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if n := pool.InUse(); n != 0 {
			t.Errorf("%d mbufs are in use at the end", n)
		}
		if err := pool.Free(); err != nil {
			t.Error(err)
		}
	})
	return pool
}

var pools int

func poolName() string {
	pools++
	return fmt.Sprintf("test%d", pools)
}

// open opens and starts a port and closes it at the end of the test.
func open(t *testing.T, name string, config PortConfig) *Port {
	t.Helper()
	p, err := OpenPort(name, config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	return p
}

// frameLens reach from the shortest Ethernet frame to a UD message of 4096 bytes with all its RoCE headers.
var frameLens = []int{64, 65, 127, 128, 511, 1024, 1514, 1515, 2048, 3000, 4096, 4190}

// testType is the ethertype for local experiments (IEEE 802), which no kernel answers.
var testType = []byte{0x88, 0xb5}

// testFrame is a broadcast frame with random contents, the same for the same length and seed.
func testFrame(length int, seed uint64) []byte {
	frame := make([]byte, length)
	random := rand.New(rand.NewPCG(seed, uint64(length)))
	for i := range frame {
		frame[i] = byte(random.Uint32())
	}
	copy(frame, []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02, 0, 0, 0, 0, byte(seed)})
	copy(frame[12:], testType)
	return frame
}

func isTestFrame(frame []byte) bool { return len(frame) >= 14 && bytes.Equal(frame[12:14], testType) }

// end is one end of a wire under test.
type end struct {
	send func(frame []byte) error
	recv func() []byte // the next test frame, or nil when there is none right now
	any  func() []byte // the next frame of any kind, of the kernel's ends
}

// portEnd is the end that a worker would have. Frames go out by queue 0 and may come in by any.
func portEnd(p *Port) end {
	return end{
		send: func(frame []byte) error {
			m, err := p.config.Pool.Alloc(frame)
			if err != nil {
				return err
			}
			for range 1000 {
				if p.Tx(0, []Mbuf{m}) == 1 {
					return nil
				}
				time.Sleep(time.Millisecond)
			}
			m.Free()
			return fmt.Errorf("%s took no frame for a second", p.Name())
		},
		recv: func() []byte {
			var burst [1]Mbuf
			for q := range p.config.RxQueues {
				if p.Rx(q, burst[:]) == 0 {
					continue
				}
				frame := burst[0].Bytes()
				burst[0].Free()
				if isTestFrame(frame) {
					return frame
				}
			}
			return nil
		},
	}
}

// crossBothWays sends a frame of every length up to that MTU each way and wants each to arrive intact.
func crossBothWays(t *testing.T, a, b end, mtu int) {
	t.Helper()
	for i, wire := range []struct{ from, to end }{{a, b}, {b, a}} {
		for _, length := range frameLens {
			if length > mtu+14 {
				break
			}
			wire.to.recv() // a memif client hands out its buffers as it polls
			want := testFrame(length, uint64(i))
			if err := wire.from.send(want); err != nil {
				t.Fatalf("way %d: %v", i, err)
			}
			got := await(wire.to)
			if !bytes.Equal(got, want) {
				t.Fatalf("way %d: a frame of %d bytes arrived as %d bytes: %.32x, want %.32x", i, length, len(got), got, want)
			}
		}
	}
}

func await(e end) []byte {
	for range 2000 {
		if frame := e.recv(); frame != nil {
			return frame
		}
		time.Sleep(time.Millisecond)
	}
	return nil
}

func awaitLink(t *testing.T, ports ...*Port) {
	t.Helper()
	for _, p := range ports {
		for i := 0; !p.LinkUp(); i++ {
			if i == 3000 {
				t.Fatalf("%s: no link after three seconds; DPDK says: %s", p.Name(), logged())
			}
			time.Sleep(time.Millisecond)
		}
	}
}
