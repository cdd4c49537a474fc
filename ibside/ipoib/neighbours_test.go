// SPDX-License-Identifier: Apache-2.0

package ipoib

import (
	"log/slog"
	"net/netip"
	"os"
	"slices"
	"testing"
	"time"

	"causeway/ibside"
	"causeway/ibside/ib"
)

func gid(n byte) ib.GID { return ib.GIDFromGUID(0xfe80<<48, ib.GUID(n)) }

var seven, eight = netip.MustParseAddr("10.9.0.7"), netip.MustParseAddr("10.9.0.8")

// followed follows ib0.
func followed(t *testing.T) *Neighbours {
	t.Helper()
	n := follow(Config{Interface: "ib0", Log: slog.New(slog.NewTextHandler(os.Stderr, nil))}, portOf)
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	return n
}

// await waits for a change.
func await(t *testing.T, n *Neighbours, what string, wanted func(ibside.AddressChange) bool) {
	t.Helper()
	end := time.After(time.Minute)
	for {
		select {
		case c := <-n.Changes():
			if wanted(c) {
				return
			}
		case <-end:
			t.Fatal("no change: ", what)
		}
	}
}

// ask asks until there is an interface.
func ask(t *testing.T, how func(netip.Addr) error, ip netip.Addr) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if err := how(ip); err == nil {
			return
		} else if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

// TestKernel asks the kernel who has an address, and later whether that one still has it, or who has it now; and checks
// that an interface that is gone has no neighbours, and that one that is made again is followed.
func TestKernel(t *testing.T) {
	t.Parallel()
	if !ownNamespace(t) {
		return
	}
	n := followed(t) // before there is an interface
	l := newLink(t, "10.9.0.253/24")
	l.set("10.9.0.7", 7)
	ask(t, n.Ask, seven)
	answered := func(ip netip.Addr, by byte) func(ibside.AddressChange) bool {
		return func(c ibside.AddressChange) bool { return c.IP == ip && c.GID == gid(by) && c.Answered }
	}
	failed := func(ip netip.Addr) func(ibside.AddressChange) bool {
		return func(c ibside.AddressChange) bool { return c.IP == ip && c.Failed && c.GID.IsZero() }
	}
	await(t, n, "who has an address", answered(seven, 7))
	if g, ok := n.GID(seven); !ok || g != gid(7) || !slices.Equal(n.Addrs(gid(7)), []netip.Addr{seven}) {
		t.Errorf("%v is %v's, whose addresses are %v", seven, g, n.Addrs(gid(7)))
	}
	if s := n.Subnets(); !slices.Equal(s, []netip.Prefix{netip.MustParsePrefix("10.9.0.0/24")}) {
		t.Errorf("subnets %v", s)
	}
	ask(t, n.Ask, eight)
	await(t, n, "nobody has an address", failed(eight))

	ask(t, n.Confirm, seven)
	await(t, n, "it still has it", answered(seven, 7))
	l.set("10.9.0.7", 0)
	l.set("10.9.0.8", 7)
	ask(t, n.Confirm, seven)
	await(t, n, "it has it no more", failed(seven))
	if g, ok := n.GID(seven); ok || len(n.Addrs(gid(7))) != 0 {
		t.Errorf("%v is still %v's, whose addresses are %v", seven, g, n.Addrs(gid(7)))
	}
	ask(t, n.Confirm, eight) // it was unknown: this asks everybody
	await(t, n, "its other address", answered(eight, 7))
	l.set("10.9.0.8", 9)
	ask(t, n.Confirm, eight)
	await(t, n, "it has gone to another one", failed(eight))
	ask(t, n.Ask, eight)
	await(t, n, "another one has it", answered(eight, 9))

	sh(t, "ip neigh replace 10.9.0.7 lladdr 02:00:00:00:00:05 nud stale dev ib0")
	await(t, n, "one that has asked for us", func(c ibside.AddressChange) bool { return c.IP == seven && c.GID == gid(5) && !c.Answered })
	sh(t, "ip neigh del 10.9.0.7 dev ib0")
	await(t, n, "an entry was deleted", func(c ibside.AddressChange) bool { return c.IP == seven && c.GID.IsZero() })

	_ = l.tap.Close()
	soon(t, "the interface is gone, and it notices", func() bool { return n.Subnets() == nil })
	if _, ok := n.GID(eight); ok {
		t.Error("it has neighbours of an interface that is gone")
	}
	l = newLink(t, "10.9.0.253/24")
	l.set("10.9.0.8", 3)
	ask(t, n.Ask, eight)
	await(t, n, "on the new interface", answered(eight, 3))
}
