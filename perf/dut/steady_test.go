// SPDX-License-Identifier: Apache-2.0

package dut_test

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"causeway/perf/dut"
	"causeway/perf/trial"
)

// A mark is what the process has allocated while nothing runs.
type mark struct {
	mbufs    int // that are not in the pool
	objects  int // that live on Go's heap
	resident int // bytes
}

func markNow(t *testing.T, d *dut.DUT) mark {
	t.Helper()
	d.Empty()
	runtime.GC()         // twice: objects with a finalizer are freed by the second
	debug.FreeOSMemory() // or the runtime gives back later what was free at the first mark, and hides what has grown
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Fatal(err)
	}
	pages, err := strconv.Atoi(strings.Fields(string(text))[1])
	if err != nil {
		t.Fatal(err)
	}
	return mark{mbufs: d.Pool().InUse(), objects: int(m.HeapObjects), resident: pages * os.Getpagesize()}
}

// Tolerances. Millions of packets are forwarded between two marks: a leak in one of a thousand would exceed them.
const (
	moreObjects  = 500     // the runtime's own, and those of timers and goroutines of the test
	moreResident = 4 << 20 // bytes: stacks, pages of the heap and of the rings that were not touched before
)

// grown lists what has grown since an earlier mark. There is no tolerance for mbufs: all are in the pool.
func (m mark) grown(before mark) (faults []string) {
	if n := m.mbufs - before.mbufs; n > 0 {
		faults = append(faults, fmt.Sprintf("%d mbufs more are in use", n))
	}
	if n := m.objects - before.objects; n > moreObjects {
		faults = append(faults, fmt.Sprintf("%d objects more are on the heap", n))
	}
	if n := m.resident - before.resident; n > moreResident {
		faults = append(faults, fmt.Sprintf("%d KiB more are resident", n>>10))
	}
	return faults
}

// crowd has both IP versions, short and long messages, and groups.
var crowd = dut.Traffic{Payloads: []int{64, 256, 64, 1024, 64, 4096}, Flows: 600, IP: []int{4, 6}, Groups: 50, Share: 0.2}

// carry has at least that many packets forwarded in each direction, and returns how many were.
func carry(t *testing.T, d *dut.DUT, least uint64) (crossed [2]uint64) {
	t.Helper()
	both := []trial.Direction{trial.RoCEToIB, trial.IBToRoCE}
	for deadline := time.Now().Add(5 * time.Minute); crossed[0] < least || crossed[1] < least; {
		if time.Now().After(deadline) {
			t.Fatalf("%d packets crossed in five minutes", crossed)
		}
		o, err := d.Run(t.Context(), trial.At(both, 4e6, 500*time.Millisecond))
		if err != nil {
			t.Fatal(err)
		}
		for dir := range crossed {
			crossed[dir] += o.Counts[dir].Received
		}
	}
	return crossed
}

// TestNothingGrows has millions of packets forwarded, at times more than queues hold, so that some are dropped.
// Afterwards no more memory may be in use than before. The tables do not change.
func TestNothingGrows(t *testing.T) {
	const warm, many = 200_000, 1_000_000
	d := build(t, crowd)
	carry(t, d, warm)
	before := markNow(t, d)
	crossed := carry(t, d, many)
	after := markNow(t, d)
	t.Logf("%d packets from Ethernet and %d from InfiniBand crossed; %+v, then %+v", crossed[0], crossed[1], before, after)
	for _, fault := range after.grown(before) {
		t.Error(fault)
	}
}

// TestGrowthIsSeen leaks an mbuf, objects and memory, each of which must be found.
func TestGrowthIsSeen(t *testing.T) {
	d := build(t, crowd)
	carry(t, d, 1)
	var kept []*[16]byte
	var pages []byte
	for _, c := range []struct {
		what  string
		leave func()
	}{
		{"mbufs more", func() {
			m, err := d.Pool().Alloc(nil)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(m.Free) // before the device is closed
		}},
		{"objects more", func() {
			for range 2 * moreObjects {
				kept = append(kept, new([16]byte))
			}
		}},
		{"KiB more", func() {
			pages = mapped(t, 2*moreResident) // Go's heap may have as much that is resident already
		}},
	} {
		before := markNow(t, d)
		c.leave()
		faults := markNow(t, d).grown(before)
		if len(faults) != 1 || !strings.Contains(faults[0], c.what) {
			t.Errorf("%s: %q", c.what, faults)
		}
	}
	runtime.KeepAlive(kept)
	runtime.KeepAlive(pages)
}

// mapped returns new pages, all of them resident.
func mapped(t *testing.T, bytes int) []byte {
	t.Helper()
	m, err := unix.Mmap(-1, 0, bytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_POPULATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Munmap(m); err != nil {
			t.Error(err)
		}
	})
	return m
}
