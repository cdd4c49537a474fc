// SPDX-License-Identifier: Apache-2.0

package sa_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"causeway/ibside/fabric"
	"causeway/ibside/ib"
	"causeway/ibside/sa"
)

// TestAliasesFirst: a group's member may be an alias, so that after an event no group is registered before the alias is.
func TestAliasesFirst(t *testing.T) {
	const groups, rounds = 20, 5
	var mu sync.Mutex
	var order []sa.Kind
	events, cfg := make(chan sa.Event), seldom()
	cfg.Events = events
	cfg.OnChange = func(g sa.Registration) {
		mu.Lock()
		defer mu.Unlock()
		if g.Held {
			order = append(order, g.Kind)
		}
	}
	r := sa.NewRegistrar(newFabricSite(t, fabric.Config{}).Client("bridge", patient), cfg)
	t.Cleanup(r.Close)
	for i := range groups {
		if _, err := r.Join(t.Context(), group(gid(fmt.Sprintf("ff12::%x", i+1)), ib.JoinFull)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := r.SetAlias(t.Context(), 1, testAlias); err != nil {
		t.Fatal(err)
	}
	took := func() []sa.Kind {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(order)
	}
	for range rounds {
		before := len(took())
		events <- sa.SMChange
		for end := time.Now().Add(time.Minute); len(took()) < before+groups+1; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("not all is registered again: %q", took()[before:])
			}
		}
		if now := took()[before:]; now[0] != sa.KindAlias {
			t.Errorf("they are registered in this order: %q", now)
		}
	}
}

// TestKept: of a membership that the kernel keeps the registrar withdraws nothing.
func TestKept(t *testing.T) {
	kept, own := gid("ff12::1"), gid("ff12::2")
	cfg := seldom()
	cfg.Kept = func(mgid ib.GID) bool { return mgid == kept }
	c := newFabricSite(t, fabric.Config{}).Client("bridge", trusted)
	r := sa.NewRegistrar(c, cfg)
	t.Cleanup(r.Close)
	for mgid, stay := range map[ib.GID]int{kept: 1, own: 0} {
		if _, err := r.Join(t.Context(), group(mgid, ib.JoinFull)); err != nil {
			t.Fatal(err)
		}
		if err := r.Leave(t.Context(), mgid, ib.GID{}); err != nil {
			t.Error(err)
		}
		if all := members(t, c, mgid); len(all) != stay {
			t.Errorf("%v: members %v, want %d", mgid, all, stay)
		}
	}
}
