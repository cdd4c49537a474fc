// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"causeway/ibside"
	"causeway/ibside/ib"
)

var askerIP, serverIP = netip.MustParseAddr("10.9.0.1"), netip.MustParseAddr("10.9.0.7")

// fakeCM is a connector without a device.
type fakeCM struct {
	taken map[uint16]bool // ports that other programs use
	open  map[uint16]func(ibside.ServiceRequest)
	asked []ibside.ServiceConnect
	ports PortInfo
	reply func(ibside.ServiceConnect) (ibside.ServiceAnswer, error)
}

func (f *fakeCM) serve(port uint16, h func(ibside.ServiceRequest)) (func(), error) {
	if f.taken[port] {
		return nil, fmt.Errorf("port %d is taken", port)
	}
	if f.open[port] != nil {
		return nil, fmt.Errorf("port %d is open", port)
	}
	f.open[port] = h
	return func() { delete(f.open, port) }, nil
}

func (f *fakeCM) connectOnce(_ context.Context, r ibside.ServiceConnect) (ibside.ServiceAnswer, error) {
	f.asked = append(f.asked, r)
	return f.reply(r)
}

func (f *fakeCM) portInfo() PortInfo { return f.ports }

func newFakeCM() (*fakeCM, *services) {
	f := &fakeCM{taken: map[uint16]bool{}, open: map[uint16]func(ibside.ServiceRequest){}}
	return f, newServices(f)
}

func (f *fakeCM) listens() string { return fmt.Sprint(slices.Sorted(maps.Keys(f.open))) }

func TestServicesServe(t *testing.T) {
	f, s := newFakeCM()
	nothing := func(ibside.ServiceRequest) {}
	f.taken[7] = true
	for _, c := range []struct {
		name  string
		ports []ibside.PortRange
		error string
		want  string
	}{
		{"two ranges that overlap", []ibside.PortRange{{First: 5, Last: 6}, {First: 6, Last: 6}}, "", "[5 6]"},
		{"one less, one more, and another's", []ibside.PortRange{{First: 6, Last: 8}}, "port 7 is taken", "[6 8]"},
		{"too many", []ibside.PortRange{{First: 1, Last: 1000}, {First: 2000, Last: 2024}}, "1025 ports", "[6 8]"},
		{"a range without end", []ibside.PortRange{{First: 3, Last: 2}}, "3 to 2", "[6 8]"},
		{"all ports", []ibside.PortRange{{First: 1, Last: 65535}}, "65535 ports", "[6 8]"},
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
	if err := s.Serve([]ibside.PortRange{{First: 7, Last: 7}}, nothing); err != nil || f.listens() != "[7]" {
		t.Errorf("listens on %s, %v", f.listens(), err)
	}
}

func TestServicesRequest(t *testing.T) {
	f, s := newFakeCM()
	var came []ibside.ServiceRequest
	if err := s.Serve([]ibside.PortRange{{First: 7, Last: 7}}, func(r ibside.ServiceRequest) { came = append(came, r) }); err != nil {
		t.Fatal(err)
	}
	f.open[7](ibside.ServiceRequest{From: askerIP, Port: 7})
	if len(came) != 1 || came[0].From != askerIP || came[0].Port != 7 {
		t.Errorf("%+v", came)
	}
	late, rejected := f.open[7], uint8(0)
	if err := s.Serve(nil, nil); err != nil {
		t.Fatal(err)
	}
	late(ibside.ServiceRequest{Reject: func(status uint8, _ []byte) error { rejected = status; return nil }})
	if len(came) != 1 || rejected != ib.SIDRStatusUnsupported {
		t.Errorf("a request after the end: %+v, rejected with %d", came, rejected)
	}
}

func TestServicesConnect(t *testing.T) {
	own := []GIDEntry{{GID: ib.GIDFromAddr(askerIP)}}
	answer := ibside.ServiceAnswer{QPN: 5, QKey: 6, Private: []byte("yes")}
	fails := func(cause connectCause) error {
		return &connectError{Cause: cause, Status: ib.SIDRStatusUnsupported, Private: []byte("no"), Err: errors.New("so")}
	}
	for _, c := range []struct {
		name     string
		ethernet bool
		gids     []GIDEntry
		fails    map[netip.Addr]error
		froms    []netip.Addr
		check    func(error) bool
	}{
		{"in the host's name", true, own, nil, []netip.Addr{askerIP}, func(err error) bool { return err == nil }},
		{"in the port's own name", true, nil, nil, []netip.Addr{{}}, func(err error) bool { return err == nil }},
		{"the address has just gone", true, own, map[netip.Addr]error{askerIP: fails(connectNoAddress)}, []netip.Addr{askerIP, {}},
			func(err error) bool { return err == nil }},
		{"on InfiniBand, IPoIB has it", false, nil, nil, []netip.Addr{askerIP}, func(err error) bool { return err == nil }},
		{"on InfiniBand, IPoIB has it not", false, nil, map[netip.Addr]error{askerIP: fails(connectNoAddress)}, []netip.Addr{askerIP, {}},
			func(err error) bool { return err == nil }},
		{"no address at all", true, nil, map[netip.Addr]error{{}: fails(connectNoAddress)}, []netip.Addr{{}},
			func(err error) bool { return err != nil }},
		{"rejected", true, own, map[netip.Addr]error{askerIP: fails(connectRejected)}, []netip.Addr{askerIP}, func(err error) bool {
			var rejected *ibside.Rejected
			return errors.As(err, &rejected) && rejected.Status == ib.SIDRStatusUnsupported && string(rejected.Private) == "no"
		}},
		{"no answer", true, own, map[netip.Addr]error{askerIP: fails(connectTimedOut)}, []netip.Addr{askerIP},
			func(err error) bool { return errors.Is(err, context.DeadlineExceeded) }},
		{"nobody there", true, own, map[netip.Addr]error{askerIP: fails(connectUnreachable)}, []netip.Addr{askerIP},
			func(err error) bool {
				var rejected *ibside.Rejected
				return err != nil && !errors.Is(err, context.DeadlineExceeded) && !errors.As(err, &rejected)
			}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, s := newFakeCM()
			f.ports = PortInfo{Info: ibside.Info{Ethernet: c.ethernet}, GIDs: c.gids}
			f.reply = func(r ibside.ServiceConnect) (ibside.ServiceAnswer, error) { return answer, c.fails[r.From] }
			a, err := s.Connect(t.Context(), ibside.ServiceConnect{From: askerIP, To: serverIP, Port: 7, Private: []byte("hi")})
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
