// SPDX-License-Identifier: Apache-2.0

package manage_test

import (
	"bytes"
	"errors"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"causeway/ibside/ib"
	"causeway/lcore/frame"
	"causeway/lcore/frame/roce"
	"causeway/lcore/manage"
	"causeway/lcore/manage/messages"
	"causeway/tables"
)

// A hearing is a loop that hears messages.
type hearing struct {
	*rig
	heard []string
}

func startHearing(t *testing.T, edit func(*manageConfig)) *hearing {
	t.Helper()
	h := &hearing{}
	h.rig = start(t, func(c *manageConfig, _ *ibPort) {
		c.RoCEPKey, c.Heard = ib.PKeyDefault, func(data []byte) { h.heard = append(h.heard, string(data)) }
		if edit != nil {
			edit(c)
		}
	})
	return h
}

// other is the configuration of another bridge in the same subnets.
func other(c *manageConfig) {
	c.MAC = otherMAC
	c.Addresses = []netip.Prefix{netip.MustParsePrefix("10.9.0.253/24"), netip.MustParsePrefix("fd09::fd/64")}
}

// say sends a message, and returns the frames that it became.
func (h *hearing) say(to manage.Station, text string) [][]byte {
	h.t.Helper()
	data := []byte(text)
	if err := manage.SendMessage(h.loop, to, data); err != nil {
		h.t.Fatal(err)
	}
	clear(data) // it is the sender's again
	h.settle()
	return h.w.take()
}

// TestMessagesBetweenBridges: two bridges hear each other, over either IP version, and in a VLAN.
func TestMessagesBetweenBridges(t *testing.T) {
	for _, c := range []struct {
		name string
		a, b string
		vlan uint16
	}{
		{"IPv4", "10.9.0.254", "10.9.0.253", 0}, {"IPv6", "fd09::fe", "fd09::fd", 0}, {"VLAN", "10.9.0.254", "10.9.0.253", 5},
		{"VLAN, IPv6", "fd09::fe", "fd09::fd", 5}, {"link-local", "fe80::ff:fe00:fe", "fe80::ff:fe00:2", 0},
	} {
		bubble(t, c.name, func(t *testing.T) {
			a := startHearing(t, func(cfg *manageConfig) { cfg.VLAN = c.vlan })
			b := startHearing(t, func(cfg *manageConfig) { other(cfg); cfg.VLAN = c.vlan })
			atA := manage.Station{MAC: bridgeMAC, IP: netip.MustParseAddr(c.a)}
			atB := manage.Station{MAC: otherMAC, IP: netip.MustParseAddr(c.b)}
			full := strings.Repeat("x", ib.BridgeDataLen)
			for _, text := range []string{"hello", "", full} {
				for _, x := range []struct {
					from, to *hearing
					src, at  manage.Station
				}{{a, b, atA, atB}, {b, a, atB, atA}} {
					sent := x.from.say(x.at, text)
					if len(sent) != 1 {
						t.Fatalf("%d frames", len(sent))
					}
					p, err := roce.Parse(sent[0])
					if err != nil || p.Version != 2 || p.Src != x.src.MAC || p.SrcIP != x.src.IP || p.Dst != x.at.MAC || p.DstIP != x.at.IP ||
						p.PKey != ib.PKeyDefault || p.QKey != ib.QKeyGSI || p.SrcQP != ib.QP1 || (p.Tag != nil) != (c.vlan != 0) {
						t.Errorf("sent %+v, %v", p, err)
					}
					if answers := x.to.give(sent[0]); len(answers) != 0 {
						t.Errorf("answered with %x", answers)
					}
				}
			}
			if want := []string{"hello", "", full}; !slices.Equal(a.heard, want) || !slices.Equal(b.heard, want) {
				t.Errorf("heard %q and %q", a.heard, b.heard)
			}
			if n := b.count(); n.NotForUs != 0 || len(n.Malformed) != 0 || b.tables.Hosts.Len() != 0 {
				t.Errorf("%+v, %d hosts", n, b.tables.Hosts.Len())
			}
		})
	}
}

