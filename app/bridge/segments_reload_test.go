// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"causeway/config"
	"causeway/dpdk"
	"causeway/ibside/fabric"
	"causeway/ibside/ib"
	"causeway/ibside/stamp"
	"causeway/lcore"
	"causeway/lcore/frame/roce"
	"causeway/lcore/manage"
)

func init() { tasks["segments-reload"] = taskSegmentsReload }

// segmentsWith is the configuration of one of the two segments alone, or of both, in this order.
func segmentsWith(pkeys ...string) (*config.Config, error) {
	tables := strings.Split(segmentsFile, "\n[")
	var text []string
	for _, k := range append([]string{""}, pkeys...) {
		for i, t := range tables {
			if i > 0 {
				t = "[" + t
			}
			_, of, bound := strings.Cut(t, "pkey = ")
			if bound == (k != "") && (k == "" || strings.HasPrefix(of, k)) {
				text = append(text, t)
			}
		}
	}
	return config.Parse("bridge", []byte(strings.Join(text, "\n")))
}

// streams sends numbered messages to the nodes of the two segments, by VLAN.
type streams struct {
	*Bridge
	sent map[uint16]int
	came map[uint16]int // answers
}

// put sends n messages on a VLAN.
func (s *streams) put(vlan uint16, n int) error {
	for range n {
		s.sent[vlan]++
		p := message(s.Bridge, nodeIP, 0x77, s.sent[vlan])
		if vlan != 0 {
			p = onSegment(message(s.Bridge, node2IP, 0x77, s.sent[vlan]))
		}
		if err := s.enter(p.AppendTo(nil)); err != nil {
			return err
		}
	}
	return nil
}

// take takes answers until all of a VLAN's have come, in order. Those of the other VLAN are counted.
func (s *streams) take(vlan uint16) error {
	for s.came[vlan] < s.sent[vlan] {
		answers, err := s.leave(1)
		if err != nil {
			return err
		}
		if err := s.note(answers[0], vlan); err != nil {
			return err
		}
	}
	return nil
}

func (s *streams) note(a roce.Packet, whole uint16) error {
	vlan, from := uint16(0), nodeIP
	if a.Tag != nil {
		vlan, from = a.Tag.VID, node2IP
	}
	s.came[vlan]++
	number, verdict := stamp.Read(a.Payload)
	if verdict != stamp.Whole || a.SrcIP != from || a.DestQP != 0x55 || vlan == whole && number.Number != uint64(s.came[vlan]) {
		return fmt.Errorf("answer %d on VLAN %d is message %d, %+v", s.came[vlan], vlan, number.Number, a)
	}
	return nil
}

// change reloads while messages cross on a VLAN that stays, and come on the other; then waits until the bridge is ready.
func (s *streams) change(to *config.Config, stays, other uint16) error {
	changed := make(chan error, 1)
	go func() { _, err := s.Reload(context.Background(), to); changed <- err }()
	for done := false; !done; {
		select {
		case err := <-changed:
			if err != nil {
				return err
			}
			done = true
		default:
		}
		if err := errors.Join(s.put(other, 3), s.put(stays, 20), s.take(stays)); err != nil {
			return err
		}
	}
	return s.readyAgain(func() error { return errors.Join(s.put(stays, 20), s.take(stays)) })
}

// gone checks that a segment has nothing left, and that its messages are dropped by name; stays is untouched.
func (s *streams) gone(vlan uint16, stays manage.SegmentStatus) error {
	list, err1 := s.ListHosts(context.Background(), manage.Query{})
	qps, err2 := s.ListProxyQPs(context.Background(), manage.Query{})
	groups, err3 := s.ListGroups(context.Background(), manage.Query{})
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	is := s.Status().Segments
	if len(is) != 1 || is[0].Number != stays.Number || is[0].VLAN != stays.VLAN || len(list.Entries) != 1 || list.Entries[0].Segment != stays.Number ||
		len(qps.Entries) != 1 || qps.Entries[0].Segment != stays.Number {
		return fmt.Errorf("left are %+v, hosts %+v, proxy QPs %+v", is, list.Entries, qps.Entries)
	}
	for _, g := range groups.Entries {
		if g.Segments != 1<<stays.Number && g.State != "leaving" {
			return fmt.Errorf("a group is left: %+v", g)
		}
	}
	unknown, _ := lcore.DropNamed("vlan_unknown")
	before := s.Counters().Direction[lcore.RoCEToIB].Drops[unknown]
	const n = 10
	if err := s.put(vlan, n); err != nil {
		return err
	}
	for deadline := time.Now().Add(time.Minute); s.Counters().Direction[lcore.RoCEToIB].Drops[unknown] != before+n; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			return fmt.Errorf("%d messages of a VLAN that was removed are dropped as %+v", n, s.Counters().Direction[lcore.RoCEToIB])
		}
	}
	s.sent[vlan] = s.came[vlan]
	return nil
}

