// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"causeway/ibside"
	"causeway/ibside/ib"
)

// TestConnectOnEthernet checks that another partition than the default one is refused where the link layer is Ethernet,
// before rdma_cm is asked.
func TestConnectOnEthernet(t *testing.T) {
	p := newPort(Config{})
	p.attributes.port = PortInfo{Info: ibside.Info{Ethernet: true}}
	for pkey, want := range map[ib.PKey]connectCause{
		0x8001: connectPartition, 0x0001: connectPartition,
		// The next check: the port has no GID.
		0: connectNoAddress, ib.PKeyDefault: connectNoAddress, 0x7fff: connectNoAddress,
	} {
		_, err := p.sidr.connectOnce(t.Context(), ibside.ServiceConnect{To: serverIP, Port: 7174, PKey: pkey})
		var e *connectError
		if !errors.As(err, &e) || e.Cause != want {
			t.Errorf("P_Key %v: %v, want %s", pkey, err, want)
		}
	}
	if c := p.counters().Connects; c[string(connectPartition)] != 2 {
		t.Errorf("counted: %v", c)
	}
}

// TestHandshakePartition checks that a connection goes no further when the kernel's routes lead to another partition
// than that of its P_Key.
func TestHandshakePartition(t *testing.T) {
	for _, c := range []struct {
		name      string
		here      bool
		want, got ib.PKey
		cause     connectCause // "": it goes on
	}{
		{"another", true, 0x8001, 0xffff, connectPartition},
		{"none", true, 0x8001, 0, connectPartition},
		{"another device", false, 0x8001, 0x8001, connectNoAddress},
		{"the same", true, 0x8001, 0x8001, ""},
		{"the same, as a limited member", true, 0x0001, 0x8001, ""},
		{"any", true, 0, 0x8001, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			ev := connectEvent{step: stepAddress, here: c.here, pkey: c.got}
			if failed := ev.astray(c.want); (failed == nil) != (c.cause == "") || failed != nil && failed.Cause != c.cause {
				t.Errorf("%v, want %q", failed, c.cause)
			}
			if c.cause == "" {
				return // the next step is rdma_cm's
			}
			id := &connecting{events: make(chan connectEvent, 1)}
			id.events <- ev
			if _, failed := id.handshake(t.Context(), c.want, nil); failed == nil || failed.Cause != c.cause {
				t.Errorf("the handshake: %v, want %q", failed, c.cause)
			}
		})
	}
}

// TestInPartition checks that a connection which the kernel's routes lead to another partition is tried once more, from
// an address in its own, and refused by one error if the port has none there.
func TestInPartition(t *testing.T) {
	own := netip.MustParseAddr("10.9.1.1")
	other := failure(connectPartition, errors.New("another partition"))
	for _, c := range []struct {
		name  string
		from  netip.Addr
		own   netip.Addr // that the port has in the partition; zero: none
		fails map[netip.Addr]*connectError
		froms []netip.Addr
		cause connectCause // "": none
	}{
		{"where the routes lead", netip.Addr{}, own, nil, []netip.Addr{{}}, ""},
		{"in another", netip.Addr{}, own, map[netip.Addr]*connectError{{}: other}, []netip.Addr{{}, own}, ""},
		{"in another, as the host", askerIP, own, map[netip.Addr]*connectError{askerIP: other}, []netip.Addr{askerIP, own}, ""},
		{"no address there", netip.Addr{}, netip.Addr{}, map[netip.Addr]*connectError{{}: other}, []netip.Addr{{}}, connectPartition},
		{"not from there, either", own, own, map[netip.Addr]*connectError{own: other}, []netip.Addr{own}, connectPartition},
		{"another fault", netip.Addr{}, own, map[netip.Addr]*connectError{{}: failure(connectTimedOut, errors.New("silence"))},
			[]netip.Addr{{}}, connectTimedOut},
	} {
		t.Run(c.name, func(t *testing.T) {
			var froms []netip.Addr
			source := func(k ib.PKey, to netip.Addr) (netip.Addr, bool) {
				return c.own, c.own.IsValid() && k == 0x8001 && to == serverIP
			}
			_, failed := inPartition(ibside.ServiceConnect{To: serverIP, PKey: 0x8001}, c.from, source,
				func(from netip.Addr) (ibside.ServiceAnswer, *connectError) {
					froms = append(froms, from)
					return ibside.ServiceAnswer{}, c.fails[from]
				})
			if !slices.Equal(froms, c.froms) || (failed == nil) != (c.cause == "") || failed != nil && failed.Cause != c.cause {
				t.Errorf("connected from %v, %v; want %v, %q", froms, failed, c.froms, c.cause)
			}
			if failed != nil && c.cause == connectPartition && !strings.Contains(failed.Error(), "0x8001") {
				t.Errorf("the error does not name the P_Key: %v", failed)
			}
		})
	}
}

func TestSourceFor(t *testing.T) {
	var all []netip.Prefix
	for _, p := range []string{"10.9.0.1/24", "10.9.1.1/24", "2001:db8::1/64", "2001:db8:1::1/64"} {
		all = append(all, netip.MustParsePrefix(p))
	}
	for _, c := range []struct {
		name string
		of   []netip.Prefix
		to   string
		want string // "": none
	}{
		{"its subnet", all, "10.9.1.7", "10.9.1.1"},
		{"IPv6", all, "2001:db8:1::7", "2001:db8:1::1"},
		{"behind a router", all, "192.0.2.7", "10.9.0.1"},
		{"IPv6 behind a router", all, "2001:db8:2::7", "2001:db8::1"},
		{"only the other family", all[:2], "2001:db8::7", ""},
		{"link-local", all, "fe80::7%ib0", ""},
		{"nothing", nil, "10.9.1.7", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, ok := sourceFor(c.of, netip.MustParseAddr(c.to))
			if ok != (c.want != "") || ok && got.String() != c.want {
				t.Errorf("from %v, %v, want %q", got, ok, c.want)
			}
		})
	}
}

// TestEventPKey checks that rdma_cm's events bring the P_Key of a request, and of an address that was resolved.
func TestEventPKey(t *testing.T) {
	r := rig{[]string{"testdata/cm_cases.c", "cm.c"}, []string{"-lrdmacm", "-libverbs"}, nil}
	if out, err := runCases(t, r.whole(t, sanitizing)); err != nil || !strings.Contains(out, "cm: ok") {
		t.Errorf("%v\n%s", err, out)
	}
}