// message is one that comes to the bridge, correct unless a test changes it.
func message(edit func(*roce.Packet)) []byte {
	p := roce.Packet{
		Version: 2, Src: otherMAC, Dst: bridgeMAC, SrcIP: netip.MustParseAddr("10.9.0.253"), DstIP: bridge4, HopLimit: 64, SrcPort: 0xc123,
		PKey: ib.PKeyDefault, DestQP: ib.QP1, SrcQP: ib.QP1, QKey: ib.QKeyGSI,
	}
	p.Payload = ib.PutBridgeMAD(make([]byte, ib.MADLen), ib.BridgeMADFields{Data: []byte("hello")})
	if edit != nil {
		edit(&p)
	}
	return p.AppendTo(nil)
}

// TestMessagesHostile: what is no message, or not for the bridge, is counted and not heard; and nothing answers it.
func TestMessagesHostile(t *testing.T) {
	spoil := func(at int, by byte) []byte { return message(func(p *roce.Packet) { p.Payload[at] ^= by }) }
	const bad, others = "bad", "others'"
	for name, c := range map[string]struct {
		b    []byte
		want string
	}{
		"a message":                   {message(nil), "hello"},
		"shorter":                     {spoil(23, 5^2), "he"},
		"too long":                    {spoil(23, 217^5), bad},
		"longer than a byte":          {spoil(22, 1), bad},
		"as long as can be":           {spoil(20, 0xff), bad},
		"another class":               {spoil(1, 3), bad},
		"another class version":       {spoil(2, 3), bad},
		"another method":              {spoil(3, 0x80), bad},
		"another attribute":           {spoil(17, 7), bad},
		"another OUI":                 {spoil(38, 1), bad},
		"another QP":                  {message(func(p *roce.Packet) { p.SrcQP = 5 }), bad},
		"immediate data":              {message(func(p *roce.Packet) { p.HasImm = true }), bad},
		"RoCEv1":                      {message(func(p *roce.Packet) { p.Version = 1 }), bad},
		"a wrong ICRC":                {wrong(message(nil), 200), bad},
		"a byte more":                 {message(func(p *roce.Packet) { p.Payload = append(p.Payload, 0) }), bad},
		"a byte less":                 {message(func(p *roce.Packet) { p.Payload = p.Payload[:255] }), bad},
		"a header alone":              {message(func(p *roce.Packet) { p.Payload = p.Payload[:24] }), bad},
		"to a node":                   {message(func(p *roce.Packet) { p.DstIP = node4 }), others},
		"to the fleet's MAC address":  {message(func(p *roce.Packet) { p.Dst = frame.MAC{2, 0xf} }), others},
		"from the bridge's own":       {message(func(p *roce.Packet) { p.SrcIP, p.DstIP = bridge4, bridge4 }), others},
		"from anybody, which is told": {message(func(p *roce.Packet) { p.SrcIP = far4 }), "hello"},
	} {
		bubble(t, name, func(t *testing.T) {
			h := startHearing(t, nil)
			sent := h.give(c.b)
			n := h.count()
			var got string
			switch {
			case len(h.heard) == 1:
				got = h.heard[0]
			case n.Malformed["mad_bad"] == 1:
				got = bad
			case n.NotForUs == 1:
				got = others
			}
			if got != c.want || len(sent) != 0 {
				t.Errorf("it is %q, want %q; answered with %x; %+v", got, c.want, sent, n)
			}
		})
	}
	bubble(t, "nobody wants messages", func(t *testing.T) {
		h := startHearing(t, func(c *manageConfig) { c.Heard = nil })
		if sent := h.give(message(nil)); len(sent) != 0 || h.count().NotForUs != 1 {
			t.Errorf("answered with %x, %+v", sent, h.count())
		}
	})
}

