// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"causeway/ibside/ib"
)

// TestIPGroupOf checks that the IP group of an MGID is the one that the kernel maps to it, and that other MGIDs have
// none.
func TestIPGroupOf(t *testing.T) {
	const scope = 2
	v4, v6 := netip.MustParseAddr("239.129.2.3"), netip.MustParseAddr("ff12::1:2:3")
	for _, c := range []struct {
		name  string
		mgid  ib.GID
		group netip.Addr
		ipoib bool
	}{
		{"rdma_cm's, IPv4", ib.MGIDRDMACM(v4, ib.PKeyDefault, scope), v4, false},
		{"IPoIB's, IPv4", ib.MGIDIPoIB(v4, ib.PKeyDefault, scope), v4, true},
		{"rdma_cm's, IPv6", ib.MGIDRDMACM(v6, ib.PKeyDefault, scope), v6, false},
		{"IPoIB's, IPv6", ib.MGIDIPoIB(v6, ib.PKeyDefault, scope), v6, true},
		{"chosen by the SA", ib.GID{0xff, 0x12, 0xa0, 0x1b, 5: 7, 15: 1}, netip.MustParseAddr("ff12:a01b:7::1"), false},
		{"of another partition", ib.MGIDRDMACM(v4, 0x8001, scope), netip.Addr{}, false},
		{"literal", ib.GID{0xff, 0x15, 15: 1}, netip.Addr{}, false},
	} {
		group, ipoib, ok := ipGroupOf(c.mgid, ib.PKeyDefault)
		if ok != c.group.IsValid() || ok && (ipoib != c.ipoib || group.As16() != c.group.As16() && ib.MGIDRDMACM(group, ib.PKeyDefault, scope) != c.mgid &&
			ib.MGIDIPoIB(group, ib.PKeyDefault, scope) != c.mgid) {
			t.Errorf("%s: %v, %v, %v", c.name, group, ipoib, ok)
		}
	}
}

// kernel is what anchors ask.
type kernel struct {
	mu      sync.Mutex
	err     error
	members map[anchor]int
	takes   time.Duration // to join
	last    *kernelAnchor
}

type kernelAnchor struct {
	k    *kernel
	a    anchor
	gone chan struct{}
}

func (h *kernelAnchor) lost() <-chan struct{} { return h.gone }

func (h *kernelAnchor) release() {
	h.k.mu.Lock()
	defer h.k.mu.Unlock()
	h.k.members[h.a]--
}

func (k *kernel) hold(_ context.Context, a anchor) (held, error) {
	k.mu.Lock()
	takes := k.takes
	k.mu.Unlock()
	time.Sleep(takes)
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.err != nil {
		return nil, k.err
	}
	k.members[a]++
	k.last = &kernelAnchor{k, a, make(chan struct{})}
	return k.last, nil
}

// count returns how many memberships the kernel has.
func (k *kernel) count() (n int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, c := range k.members {
		n += c
	}
	return n
}

// TestAnchors checks that a group is held while it is a group of the bridge, held again after the subnet has ended it,
// and that no anchor is left.
func TestAnchors(t *testing.T) {
	mgid := ib.MGIDRDMACM(netip.MustParseAddr("239.1.2.3"), ib.PKeyDefault, 2)
	synctest.Test(t, func(t *testing.T) {
		k := &kernel{members: map[anchor]int{}, err: errors.New("IPoIB has not joined yet")}
		ctx, stop := context.WithCancel(context.Background())
		var ipoib atomic.Bool
		ipoib.Store(true)
		s := &anchors{
			find: func(ib.PKey) (netip.Addr, bool) { return netip.MustParseAddr("10.0.0.1"), ipoib.Load() }, hold: k.hold, ctx: ctx,
			log: slog.New(slog.NewTextHandler(io.Discard, nil)), all: map[ib.GID]*anchored{},
		}
		want := func(what string, holds bool, members int) {
			t.Helper()
			synctest.Wait()
			if s.holds(mgid) != holds || k.count() != members {
				t.Errorf("%s: held %v, the kernel has %d memberships; want %v, %d", what, s.holds(mgid), k.count(), holds, members)
			}
		}
		s.put(mgid, ib.PKeyDefault, true)
		want("rejected", false, 0)
		set := func(err error, takes time.Duration) {
			k.mu.Lock()
			defer k.mu.Unlock()
			k.err, k.takes = err, takes
		}
		set(nil, 0)
		time.Sleep(time.Second)
		want("then accepted", true, 1)
		s.put(mgid, ib.PKeyDefault, true)
		want("again the same", true, 1)
		close(k.last.gone)
		synctest.Wait()
		time.Sleep(time.Second)
		want("ended by the subnet", true, 1)
		set(nil, 100*time.Millisecond)
		s.put(mgid, ib.PKeyDefault, false)
		want("while the kernel is asked for the next", true, 1)
		time.Sleep(time.Second)
		want("send-only now", true, 1)
		set(nil, 0)
		if !k.last.a.sendOnly {
			t.Error("the kernel's membership is not send-only")
		}
		s.drop(mgid)
		want("left", false, 0)
		ipoib.Store(false)
		s.put(mgid, ib.PKeyDefault, true)
		s.put(ib.GID{0xff, 0x15, 15: 1}, ib.PKeyDefault, true)
		want("without IPoIB", false, 0)
		ipoib.Store(true)
		time.Sleep(time.Minute)
		want("IPoIB came up", true, 1)
		stop()
		s.close()
		want("closed", false, 0)
	})
}
