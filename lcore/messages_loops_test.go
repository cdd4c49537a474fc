// SPDX-License-Identifier: Apache-2.0

package lcore_test

import (
	"context"
	"log/slog"
	"net/netip"
	"testing"
	"time"

	"causeway/ibside"
	"causeway/ibside/ib"
	"causeway/lcore"
	"causeway/lcore/frame"
	"causeway/lcore/manage"
)

// A managed rig has its management loop, which hears messages.
type managed struct {
	*rig
	station manage.Station
	loop    *manage.Loop
	heard   chan string
}

// TakePunted implements manage.Worker.
func (m *managed) TakePunted() (all []manage.Punted) {
	for _, o := range m.workers[0].TakePunted() {
		all = append(all, manage.Punted{Data: o.Data, Port: o.Port})
	}
	return all
}

// Send implements manage.Worker.
func (m *managed) Send(port uint8, b []byte) error {
	return m.workers[0].Send(m.pool.Pointer(), port, b)
}

// aloneOnIB is an IB port with nothing on its fabric.
type aloneOnIB struct{ ibside.Port }

func (aloneOnIB) Own() ibside.Own { return ibside.Own{PKeys: []ib.PKey{ib.PKeyDefault}} }

// newManaged makes a member of a fleet that has no lease, on a VLAN.
func newManaged(t *testing.T, vlan uint16, at manage.Station, addresses ...netip.Prefix) *managed {
	t.Helper()
	w := smallFixture().with(member)
	w.hosts, w.proxyQPs, w.nodes, w.groups = nil, nil, nil, nil
	w.config.MAC, w.config.Addresses, w.config.VLAN = at.MAC, addresses, vlan
	m := &managed{rig: newRig(t, w), station: at, heard: make(chan string, 64)}
	m.ignorePunts = true
	m.loop = manage.New(manage.Config{
		Segment: manage.Segment{Place: manage.Place{VLAN: vlan}, Addresses: addresses, Version: lcore.V2, RoCEMTU: 4096, EthMTU: 9000},
		MAC:     at.MAC, PKey: ib.PKeyDefault, RoCEPKey: ib.PKeyDefault, IBMTU: 4096, MaxHosts: 16, ProxyQPs: 16, MaxGroups: 16,
		Heard: func(data []byte) { m.heard <- string(data) },
	}, m.tables, aloneOnIB{}, []manage.Worker{m}, slog.New(slog.DiscardHandler))
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- m.loop.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return m
}

// says sends a message, and passes on what is on the wire until the other has heard it.
func (m *managed) says(t *testing.T, to *managed, text string) {
	t.Helper()
	if err := manage.SendMessage(m.loop, to.station, []byte(text)); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		for _, x := range []struct{ from, to *managed }{{m, to}, {to, m}} {
			x.from.work()
			for _, f := range x.from.toRoCE(0) {
				x.to.fromRoCE(f)
			}
		}
		select {
		case got := <-to.heard:
			if got != text {
				t.Errorf("heard %q, want %q", got, text)
			}
			return
		default:
		}
	}
	t.Fatalf("%q is not heard", text)
}

// TestMessagesBetweenLoops: two bridges of a fleet, each of which drops what the other's MAC address sends otherwise, hear
// each other over ring ports: management, worker, wire, worker, management.
func TestMessagesBetweenLoops(t *testing.T) {
	mac := []frame.MAC{{2, 0xb, 5: 1}, {2, 0xb, 5: 2}}
	for _, c := range []struct {
		name string
		vlan uint16
		ips  [2]string
	}{
		{"IPv4", 0, [2]string{"10.10.0.254", "10.10.0.253"}}, {"IPv6", 0, [2]string{"2001:db8::fe", "2001:db8::fd"}},
		{"VLAN", 5, [2]string{"10.10.0.254", "10.10.0.253"}}, {"VLAN, IPv6", 5, [2]string{"2001:db8::fe", "2001:db8::fd"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var ends [2]*managed
			for i := range ends {
				ip := netip.MustParseAddr(c.ips[i])
				ends[i] = newManaged(t, c.vlan, manage.Station{MAC: mac[i], IP: ip}, netip.PrefixFrom(ip, ip.BitLen()-8))
				if err := ends[i].datapath.SetBridges([][6]byte{mac[1-i]}); err != nil {
					t.Fatal(err)
				}
			}
			const times = 20
			for range times {
				ends[0].says(t, ends[1], "to and")
				ends[1].says(t, ends[0], "fro")
			}
			for i, m := range ends {
				served := dropNamed(t, "mad_served")
				if got := m.counters(lcore.RoCEToIB); got.Drops[served] != times || got.Received != got.Dropped() {
					t.Errorf("bridge %d: %+v", i, got)
				}
			}
		})
	}
}
