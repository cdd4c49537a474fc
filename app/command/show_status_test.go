// SPDX-License-Identifier: Apache-2.0

package command_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"causeway/app/bridge/link"
	"causeway/app/command"
	"causeway/dpdk"
	"causeway/lcore"
)

// losing is a bridge whose devices have lost packets.
type losing struct {
	command.Target
	ethernet dpdk.Stats
	device   map[string]uint64
}

func (l losing) Ethernet() (dpdk.Stats, bool)    { return l.ethernet, true }
func (l losing) LostByDevice() map[string]uint64 { return l.device }

// TestStatusLosses checks that "show status" names what the devices have lost, and nothing while they have not.
func TestStatusLosses(t *testing.T) {
	const ethernet, device = "The Ethernet port has counted losses: ", "The RDMA device has counted losses: "
	for _, c := range []struct {
		name string
		losing
		want, not string
	}{
		{"none", losing{nil, dpdk.Stats{RxPackets: 9, RxNoMbuf: 9}, map[string]uint64{"out_of_buffer": 0, "qpn_rest_cut": 9}}, "READY", "losses"},
		{"the RDMA device", losing{nil, dpdk.Stats{}, map[string]uint64{"out_of_buffer": 4, "symbol_error": 1, "port_rcv_errors": 0}},
			device + "symbol_error 1, out_of_buffer 4. See \"show ports\".", ethernet},
		{"the Ethernet port", losing{nil, dpdk.Stats{RxMissed: 3, RxErrors: 2, TxErrors: 1}, nil},
			ethernet + "missed 3, receive errors 2, send errors 1. See \"show ports\".", device},
	} {
		e, b := env(3)
		c.Target = b
		e.Bridge = c.losing
		out := run(t, e, "show status").Text(0)
		if text := strings.ReplaceAll(out, "ready", "READY"); !strings.Contains(text, c.want) || strings.Contains(text, c.not) {
			t.Errorf("%s: want %q and not %q in\n%s", c.name, c.want, c.not, out)
		}
	}
}

// unlinked is a bridge whose Ethernet port has no link.
type unlinked struct{ command.Target }

func (unlinked) Link() link.State { return link.State{Interface: "eth1", Reason: link.Carrier} }

// TestStatusLink checks that a bridge without a link is not called ready.
func TestStatusLink(t *testing.T) {
	e, b := env(3)
	e.Bridge = unlinked{b}
	for line, want := range map[string][]string{
		"show status": {"not ready: see below", "the Ethernet port has no link: the interface eth1 has no carrier; check its cable", `"ready":false`},
		"show ports":  {"carrier"},
	} {
		r := run(t, e, line)
		encoded, err := r.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		out := r.Text(0) + strings.ReplaceAll(string(encoded), "\n", "")
		for _, part := range want {
			if !strings.Contains(out, part) {
				t.Errorf("%s: no %q in\n%s", line, part, out)
			}
		}
	}
}

// TestPortsMissed checks that "show ports" does not call a count zero that nobody has.
func TestPortsMissed(t *testing.T) {
	for _, c := range []struct {
		ethernet   dpdk.Stats
		text, json string
	}{
		{dpdk.Stats{RxMissed: 3}, "missed 3 ", `"missed":3,`},
		{dpdk.Stats{RxMissedUnknown: true}, "missed not known ", `"missed":null,`},
	} {
		e, b := env(3)
		e.Bridge = losing{b, c.ethernet, nil}
		r := run(t, e, "show ports")
		encoded, err := r.MarshalJSON()
		if compact := strings.ReplaceAll(string(encoded), "\n", ""); err != nil || !strings.Contains(compact, c.json) {
			t.Errorf("no %s in %s; %v", c.json, encoded, err)
		}
		if out := r.Text(0); !strings.Contains(strings.Join(strings.Fields(out), " "), c.text) {
			t.Errorf("no %q in\n%s", c.text, out)
		}
	}
}

// dropping is a bridge that receives a hundred packets to RoCE each time somebody looks, and drops so many of them.
type dropping struct {
	command.Target
	of    uint64
	looks *atomic.Uint64
}

func (d dropping) Counters() (c lcore.Counters) {
	n := d.looks.Add(1)
	c.Direction[lcore.IBToRoCE] = lcore.DirectionCounters{Received: 100 * n, Sent: (100 - d.of) * n,
		Drops: map[lcore.Drop]uint64{lcore.DropACL: (d.of - 2) * n, lcore.DropProxyQPFull: 2 * n}}
	return c
}

// TestDropsMost checks what "show status" and top say of a direction that drops most of what comes, and of one that does not.
func TestDropsMost(t *testing.T) {
	for of, drops := range map[uint64]bool{90: true, 10: false} {
		synctest.Test(t, func(t *testing.T) {
			e, b := env(3)
			e.Bridge = dropping{b, of, new(atomic.Uint64)}
			e.Sampler = command.NewSampler(e.Bridge)
			ctx, stop := context.WithCancel(t.Context())
			go e.Sampler.Run(ctx)
			time.Sleep(3500 * time.Millisecond)
			status := run(t, e, "show status").Text(0)
			v, err := command.Standard.Parse("top count 1 every 200ms")
			if err != nil {
				t.Fatal(err)
			}
			var top sheet
			if err := v.Command.Stream(t.Context(), v.Call(e, command.View, "test"), &top); err != nil {
				t.Fatal(err)
			}
			stop()
			synctest.Wait()
			if got := strings.Contains(top.text, "  READY, DROPS MOST  "); got != drops || !strings.Contains(top.text, "proxy_qp_full 2/s") {
				t.Errorf("%d of 100 dropped: top shows\n%s", of, top.text)
			}
			remark := `90% of what comes ib_to_roce is dropped: acl 88%, proxy_qp_full 2%; "show drops" says what each means`
			if got := strings.Contains(status, remark); got != drops || !strings.Contains(status, "MOST LOST BY") {
				t.Errorf("%d of 100 dropped: show status shows\n%s", of, status)
			}
		})
	}
}
