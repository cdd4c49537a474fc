// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"causeway/ibside/ib"
)

// TestUD has one queue pair of a real device send to another.
func TestUD(t *testing.T) {
	needDevice(t)
	const qkey, count = 0x11223344, 1000
	var ends [2]*UD
	for i := range ends {
		u, err := OpenUD(*deviceFlag, 1, qkey)
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := u.Close(); err != nil {
				t.Error(err)
			}
		}()
		ends[i] = u
	}
	own := ib.GID{}
	for _, g := range ends[1].Info().GIDs {
		if own.IsZero() && (g.GID.IsIPv4Mapped() || !ends[1].Info().Ethernet) {
			own = g.GID
		}
	}
	to, err := ends[0].Address(UDPath{DGID: own, HasGRH: true, DLID: ends[1].Info().LID, HopLimit: 64})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	sent := make(chan error, 1)
	go func() {
		for n := 0; n < count; {
			err := ends[0].Send(to, ends[1].QPN(), qkey, pattern(100, n))
			switch {
			case err == nil:
				n++
			case !errors.Is(err, syscall.EAGAIN):
				sent <- err
				return
			}
		}
		sent <- nil
	}()
	n := 0
	err = ends[1].Receive(ctx, func(m *UDMessage) {
		if m.SrcQP != ends[0].QPN() || !m.HasGRH || string(m.Payload) != string(pattern(100, n)) {
			t.Errorf("message %d: %+v", n, m)
		}
		if n++; n == count {
			cancel()
		}
	})
	if send := <-sent; err != nil || send != nil || n != count {
		t.Errorf("%d of %d came; %v, %v", n, count, err, send)
	}
}

// udWithoutDevice runs ud.c on the device made of memory, with the sanitizers.
func udWithoutDevice(t *testing.T) {
	if out, err := runCases(t, onLibmlx5(t, "ud.c", "testdata/ud_cases.c").whole(t, sanitizing)); err != nil || !strings.Contains(out, "ud: ok") {
		t.Errorf("%v\n%s", err, out)
	}
}

// udNotices breaks ud.c in one place at a time: the case must then fail.
func udNotices(t *testing.T) {
	r := onLibmlx5(t, "ud.c", "testdata/ud_cases.c")
	for _, m := range []struct{ what, old, changed string }{
		{"a full queue is not noticed", "u->under_way == VERBS_UD_SENDS", "u->under_way > VERBS_UD_SENDS"},
		{"completions are not counted", "u->under_way--;", ""},
		{"a failed send is not reported", "err = EIO;", "err = 0;"},
		{"a slot is mistaken for another", ".slot = slot,", ".slot = 0,"},
		{"a group is not left", "ibv_detach_mcast(u->qp, &g->gid, g->lid);", ""},
	} {
		t.Run(m.what, func(t *testing.T) {
			t.Parallel()
			if out, err := runCases(t, r.broken(t, "ud.c", m.old, m.changed)); err == nil {
				t.Errorf("no case failed:\n%s", out)
			}
		})
	}
}
