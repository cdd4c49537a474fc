// SPDX-License-Identifier: Apache-2.0

package house

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"causeway/ibside/fabric"
	"causeway/ibside/ib"
	"causeway/ibside/verbs"
	"causeway/lcore/manage"
)

var askerIP, serverIP = netip.MustParseAddr("10.9.0.1"), netip.MustParseAddr("10.9.0.7")

// twoEnds returns two ends of a software subnet, and their GIDs.
func twoEnds(t *testing.T) (ends []fabricServices, gids []ib.GID) {
	t.Helper()
	f, err := fabric.New(fabric.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	for i := range 2 {
		port, err := f.Attach(fabric.PortConfig{Name: fmt.Sprint(i), GUID: ib.GUID(10 + i)})
		if err != nil {
			t.Fatal(err)
		}
		h := fabric.NewHCA(port)
		sa := fabric.NewSAClient(h)
		gids = append(gids, h.Info().GID)
		cm := fabric.NewCM(h, fabric.CMConfig{Timeout: 10 * time.Millisecond, Tries: 3})
		ends = append(ends, fabricServices{cm, func(ctx context.Context, dgid ib.GID) (ib.LID, ib.SL, error) {
			p, err := sa.Path(ctx, dgid)
			return p.DLID, p.SL, err
		}})
	}
	return ends, gids
}

// TestFabricServices has two ends of the software subnet talk by what management sees of them.
func TestFabricServices(t *testing.T) {
	ends, gids := twoEnds(t)
	connect := func(gid ib.GID, port uint16) (manage.ServiceAnswer, error) {
		return ends[0].Connect(t.Context(), manage.ServiceConnect{
			From: askerIP, To: serverIP, ToGID: gid, SrcPort: 9, Port: port, PKey: 0xffff, Private: []byte("please"),
		})
	}
	if _, err := connect(gids[1], 100); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("before anybody serves: %v", err)
	}
	serve := func(r manage.ServiceRequest) {
		switch {
		case r.From != askerIP || r.To != serverIP || r.SrcPort != 9 || r.PKey != 0xffff || string(r.Private[:6]) != "please":
			t.Errorf("the request came as %+v", r)
		case r.Port == 100:
			_ = r.Answer(manage.ServiceAnswer{QPN: 5, QKey: 6, Private: []byte("yes")})
		default:
			_ = r.Refuse(ib.SIDRStatusNoQP, []byte("no"))
		}
	}
	if err := ends[1].Serve([]manage.PortRange{{First: 100, Last: 101}}, serve); err != nil {
		t.Fatal(err)
	}
	if a, err := connect(gids[1], 100); err != nil || a.QPN != 5 || a.QKey != 6 || string(a.Private[:4]) != "yes\x00" {
		t.Errorf("%+v, %v", a, err)
	}
	for port, want := range map[uint16]uint8{101: ib.SIDRStatusNoQP, 102: ib.SIDRStatusUnsupported} {
		_, err := connect(gids[1], port)
		var refused *manage.Refused
		if !errors.As(err, &refused) || refused.Status != want || port == 101 && string(refused.Private[:3]) != "no\x00" {
			t.Errorf("port %d: %v, want status %d", port, err, want)
		}
	}
	if _, err := connect(ib.GID{1}, 100); err == nil {
		t.Error("connected to a GID that nobody has")
	}
	if err := ends[1].Serve(nil, nil); err != nil {
		t.Error(err)
	}
	if _, err := connect(gids[1], 100); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("after the end: %v", err)
	}
}

// fakeCM is a verbs door without a device.
type fakeCM struct {
	taken map[uint16]bool // ports of other programs
	open  map[uint16]func(verbs.Request)
	asked []verbs.ConnectRequest
	ports verbs.PortInfo
	reply func(verbs.ConnectRequest) (verbs.Connection, error)
}

func (f *fakeCM) listen(port uint16, h func(verbs.Request)) (func(), error) {
	if f.taken[port] {
		return nil, fmt.Errorf("port %d is taken", port)
	}
	if f.open[port] != nil {
		return nil, fmt.Errorf("port %d is open", port)
	}
	f.open[port] = h
	return func() { delete(f.open, port) }, nil
}

func (f *fakeCM) Connect(_ context.Context, r verbs.ConnectRequest) (verbs.Connection, error) {
	f.asked = append(f.asked, r)
	return f.reply(r)
}

func (f *fakeCM) Port() verbs.PortInfo { return f.ports }

func newFakeCM() (*fakeCM, *verbsServices) {
	f := &fakeCM{taken: map[uint16]bool{}, open: map[uint16]func(verbs.Request){}}
	return f, newVerbsServices(f)
}

func (f *fakeCM) listens() string { return fmt.Sprint(slices.Sorted(maps.Keys(f.open))) }

