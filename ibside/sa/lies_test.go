// SPDX-License-Identifier: Apache-2.0

package sa_test

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	"causeway/ibside"
	"causeway/ibside/fabric"
	"causeway/ibside/ib"
	"causeway/ibside/sa"
)

// liar has the software subnet's administrator answer some requests for one record with what change makes of the
// request's record.
func (s *site) liar(attr uint16, change func(data []byte)) (end func()) {
	s.t.Helper()
	p := fabric.NewMADPort(s.fabric.SA().HCA(), ib.ClassSA)
	go func() {
		for {
			b := make([]byte, ib.MADLen)
			from, sl, err := p.ReceiveMAD(b)
			if err != nil {
				return
			}
			m, _ := ib.AsMAD(b)
			if m.IsResponse() || m.AttrID() != attr || m.Method() != ib.MethodGet && m.Method() != ib.MethodSet {
				p.Pass(from, sl, b)
				continue
			}
			f := m.Fields()
			f.Method = ib.MethodGetResp
			ib.PutMAD(b, f)
			change(b[ib.MADHdrLen+ib.SAHdrLen:])
			if err := p.SendMAD(from, sl, b); err != nil {
				return
			}
		}
	}()
	return func() { _ = p.Close() }
}

// TestLies checks that answers that cannot be are errors, and that a path to a LID that no port has is not confirmed.
func TestLies(t *testing.T) {
	s := newFabricSite(t, fabric.Config{})
	c, other := s.Client("bridge", sa.Config{}), s.Client("hosta", sa.Config{})
	there, _ := other.PortState()
	a := sa.NewAdministration(c, nil, sa.RegistrarConfig{Refresh: time.Hour, Watch: time.Hour}, slog.New(slog.DiscardHandler))
	t.Cleanup(func() { _ = a.Close() })
	if p, err := a.Path(t.Context(), there.GID, 0); err != nil || p.Unconfirmed || p.LID != there.LID {
		t.Errorf("the truth: %+v, %v", p, err)
	}
	for _, x := range []struct {
		lid         ib.LID
		unconfirmed bool
		err         error
	}{{0, false, sa.ErrMalformed}, {0xc001, false, sa.ErrMalformed}, {0xffff, false, sa.ErrMalformed}, {0x3000, true, nil}} {
		end := s.liar(ib.AttrPathRecord, func(data []byte) {
			rec, _ := ib.AsPathRecord(data)
			f := rec.Fields()
			f.DLID = x.lid
			ib.PutPathRecord(data, f)
		})
		if p, err := a.Path(t.Context(), there.GID, 0); !errors.Is(err, x.err) || p.Unconfirmed != x.unconfirmed {
			t.Errorf("path to LID %v: %+v, %v", x.lid, p, err)
		}
		end()
	}
	other1 := gid("ff12::77")
	for _, change := range []func(f *ib.MCMemberFields){
		func(f *ib.MCMemberFields) { f.MLID = there.LID },
		func(f *ib.MCMemberFields) { f.MLID = 0 },
		func(f *ib.MCMemberFields) { f.MLID, f.MGID = 0xc001, other1 },
	} {
		end := s.liar(ib.AttrMCMemberRecord, func(data []byte) {
			rec, _ := ib.AsMCMemberRecord(data)
			f := rec.Fields()
			change(&f)
			ib.PutMCMemberRecord(data, f)
		})
		if got, err := c.Join(t.Context(), group(gid("ff12::78"), ib.JoinFull)); !errors.Is(err, sa.ErrMalformed) {
			t.Errorf("a membership %+v, %v", got, err)
		}
		end()
	}
}

// TestRefresh checks that what the administrator has granted otherwise is noticed, with every refresh, and at once when
// asked to.
func TestRefresh(t *testing.T) {
	for _, c := range []struct {
		name    string
		every   time.Duration
		refresh bool
	}{{"by itself", 20 * time.Millisecond, false}, {"when asked", time.Hour, true}} {
		t.Run(c.name, func(t *testing.T) {
			s := newFabricSite(t, fabric.Config{})
			renewed := make(chan ib.LID, 16)
			follows := func(f ib.MCMemberFields, _ func(ibside.Membership)) error {
				renewed <- f.MLID
				return nil
			}
			a := sa.NewAdministration(s.Client("bridge", sa.Config{}), follows, sa.RegistrarConfig{Refresh: c.every, Watch: time.Hour}, slog.New(slog.DiscardHandler))
			t.Cleanup(func() { _ = a.Close() })
			right, err := a.Join(t.Context(), group(testMGID, ib.JoinFull))
			if err != nil {
				t.Fatal(err)
			}
			awaits := func(want ib.LID) {
				t.Helper()
				if c.refresh {
					a.Refresh()
				}
				for end := time.After(20 * time.Second); ; {
					select {
					case got := <-renewed:
						if got == want {
							return
						}
					case <-end:
						t.Fatalf("no record with MLID %v", want)
					}
				}
			}
			const wrong = ib.LID(0xc0aa)
			end := s.liar(ib.AttrMCMemberRecord, func(data []byte) {
				f := right
				f.MLID = wrong
				ib.PutMCMemberRecord(data, f)
			})
			awaits(wrong)
			end()
			awaits(right.MLID)
			if r := a.Renewed(); c.refresh && (!r.Paths || !r.Back || r.LIDs) {
				t.Errorf("management is told %+v", r)
			}
		})
	}
}