// TestSendMessage: nothing waits, and what cannot be sent is an error or counted.
func TestSendMessage(t *testing.T) {
	to := manage.Station{MAC: otherMAC, IP: netip.MustParseAddr("10.9.0.253")}
	bubble(t, "errors", func(t *testing.T) {
		h := startHearing(t, func(c *manageConfig) { c.Addresses = c.Addresses[:1] })
		for _, bad := range []manage.Station{
			{IP: to.IP}, {MAC: to.MAC}, {MAC: frame.MAC{1}, IP: to.IP}, {MAC: to.MAC, IP: netip.MustParseAddr("239.1.2.3")},
			{MAC: to.MAC, IP: netip.MustParseAddr("::ffff:10.9.0.253")},
		} {
			if err := manage.SendMessage(h.loop, bad, nil); !errors.Is(err, messages.ErrStation) {
				t.Errorf("%+v: %v", bad, err)
			}
		}
		if err := manage.SendMessage(h.loop, to, make([]byte, ib.BridgeDataLen+1)); !errors.Is(err, messages.ErrLong) {
			t.Error(err)
		}
		if sent := h.say(manage.Station{MAC: to.MAC, IP: netip.MustParseAddr("fd09::fd")}, "from nowhere"); len(sent) != 0 || h.count().SendFailed != 1 {
			t.Errorf("sent %x without an address of that kind; %+v", sent, h.count())
		}
		h.w.setFull(true)
		if h.say(to, "lost"); h.count().SendFailed != 2 {
			t.Errorf("%+v", h.count())
		}
	})
	bubble(t, "the loop has ended", func(t *testing.T) {
		h := startHearing(t, nil)
		if err := h.end(); err != nil {
			t.Error(err)
		}
		if err := manage.SendMessage(h.loop, to, nil); !errors.Is(err, manage.ErrBusy) {
			t.Errorf("it takes a message: %v", err)
		}
	})
}

// TestSendMessageBusy: a loop that takes nothing has room for so many messages, and nobody waits for it.
func TestSendMessageBusy(t *testing.T) {
	all, err := tables.New(smallTables)
	if err != nil {
		t.Fatal(err)
	}
	defer all.Close()
	l := manage.New(config(), all, newPort(), []manage.Worker{&worker{}}, slog.New(slog.DiscardHandler))
	n := 0
	for err == nil && n < 1000 {
		if err = manage.SendMessage(l, manage.Station{MAC: otherMAC, IP: host4}, []byte("many")); err == nil {
			n++
		}
	}
	if !errors.Is(err, manage.ErrBusy) || n != 256 {
		t.Errorf("%d messages are taken: %v", n, err)
	}
}

// FuzzMessage gives the loop any MAD of the messages' class. What it hears is in it, and nothing is answered.
func FuzzMessage(f *testing.F) {
	good := ib.PutBridgeMAD(make([]byte, ib.MADLen), ib.BridgeMADFields{Data: []byte("hello")})
	for _, at := range []int{0, 1, 3, 20, 23, 38, 100} {
		b := slices.Clone(good)
		b[at] ^= 0x11
		f.Add([]byte(b))
	}
	f.Add([]byte(good))
	f.Fuzz(func(t *testing.T, mad []byte) {
		if len(mad) > ib.MADLen+8 {
			return
		}
		b := message(func(p *roce.Packet) { p.Payload = mad })
		synctest.Test(t, func(t *testing.T) {
			h := startHearing(t, nil)
			if sent := h.give(b); len(sent) != 0 || len(h.heard) > 1 {
				t.Errorf("answered with %x, heard %q", sent, h.heard)
			}
			if len(h.heard) == 1 && !bytes.Contains(mad, []byte(h.heard[0])) {
				t.Errorf("heard %q", h.heard)
			}
		})
	})
}