func TestVerbsServe(t *testing.T) {
	f, s := newFakeCM()
	nothing := func(manage.ServiceRequest) {}
	f.taken[7] = true
	for _, c := range []struct {
		name  string
		ports []manage.PortRange
		error string
		want  string
	}{
		{"two ranges that overlap", []manage.PortRange{{First: 5, Last: 6}, {First: 6, Last: 6}}, "", "[5 6]"},
		{"one less, one more, and another's", []manage.PortRange{{First: 6, Last: 8}}, "port 7 is taken", "[6 8]"},
		{"too many", []manage.PortRange{{First: 1, Last: 1000}, {First: 2000, Last: 2024}}, "1025 ports", "[6 8]"},
		{"a range without end", []manage.PortRange{{First: 3, Last: 2}}, "3 to 2", "[6 8]"},
		{"all ports", []manage.PortRange{{First: 1, Last: 65535}}, "65535 ports", "[6 8]"},
		{"none", nil, "", "[]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := s.Serve(c.ports, nothing)
			if (err != nil) != (c.error != "") || err != nil && !strings.Contains(err.Error(), c.error) {
				t.Errorf("error %v, want %q", err, c.error)
			}
			if got := f.listens(); got != c.want {
				t.Errorf("listens on %s, want %s", got, c.want)
			}
		})
	}
	f.taken[7] = false
	if err := s.Serve([]manage.PortRange{{First: 7, Last: 7}}, nothing); err != nil || f.listens() != "[7]" {
		t.Errorf("listens on %s, %v", f.listens(), err)
	}
}

func TestVerbsRequest(t *testing.T) {
	f, s := newFakeCM()
	var came []manage.ServiceRequest
	if err := s.Serve([]manage.PortRange{{First: 7, Last: 7}}, func(r manage.ServiceRequest) { came = append(came, r) }); err != nil {
		t.Fatal(err)
	}
	f.open[7](verbs.Request{
		Peer: netip.MustParseAddrPort("[::ffff:10.9.0.1]:99"), Local: netip.MustParseAddr("fe80::7%eth2"), Port: 7, PKey: 0x8001, Private: []byte("hi"),
	})
	if len(came) != 1 || came[0].From != askerIP || came[0].SrcPort != 99 || came[0].To != netip.MustParseAddr("fe80::7") ||
		came[0].Port != 7 || came[0].PKey != 0x8001 || string(came[0].Private) != "hi" {
		t.Errorf("%+v", came)
	}
}

func TestVerbsConnect(t *testing.T) {
	own := []verbs.GIDEntry{{GID: ib.GIDFromAddr(askerIP)}}
	answer := verbs.Connection{QPN: 5, QKey: 6, Private: []byte("yes")}
	fails := func(cause verbs.ConnectCause) error {
		return &verbs.ConnectError{Cause: cause, Status: ib.SIDRStatusUnsupported, Private: []byte("no"), Err: errors.New("so")}
	}
	for _, c := range []struct {
		name     string
		ethernet bool
		gids     []verbs.GIDEntry
		fails    map[netip.Addr]error
		froms    []netip.Addr
		check    func(error) bool
	}{
		{"in the host's name", true, own, nil, []netip.Addr{askerIP}, func(err error) bool { return err == nil }},
		{"in the port's own name", true, nil, nil, []netip.Addr{{}}, func(err error) bool { return err == nil }},
		{"the address has just gone", true, own, map[netip.Addr]error{askerIP: fails(verbs.ConnectNoAddress)}, []netip.Addr{askerIP, {}},
			func(err error) bool { return err == nil }},
		{"on InfiniBand, IPoIB has it", false, nil, nil, []netip.Addr{askerIP}, func(err error) bool { return err == nil }},
		{"on InfiniBand, IPoIB has it not", false, nil, map[netip.Addr]error{askerIP: fails(verbs.ConnectNoAddress)}, []netip.Addr{askerIP, {}},
			func(err error) bool { return err == nil }},
		{"no address at all", true, nil, map[netip.Addr]error{{}: fails(verbs.ConnectNoAddress)}, []netip.Addr{{}},
			func(err error) bool { return err != nil }},
		{"refused", true, own, map[netip.Addr]error{askerIP: fails(verbs.ConnectRejected)}, []netip.Addr{askerIP}, func(err error) bool {
			var refused *manage.Refused
			return errors.As(err, &refused) && refused.Status == ib.SIDRStatusUnsupported && string(refused.Private) == "no"
		}},
		{"no answer", true, own, map[netip.Addr]error{askerIP: fails(verbs.ConnectTimedOut)}, []netip.Addr{askerIP},
			func(err error) bool { return errors.Is(err, context.DeadlineExceeded) }},
		{"nobody there", true, own, map[netip.Addr]error{askerIP: fails(verbs.ConnectUnreachable)}, []netip.Addr{askerIP},
			func(err error) bool {
				var refused *manage.Refused
				return err != nil && !errors.Is(err, context.DeadlineExceeded) && !errors.As(err, &refused)
			}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, s := newFakeCM()
			f.ports = verbs.PortInfo{Ethernet: c.ethernet, GIDs: c.gids}
			f.reply = func(r verbs.ConnectRequest) (verbs.Connection, error) { return answer, c.fails[r.From] }
			a, err := s.Connect(t.Context(), manage.ServiceConnect{From: askerIP, To: serverIP, Port: 7, Private: []byte("hi")})
			if !c.check(err) || err == nil && (a.QPN != 5 || a.QKey != 6 || string(a.Private) != "yes") {
				t.Errorf("%+v, %v", a, err)
			}
			var froms []netip.Addr
			for _, r := range f.asked {
				froms = append(froms, r.From)
				if r.To != serverIP || r.Port != 7 || string(r.Private) != "hi" {
					t.Errorf("asked %+v", r)
				}
			}
			if !slices.Equal(froms, c.froms) {
				t.Errorf("asked from %v, want %v", froms, c.froms)
			}
		})
	}
}
