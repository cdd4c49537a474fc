// SPDX-License-Identifier: Apache-2.0

package talk

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
)

// wire is a veth pair between two network namespaces: left with 10.9.0.1 and fd09::1 of the kernel's, right without
// addresses.
type wire struct{ left, right netns.NsHandle }

// needWire makes one. It skips a test, or fails it in CI, where no network namespace can be made.
func needWire(t *testing.T) wire {
	t.Helper()
	w, err := newWire(t)
	switch {
	case err == nil:
	case os.Getenv("CI") == "true":
		t.Fatalf("CI must be able to make network namespaces: %v", err)
	case os.Geteuid() != 0:
		t.Skip("this test makes network namespaces; run it as root")
	default:
		t.Fatal(err)
	}
	return w
}

func newWire(t *testing.T) (w wire, err error) {
	for _, ns := range []*netns.NsHandle{&w.left, &w.right} {
		err := thread(func() error { *ns, err = netns.New(); return err })
		if err != nil {
			return w, err
		}
		t.Cleanup(func() { _ = ns.Close() }) // a handle to read
	}
	err = inside(w.left, func() error {
		a := netlink.NewLinkAttrs()
		a.Name, a.MTU = "left", 4200
		if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: a, PeerName: "right", PeerMTU: 4200, PeerNamespace: netlink.NsFd(w.right)}); err != nil {
			return err
		}
		l, err := netlink.LinkByName("left")
		if err != nil {
			return err
		}
		for _, ip := range []string{"10.9.0.1/24", "fd09::1/64"} {
			addr, err := netlink.ParseAddr(ip)
			if err != nil {
				return err
			}
			if addr.IP.To4() == nil {
				addr.Flags = 0x02 // IFA_F_NODAD, linux/if_addr.h: at once
			}
			if err := netlink.AddrAdd(l, addr); err != nil {
				return err
			}
		}
		return netlink.LinkSetUp(l)
	})
	if err != nil {
		return w, err
	}
	err = inside(w.right, func() error {
		l, err := netlink.LinkByName("right")
		if err != nil {
			return err
		}
		return netlink.LinkSetUp(l)
	})
	return w, errors.Join(err, inside(w.left, func() error { return carries("left") }), inside(w.right, func() error { return carries("right") }))
}

// carries waits until an interface does not lose any more what is sent, which is some time after it is up.
func carries(name string) error {
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		l, err := netlink.LinkByName(name)
		if err != nil {
			return err
		}
		if l.Attrs().OperState == netlink.OperUp {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s: %v", name, l.Attrs().OperState)
		}
	}
}

// thread runs f on a thread that ends with it.
func thread(f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // for good
		done <- f()
	}()
	return <-done
}

// inside runs f in a network namespace.
func inside(ns netns.NsHandle, f func() error) error {
	return thread(func() error { return errors.Join(netns.Set(ns), f()) })
}

// heard collects messages.
type heard struct {
	mu  sync.Mutex
	all []Message
}

func (h *heard) note(m *Message) {
	h.mu.Lock()
	defer h.mu.Unlock()
	kept := *m
	kept.Payload = append([]byte(nil), m.Payload...)
	h.all = append(h.all, kept)
}

// await waits for that many messages, takes and returns them.
func (h *heard) await(t *testing.T, n int) []Message {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		h.mu.Lock()
		if len(h.all) >= n {
			all := h.all
			h.all = nil
			h.mu.Unlock()
			return all
		}
		came := len(h.all)
		h.mu.Unlock()
		if time.Now().After(deadline) {
			t.Fatalf("%d messages came, want %d", came, n)
		}
	}
}

// openIn opens an end in a namespace, until the test ends.
func openIn(t *testing.T, ns netns.NsHandle, c Config) (e End, h *heard) {
	t.Helper()
	h = &heard{}
	c.OnMessage = h.note
	err := inside(ns, func() (err error) { e, err = Open(c); return err })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e, h
}

func soon(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}
