// SPDX-License-Identifier: Apache-2.0

package dpdk

import (
	"bytes"
	"strings"
	"testing"
)

func TestMbufCopiesInAndOut(t *testing.T) {
	pool := newPool(t)
	for _, length := range append([]int{0, 1, jumboRoom - Headroom}, frameLens...) {
		want := bytes.Repeat([]byte{byte(length), 0xa5}, length)[:length]
		m, err := pool.Alloc(want)
		if err != nil {
			t.Fatal(err)
		}
		if pool.InUse() != 1 {
			t.Errorf("%d mbufs in use, want 1", pool.InUse())
		}
		if got := m.Bytes(); !bytes.Equal(got, want) {
			t.Errorf("%d bytes came back as %d: %.16x", length, len(got), got)
		}
		m.Free()
	}
}

func TestMempoolRunsEmpty(t *testing.T) {
	pool, err := NewMempool("empty", 7, 256, 8)
	if err != nil {
		t.Fatal(err)
	}
	var taken []Mbuf
	for range pool.Size() {
		m, err := pool.Alloc([]byte("x"))
		if err != nil {
			t.Fatal(err)
		}
		taken = append(taken, m)
	}
	_, err = pool.Alloc(nil)
	wantError(t, err, `dpdk: mempool "empty": all 7 mbufs are in use`)
	wantError(t, pool.Free(), `dpdk: free mempool "empty": 7 mbufs are in use`)
	for _, m := range taken {
		m.Free()
	}
	_, err = pool.Alloc(make([]byte, 129))
	wantError(t, err, `dpdk: mempool "empty": 129 bytes do not fit in an mbuf that holds 128`)
	if err := pool.Free(); err != nil {
		t.Error(err)
	}
}

func TestMempoolErrors(t *testing.T) {
	taken, err := NewMempool("taken", 7, 256, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Free()
	for _, c := range []struct {
		name       string
		n, room    int
		priv       int
		want, also string
	}{
		{"taken", 7, 256, 0, `dpdk: mempool "taken": there is one of that name`, "choose another"},
		{"big", 1 << 20, 4480, 0, `dpdk: mempool "big": 1048576 mbufs of 4480 bytes need about 46`, "raise [workers] memory_mib"},
		{"none", 0, 256, 0, `dpdk: mempool "none": 0 mbufs`, "at least one"},
		{"room", 7, 128, 0, `dpdk: mempool "room"`, "a data room of 129 to 65535"},
		{"priv", 7, 256, 3, `dpdk: mempool "priv"`, "multiple of 8"},
		{strings.Repeat("long", 16), 7, 256, 0, `dpdk: mempool "longlong`, "the name is too long"},
	} {
		_, err := NewMempool(c.name, c.n, c.room, c.priv)
		wantError(t, err, c.want, c.also)
	}
}

func TestRing(t *testing.T) {
	pool := newPool(t)
	for _, size := range []int{1, 5, 64} {
		ring, err := NewRing("ring", size, true)
		if err != nil {
			t.Fatal(err)
		}
		burst := make([]Mbuf, size+1)
		for i := range burst {
			if burst[i], err = pool.Alloc([]byte{byte(i)}); err != nil {
				t.Fatal(err)
			}
		}
		if n := ring.Enqueue(burst); n != size || ring.Len() != size {
			t.Errorf("a ring of %d took %d of %d and has %d", size, n, len(burst), ring.Len())
		}
		burst[size].Free()
		out := make([]Mbuf, 1)
		if ring.Dequeue(out) != 1 || !bytes.Equal(out[0].Bytes(), []byte{0}) {
			t.Errorf("the first mbuf out is not the first in")
		}
		out[0].Free()
		ring.Free() // frees the mbufs left in it, which newPool checks
	}
}

func TestRingErrors(t *testing.T) {
	taken, err := NewRing("taken", 8, false)
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Free()
	_, err = NewRing("taken", 8, false)
	wantError(t, err, `dpdk: ring "taken": there is one of that name; choose another`)
	_, err = NewRing("zero", 0, false)
	wantError(t, err, `dpdk: ring "zero": size 0: use 1 to 1048576`)
}

// wantError wants a one-line error that begins with the first part and has the others.
func wantError(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("no error, want %q", parts)
		return
	}
	text := err.Error()
	if !strings.HasPrefix(text, parts[0]) || strings.ContainsAny(text, "\n\r") {
		t.Errorf("error %q, want one line that begins with %q", text, parts[0])
	}
	for _, part := range parts[1:] {
		if !strings.Contains(text, part) {
			t.Errorf("error %q does not say %q", text, part)
		}
	}
}
