// SPDX-License-Identifier: Apache-2.0

package pgm

import (
	"os"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A guarded is memory between two pages without access: code that reads before or behind it ends the process.
type guarded struct {
	middle []byte // whole pages
}

// newGuarded maps memory for payloads of up to n bytes.
func newGuarded(t testing.TB, n int) *guarded {
	t.Helper()
	page := os.Getpagesize()
	size := (n + page - 1) / page * page
	all, err := unix.Mmap(-1, 0, size+2*page, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Munmap(all); err != nil {
			t.Error(err)
		}
	})
	middle := all[page : page+size]
	if err := unix.Mprotect(middle, unix.PROT_READ|unix.PROT_WRITE); err != nil {
		t.Fatal(err)
	}
	return &guarded{middle}
}

// atEnd copies b so that it ends where the memory ends; atStart, so that it begins there.
func (g *guarded) atEnd(b []byte) []byte {
	return g.middle[len(g.middle)-len(b):][:copy(g.middle[len(g.middle)-len(b):], b)]
}

func (g *guarded) atStart(b []byte) []byte { return g.middle[:copy(g.middle, b)] }

// show passes b to the tracker at both ends of the memory; the payload is read-only meanwhile.
func (g *guarded) show(t testing.TB, tracker *Tracker, b []byte, tsc uint64) {
	t.Helper()
	for _, place := range []func([]byte) []byte{g.atEnd, g.atStart} {
		payload := place(b)
		g.protect(t, unix.PROT_READ)
		tracker.see(payload, 1, Direction(tsc&1), tsc)
		g.protect(t, unix.PROT_READ|unix.PROT_WRITE)
	}
}

func (g *guarded) protect(t testing.TB, how int) {
	t.Helper()
	if err := unix.Mprotect(g.middle, how); err != nil {
		t.Fatal(err)
	}
}

// Wherever a packet is cut off, nothing behind its end is read, and tracker and model agree.
func TestTruncated(t *testing.T) {
	g := newGuarded(t, longest)
	whole := [][]byte{good(), goodNAK(1, 2, 3), manyOptions(33)}
	for _, c := range dissected {
		c.packet.Unsummed = true
		whole = append(whole, c.packet.AppendTo(nil))
	}
	for _, b := range whole {
		for n := range len(b) + 1 {
			tracker, m := newTracker(t, Config{Streams: 4}), newModel(true)
			g.show(t, tracker, b[:n], 1)
			m.see(b[:n], 1, 1, 1)
			m.see(b[:n], 1, 1, 1)
			same(t, tracker, m)
		}
	}
}

// The guard works: the byte behind the payload lies in a page without access.
func TestGuard(t *testing.T) {
	g := newGuarded(t, 100)
	b := g.atEnd([]byte{1, 2, 3})
	behind := uintptr(unsafe.Pointer(unsafe.SliceData(b))) + uintptr(len(b))
	if behind%uintptr(os.Getpagesize()) != 0 {
		t.Fatalf("the payload ends at %#x, within a page", behind)
	}
	// The kernel reads it for this test: that returns EFAULT and does not crash.
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	if _, _, e := unix.Syscall(unix.SYS_WRITE, w.Fd(), behind, 1); e != unix.EFAULT {
		t.Errorf("reading the byte behind: %v, want EFAULT", e)
	}
}
