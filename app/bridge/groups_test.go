// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"causeway/config"
	"causeway/ibside/ib"
	"causeway/lcore"
)

// taskGroups removes a group that has counted packets, adds others until one gets its id, and checks that this one
// counts from zero; and that a group in use loses nothing when others are added and removed.
func taskGroups() (string, error) {
	h, err := builtAfter(strings.Replace(bridgeFile, "[workers]", "[workers]\ngroups = 2", 1))
	if err != nil {
		return "", err
	}
	used, sent := map[int]bool{}, uint64(0)
	err = running(h, func() error {
		first, ctx := h.cfg.Groups[0], context.Background()
		for round := range spareGroups + 8 {
			g := first
			g.IP = netip.AddrFrom4([4]byte{239, 7, byte(round), 1})
			g.MGID = ib.MGIDRDMACM(g.IP, g.PKey, 2)
			if _, err := h.Add(ctx, fmt.Sprintf("[[group]]\nip = %q\nmgid = \"rdmacm\"\n", g.IP)); err != nil {
				return err
			}
			id, err := h.awaitGroup(g)
			if err != nil {
				return err
			}
			used[id] = true
			if c := h.Groups()[GroupPlace{IP: g.IP}]; c != (lcore.GroupCounters{}) {
				return fmt.Errorf("round %d: group %v with id %d begins with %+v", round, g.IP, id, c)
			}
			for _, ip := range []netip.Addr{g.IP, first.IP} {
				sent++
				p := message(h, ip, ib.QPMulticast, int(sent))
				if err := h.enter(p.AppendTo(nil)); err != nil {
					return err
				}
			}
			for deadline := time.Now().Add(time.Minute); h.Groups()[GroupPlace{IP: g.IP}].Packets[0] != 1 || h.Groups()[GroupPlace{IP: first.IP}].Packets[0] != uint64(round+1); {
				if time.Now().After(deadline) {
					return fmt.Errorf("round %d: counted %+v, drops %v", round, h.Groups(), h.Counters().Direction[lcore.RoCEToIB].Drops)
				}
				time.Sleep(time.Millisecond)
			}
			if _, err := h.RemoveGroup(ctx, g.MGID); err != nil {
				return err
			}
		}
		if len(used) > spareGroups+1 {
			return fmt.Errorf("%d ids are used, none of them twice: the test proves nothing", len(used))
		}
		return nil
	})
	return fmt.Sprintf("%d groups, %d ids", spareGroups+8, len(used)), err
}

// awaitGroup waits until a group is joined, and returns its id.
func (b *Bridge) awaitGroup(g config.Group) (int, error) {
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		for _, j := range b.Status().Joined {
			if j.MGID == g.MGID {
				return j.ID, nil
			}
		}
	}
	return 0, fmt.Errorf("group %v is not joined: %+v", g.IP, b.Status())
}

func TestGroupsWhileRunning(t *testing.T) {
	logTask(t, "groups")
}
