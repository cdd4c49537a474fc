// SPDX-License-Identifier: Apache-2.0

package manage_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"causeway/ibside/ib"
	"causeway/lcore/manage"
)

// TestHear wants the Ethernet port told what it is to receive, before switches are told to send it, and again when that fails.
func TestHear(t *testing.T) {
	bubble(t, "groups", func(t *testing.T) {
		var told []string
		fails := 0
		s := start(t, func(c *manageConfig, _ *door) {
			c.Groups, c.MaxGroups = []manage.Group{toIB(group4), toRoCE(group6)}, 8
			c.Hear = func(groups []netip.Addr) error {
				if fails--; fails >= 0 {
					return errors.New("busy")
				}
				told = append(told, fmt.Sprint(groups))
				return nil
			}
		})
		s.set(toIB(group4), toRoCE(group6), toIB(netip.MustParseAddr("239.1.2.4")))
		s.set(toIB(group4), toIB(netip.MustParseAddr("239.1.2.4"))) // the same to the port
		fails = 3
		s.set(toIB(netip.MustParseAddr("239.1.2.4")))
		sleep(time.Second)
		want := []string{"[239.1.2.3]", "[239.1.2.3 239.1.2.4]", "[239.1.2.4]"}
		if !slices.Equal(told, want) || s.log.count("groups_unheard") == 0 {
			t.Errorf("told %q, want %q", told, want)
		}
	})
}

// TestRejoin wants all groups joined again, spread over time and never shut, and the shelves to follow what is granted then.
func TestRejoin(t *testing.T) {
	bubble(t, "64 groups", func(t *testing.T) {
		var groups []manage.Group
		for i := range 32 {
			groups = append(groups, both(netip.AddrFrom4([4]byte{239, 1, 2, byte(i)})))
		}
		var at []time.Time
		s := start(t, func(c *manageConfig, d *door) {
			c.Groups = groups
			d.join = func(context.Context, manage.Join, int) error {
				d.mu.Lock()
				defer d.mu.Unlock()
				at = append(at, time.Now())
				return nil
			}
		})
		mlid := map[ib.GID]ib.LID{}
		s.look(func() {
			for g := range s.tables.AllGroups() {
				mlid[g.MGID] = g.MLID
			}
		})
		s.w.take()
		s.door.setMLIDs(0xd000)
		began := time.Now()
		if err := s.loop.Rejoin(context.Background()); err != nil {
			t.Fatal(err)
		}
		for range 100 {
			sleep(10 * time.Millisecond)
			s.look(func() {
				if n := s.tables.LenGroups(); n != len(groups) {
					t.Fatalf("%d groups are open", n)
				}
			})
		}
		for g := range s.tables.AllGroups() {
			if g.MLID < 0xd000 || !g.ToIB || !g.ToRoCE {
				t.Errorf("%+v is as before", g)
			}
		}
		again := at[len(groups):]
		if len(again) != len(groups) || again[len(again)-1].Sub(began) < 200*time.Millisecond || again[len(again)/2].Sub(began) < 20*time.Millisecond {
			t.Errorf("%d joins, the last after %v", len(again), again[len(again)-1].Sub(began))
		}
	})
}
