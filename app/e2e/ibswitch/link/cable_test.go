// SPDX-License-Identifier: Apache-2.0

package link

import (
	"errors"
	"net"
	"path/filepath"
	"testing"
	"time"
)

// port records what its link brings.
type port struct {
	packets chan string
	up      chan bool
}

func newPort() *port { return &port{make(chan string, 100), make(chan bool, 100)} }

func (p *port) Receive(b []byte)    { p.packets <- string(b) }
func (p *port) LinkChanged(up bool) { p.up <- up }

func want[T comparable](t *testing.T, from <-chan T, wanted ...T) {
	t.Helper()
	for _, w := range wanted {
		select {
		case got := <-from:
			if got != w {
				t.Fatalf("got %v, want %v", got, w)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("nothing came, want %v", w)
		}
	}
}

func cable(t *testing.T, local, remote string) *Cable {
	t.Helper()
	c, err := NewCable(local, remote)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// TestLinks: packets both ways, retraining, a pulled cable; between two cables, and over a pipe.
func TestLinks(t *testing.T) {
	a, b := filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "b")
	end0, end1 := Pipe()
	for name, ends := range map[string][2]Link{"cable": {cable(t, a, b), cable(t, b, a)}, "pipe": {end0, end1}} {
		t.Run(name, func(t *testing.T) {
			near, far, here, there := ends[0], ends[1], newPort(), newPort()
			near.Start(here)
			far.Start(there)
			want(t, here.up, true)
			want(t, there.up, true)
			for _, p := range []string{"one", "two"} {
				if err := errors.Join(near.Send([]byte(p)), far.Send([]byte(p+" back"))); err != nil {
					t.Fatal(err)
				}
			}
			want(t, there.packets, "one", "two")
			want(t, here.packets, "one back", "two back")
			near.Retrain()
			want(t, here.up, false, true)
			want(t, there.up, false, true)
			near.Plug(false)
			want(t, here.up, false)
			want(t, there.up, false)
			if err := near.Send([]byte("three")); !errors.Is(err, ErrDown) {
				t.Errorf("to a pulled cable: %v", err)
			}
			near.Plug(true)
			want(t, here.up, true)
			want(t, there.up, true)
			near.Close()
			want(t, here.up, false)
			want(t, there.up, false)
		})
	}
}

// TestRestart: the other end goes, and another comes at its path.
func TestRestart(t *testing.T) {
	a, b := filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "b")
	near, here := cable(t, a, b), newPort()
	near.Start(here)
	for range 2 {
		far, there := cable(t, b, a), newPort()
		far.Start(there)
		want(t, here.up, true)
		want(t, there.up, true)
		if err := near.Send([]byte("x")); err != nil {
			t.Error(err)
		}
		want(t, there.packets, "x")
		far.Close()
		want(t, here.up, false)
	}
	if n := near.Connects(); n != 2 {
		t.Errorf("connected %d times, want 2", n)
	}
}

// TestSlowGuest: who takes nothing holds the sender up, but not forever.
func TestSlowGuest(t *testing.T) {
	a, b := filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "b")
	guest, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: b, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer guest.Close()
	near, here := cable(t, a, b), newPort()
	near.lifetime = 50 * time.Millisecond
	near.Start(here)
	frame := make([]byte, frameHeaderLen)
	putTraining(frame, true, 1)
	if _, err := guest.WriteTo(frame, &net.UnixAddr{Name: a, Net: "unixgram"}); err != nil {
		t.Fatal(err)
	}
	want(t, here.up, true)
	packet := make([]byte, 4096)
	for range 100_000 {
		if err = near.Send(packet); err != nil {
			break
		}
	}
	if !errors.Is(err, ErrLifetime) {
		t.Errorf("to a guest that takes nothing: %v", err)
	}
}
