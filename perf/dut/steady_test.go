// SPDX-License-Identifier: Apache-2.0

package dut_test

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"causeway/perf/dut"
	"causeway/perf/trial"
)

// A mark is what a process holds at a quiet moment.
type mark struct {
	mbufs    int // that are not in the pool
	objects  int // that live on Go's heap
	resident int // bytes
}

func markNow(t *testing.T, b *dut.Bridge) mark {
	t.Helper()
	b.Empty()
	runtime.GC() // twice: what has a finalizer goes with the second
	runtime.GC()
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
	return mark{mbufs: b.Pool().InUse(), objects: int(m.HeapObjects), resident: pages * os.Getpagesize()}
}

// What may be more without anything growing. Millions of packets lie between two marks: what one in a thousand left behind
// would exceed any of these.
const (
	moreObjects  = 500     // the runtime's own, and those of timers and goroutines of the test
	moreResident = 4 << 20 // bytes: stacks, pages of the heap and of the rings that were not touched before
)

// grown says what there is more of than at an earlier mark. Mbufs may not be one more: all are in the pool then.
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

// crowd is traffic of all kinds: both IP versions, lengths from the least to the largest, and groups.
var crowd = dut.Traffic{Payloads: []int{64, 256, 64, 1024, 64, 4096}, Flows: 600, IP: []int{4, 6}, Groups: 50, Share: 0.2}

// carry has at least so many packets cross each way, and returns how many did.
func carry(t *testing.T, b *dut.Bridge, least uint64) (crossed [2]uint64) {
	t.Helper()
	both := []trial.Direction{trial.RoCEToIB, trial.IBToRoCE}
	for deadline := time.Now().Add(5 * time.Minute); crossed[0] < least || crossed[1] < least; {
		if time.Now().After(deadline) {
			t.Fatalf("%d packets crossed in five minutes", crossed)
		}
		o, err := b.Run(t.Context(), trial.At(both, 4e6, 500*time.Millisecond))
		if err != nil {
			t.Fatal(err)
		}
		for d := range crossed {
			crossed[d] += o.Counts[d].Received
		}
	}
	return crossed
}

// TestNothingGrows has millions of packets cross, more than there is room for at times, so that some are dropped on the way,
// and wants no more memory in use after them than before. What is on the shelves does not change.
func TestNothingGrows(t *testing.T) {
	const warm, many = 200_000, 1_000_000
	b := build(t, crowd)
	carry(t, b, warm)
	before := markNow(t, b)
	crossed := carry(t, b, many)
	after := markNow(t, b)
	t.Logf("%d packets from Ethernet and %d from InfiniBand crossed; %+v, then %+v", crossed[0], crossed[1], before, after)
	for _, fault := range after.grown(before) {
		t.Error(fault)
	}
}

// TestGrowthIsSeen leaves behind an mbuf, objects and memory, and wants each to be seen.
func TestGrowthIsSeen(t *testing.T) {
	b := build(t, crowd)
	carry(t, b, 1)
	var kept []*[16]byte
	var pages []byte
	for _, c := range []struct {
		what  string
		leave func()
	}{
		{"mbufs more", func() {
			m, err := b.Pool().Alloc(nil)
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
			pages = make([]byte, 2*moreResident)
			for i := 0; i < len(pages); i += os.Getpagesize() {
				pages[i] = 1
			}
		}},
	} {
		before := markNow(t, b)
		c.leave()
		faults := markNow(t, b).grown(before)
		if len(faults) != 1 || !strings.Contains(faults[0], c.what) {
			t.Errorf("%s: %q", c.what, faults)
		}
	}
	runtime.KeepAlive(kept)
	runtime.KeepAlive(pages)
}
