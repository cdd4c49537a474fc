// SPDX-License-Identifier: Apache-2.0

package traffic

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

// wire is a veth pair between two network namespaces: left has 10.9.0.1 and fd09::1, right 10.9.0.2 and fd09::2. Right
// has another interface, bare, without addresses.
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
		return bringUp("left", "10.9.0.1/24", "fd09::1/64")
	})
	if err != nil {
		return w, err
	}
	err = inside(w.right, func() error {
		a := netlink.NewLinkAttrs()
		a.Name = "bare"
		if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: a, PeerName: "bare2"}); err != nil {
			return err
		}
		return errors.Join(bringUp("bare"), bringUp("right", "10.9.0.2/24", "fd09::2/64"))
	})
	if err != nil {
		return w, err
	}
	return w, errors.Join(inside(w.left, func() error { return carries("left") }), inside(w.right, func() error { return carries("right") }))
}

// bringUp gives an interface addresses, and sets it up.
func bringUp(name string, ips ...string) error {
	l, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}
	for _, ip := range ips {
		addr, err := netlink.ParseAddr(ip)
		if err != nil {
			return err
		}
		if addr.IP.To4() == nil {
			addr.Flags = 0x02 // IFA_F_NODAD, linux/if_addr.h: usable at once
		}
		if err := netlink.AddrAdd(l, addr); err != nil {
			return err
		}
	}
	return netlink.LinkSetUp(l)
}

// carries waits until an interface carries frames, which is some time after it is set up.
func carries(name string) error {
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
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

// inbox collects messages.
type inbox struct {
	mu  sync.Mutex
	all []Message
}

func (h *inbox) note(m *Message) {
	h.mu.Lock()
	defer h.mu.Unlock()
	kept := *m
	kept.Payload = append([]byte(nil), m.Payload...)
	h.all = append(h.all, kept)
}

// await waits for n messages, and removes and returns them.
func (h *inbox) await(t *testing.T, n int) []Message {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		h.mu.Lock()
		if len(h.all) >= n {
			all := h.all
			h.all = nil
			h.mu.Unlock()
			return all
		}
		received := len(h.all)
		h.mu.Unlock()
		if time.Now().After(deadline) {
			t.Fatalf("%d messages were received, want %d", received, n)
		}
	}
}

// openIn opens an endpoint in a namespace, until the test ends.
func openIn(t *testing.T, ns netns.NsHandle, c Config) (e Endpoint, h *inbox) {
	t.Helper()
	h = &inbox{}
	c.OnMessage = h.note
	err := inside(ns, func() (err error) { e, err = open(c); return err })
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

// joinIn joins a group to receive it.
func joinIn(t *testing.T, ns netns.NsHandle, e Endpoint, g Group) {
	t.Helper()
	if err := inside(ns, func() error { _, err := e.Join(soon(t), g, true); return err }); err != nil {
		t.Fatal(err)
	}
}

func soon(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}