// taskSegmentsReload removes and adds each segment while numbered messages cross in the other.
func taskSegmentsReload() (string, error) {
	f, err := fabric.New(fabric.Config{PKeys: []ib.PKey{ib.PKeyDefault, segmentPKey1, segmentPKey}})
	if err != nil {
		return "", err
	}
	first, err1 := echoIn(f, 7, segmentPKey1)
	second, err2 := echoIn(f, 8, segmentPKey)
	spy, err3 := f.Attach(fabric.PortConfig{Name: "spy", GUID: 9, PKeys: []ib.PKey{segmentPKey1, segmentPKey}})
	both, err4 := segmentsWith("0x8001", "0x8002")
	turned, err5 := segmentsWith("0x8002", "0x8001")
	only1, err6 := segmentsWith("0x8001")
	only2, err7 := segmentsWith("0x8002")
	if err := errors.Join(err1, err2, err3, err4, err5, err6, err7); err != nil {
		return "", err
	}
	h, err := Build(both, Options{Log: slog.New(slog.DiscardHandler), NoHuge: true, Subnet: f})
	if err != nil {
		return "", err
	}
	s := &streams{h, map[uint16]int{}, map[uint16]int{}}
	err = running(h, func() error {
		if err := errors.Join(s.put(0, 1), s.put(segmentVLAN, 1), s.take(0), s.take(segmentVLAN)); err != nil {
			return err
		}
		for range 4 {
			for _, round := range []struct {
				only        *config.Config
				stays, goes uint16
			}{{only2, segmentVLAN, 0}, {only1, 0, segmentVLAN}} {
				var stays manage.SegmentStatus
				for _, x := range h.Status().Segments {
					if x.VLAN == round.stays {
						stays = x
					}
				}
				for _, to := range []*config.Config{round.only, turned} {
					if err := s.change(to, round.stays, round.goes); err != nil {
						return err
					}
					if to == turned {
						break
					}
					if err := s.gone(round.goes, stays); err != nil {
						return err
					}
				}
				if err := s.again(round.goes); err != nil {
					return err
				}
			}
		}
		return h.rejects(both)
	})
	return fmt.Sprintf("%d and %d messages", s.sent[0], s.sent[segmentVLAN]), errors.Join(err, first.Close(), second.Close(), spy.Close(), f.Close())
}

// again checks that all crosses in a segment that has come again; what came before it was there is counted as dropped.
func (s *streams) again(vlan uint16) error {
	for deadline := time.Now().Add(time.Minute); s.came[vlan] == 0 || s.sent[vlan] > s.came[vlan]; {
		if time.Now().After(deadline) {
			return errors.New("nothing crosses in the segment that has come again")
		}
		s.drain(50 * time.Millisecond)
		s.sent[vlan], s.came[vlan] = 0, 0
		if err := errors.Join(s.put(vlan, 1), s.take(vlan), s.put(vlan, 20), s.take(vlan)); err != nil {
			return err
		}
	}
	return nil
}

// drain takes what comes for a time.
func (s *streams) drain(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(time.Millisecond) {
		var m [1]dpdk.Mbuf
		for s.ethernet[0].port.RingPort().FromPort(0).Dequeue(m[:]) > 0 {
			m[0].Free()
		}
	}
}

// rejects checks that a segment that the port cannot have changes nothing, and that of one that is there only some keys
// can change.
func (b *Bridge) rejects(both *config.Config) error {
	was := b.Config()
	third := "[[roce]]\nport = \"ring\"\nvlan = 300\naddresses = [\"10.9.0.254/24\"]\nmtu = 9000\npkey = 0x8003\n"
	for _, c := range []struct{ text, why string }{
		{strings.Replace(segmentsFile, "[ib]", third+"[ib]", 1), "reload: nothing was changed: [[roce]] VLAN 300: mtu 9000 is more than the 4200 of the port while it runs: lower it, or restart the bridge"},
		{strings.Replace(segmentsFile, "mtu = 4200", "mtu = 1500", 1), "[[roce]] untagged mtu: 4200 -> 1500"},
	} {
		to, err := config.Parse("bridge", []byte(c.text))
		if err != nil {
			return err
		}
		if _, err := b.Reload(context.Background(), to); err == nil || !strings.Contains(err.Error(), c.why) || b.Config() != was {
			return fmt.Errorf("%w, want %s", err, c.why)
		}
	}
	if n := len(b.Status().Segments); n != len(both.Segments()) {
		return fmt.Errorf("%d segments", n)
	}
	return nil
}

func TestSegmentsReload(t *testing.T) {
	t.Parallel()
	logTask(t, "segments-reload")
}

// TestPolicyByNumber has segments whose numbers are not their places in the file.
func TestPolicyByNumber(t *testing.T) {
	first, second := []netip.Prefix{netip.MustParsePrefix("10.9.0.0/25")}, []netip.Prefix{netip.MustParsePrefix("10.9.0.128/25")}
	cfg := &config.Config{RoCE: config.RoCE{Allow: first}, More: []config.RoCE{{VLAN: 100, Allow: second}, {VLAN: 200}}}
	p := policyOf(cfg, map[config.Place]uint8{{}: 5, {VLAN: 100}: 0, {VLAN: 200}: 1})
	for n, got := range p.AllowIn {
		if want := map[int][]netip.Prefix{5: first, 0: second}[n]; !slices.Equal(got, want) {
			t.Errorf("number %d: %v, want %v", n, got, want)
		}
	}
	if err := p.Validate(); err != nil {
		t.Error(err)
	}
}
