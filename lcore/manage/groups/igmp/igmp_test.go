// SPDX-License-Identifier: Apache-2.0

package igmp_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"causeway/lcore/frame"
	"causeway/lcore/manage/groups/igmp"
)

var (
	own4   = netip.MustParseAddr("10.9.0.254")
	first4 = netip.MustParseAddr("10.9.0.1") // lower than the bridge's address
	group4 = netip.MustParseAddr("239.1.2.3")
	third4 = netip.MustParseAddr("239.1.2.33")
	group6 = netip.MustParseAddr("ff05::1:3")
	all4   = netip.IPv4Unspecified()
	all6   = netip.IPv6Unspecified()
	link   = frame.Link{MAC: frame.MAC{2, 0, 0, 0, 0, 0xfe}}
	begin  = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
)

// wire records what the host and the querier of these tests send.
type wire struct {
	t    *testing.T
	said []string
	full bool // sending fails
	now  time.Time
	src  netip.Addr // the source that IGMP must have
}

func (w *wire) port() igmp.Port {
	w.src = own4
	return igmp.Port{Link: link, IPv4: own4, Send: w.send}
}

// send records a message with its version and worker.
func (w *wire) send(worker int, b []byte) bool {
	if w.full {
		return false
	}
	f, fault := frame.Open(b)
	if fault != "" {
		w.t.Fatalf("%q: %x", fault, b)
	}
	m, protocol := frame.Membership{}, "MLD"
	if f.IPv4 != nil {
		protocol = "IGMP"
		m, fault = frame.ParseIGMP(f.IPv4, f.Payload)
	} else {
		m, fault = frame.ParseMLD(f.IPv6, f.Payload)
	}
	if src := (map[string]netip.Addr{"IGMP": w.src, "MLD": link.MAC.LinkLocal()})[protocol]; f.Src() != src {
		w.t.Errorf("%s from %v, want %v", protocol, f.Src(), src)
	}
	if fault != "" || f.Eth.Src() != link.MAC || f.Eth.Dst() != frame.GroupMAC(f.Dst()) {
		w.t.Fatalf("%q: %x", fault, b)
	}
	if m.Query != nil {
		w.said = append(w.said, fmt.Sprintf("%d: %sv%d who listens to %v", worker, protocol, m.Version, m.Query.Group))
	}
	for _, r := range m.Records {
		what := "still"
		switch {
		case len(r.Sources) > 0:
			what = map[frame.RecordType]string{frame.ModeIsInclude: "IS_IN", frame.AllowNewSources: "ALLOW", frame.BlockOldSources: "BLOCK"}[r.Type]
		case r.Type == frame.ToExclude:
			what = "join"
		case r.Leaves():
			what = "leave"
		}
		w.said = append(w.said, strings.Trim(fmt.Sprintf("%d: %sv%d %s %v %v", worker, protocol, m.Version, what, r.Group, r.Sources), " []"))
	}
	return true
}

// pass lets time pass, in the steps of the loop.
func (w *wire) pass(d time.Duration, tick func(time.Time)) {
	const step = 100 * time.Millisecond
	for end := w.now.Add(d); w.now.Before(end); {
		w.now = w.now.Add(step)
		tick(w.now)
	}
}

func (w *wire) want(when string, want ...string) {
	w.t.Helper()
	slices.Sort(w.said)
	slices.Sort(want)
	if !slices.Equal(w.said, want) {
		w.t.Errorf("%s: said %q, want %q", when, w.said, want)
	}
	w.said = nil
}

func query(group netip.Addr, version uint8, within time.Duration) frame.Membership {
	return frame.Membership{Version: version, Query: &frame.Query{Group: group, MaxResp: within}}
}

// TestJoinAndLeave checks that joins and leaves are reported twice, within a second, by the group's worker; and that no
// repeated join follows a leave, nor the other way round.
func TestJoinAndLeave(t *testing.T) {
	w := &wire{t: t, now: begin}
	h := igmp.NewHost(w.port())
	h.Join(group4, nil, 1, w.now)
	h.Join(group6, nil, 0, w.now)
	w.want("at once", "1: IGMPv3 join 239.1.2.3", "0: MLDv2 join ff05::1:3")
	w.pass(1100*time.Millisecond, h.Tick)
	w.want("again", "1: IGMPv3 join 239.1.2.3", "0: MLDv2 join ff05::1:3")
	w.pass(time.Minute, h.Tick)
	w.want("never more")
	h.Leave(group4, w.now)
	h.Leave(group4, w.now)
	w.want("left", "1: IGMPv3 leave 239.1.2.3")
	h.Tick(w.now)
	w.want("not again at once")
	w.pass(1100*time.Millisecond, h.Tick)
	w.want("left, again", "1: IGMPv3 leave 239.1.2.3")
	h.Join(group4, nil, 2, w.now)
	h.Leave(group4, w.now)
	h.Join(group4, nil, 3, w.now)
	w.said = nil
	w.pass(1100*time.Millisecond, h.Tick)
	w.want("the last word", "3: IGMPv3 join 239.1.2.3")
	h.Join(third4, nil, 0, w.now)
	h.Leave(third4, w.now)
	w.said = nil
	h.LeaveAll(w.now)
	w.want("goodbye", "3: IGMPv3 leave 239.1.2.3", "0: MLDv2 leave ff05::1:3")
	w.pass(time.Minute, h.Tick)
	w.want("after the goodbye")
}

// TestAgain checks that all groups are reported at once and once more, also what the worker cannot take at first, and
// no leave.
func TestAgain(t *testing.T) {
	w := &wire{t: t, now: begin}
	h := igmp.NewHost(w.port())
	h.Join(group4, nil, 1, w.now)
	h.Join(group6, nil, 0, w.now)
	h.Join(third4, nil, 0, w.now)
	h.Leave(third4, w.now)
	w.pass(2*time.Second, h.Tick)
	w.said = nil
	h.Again(w.now)
	w.want("at once", "1: IGMPv3 join 239.1.2.3", "0: MLDv2 join ff05::1:3")
	w.pass(1100*time.Millisecond, h.Tick)
	w.want("again", "1: IGMPv3 join 239.1.2.3", "0: MLDv2 join ff05::1:3")
	w.full = true
	h.Again(w.now)
	w.full = false
	h.Tick(w.now)
	w.want("when there is room", "1: IGMPv3 join 239.1.2.3", "0: MLDv2 join ff05::1:3")
	w.pass(time.Minute, h.Tick)
	w.want("never more")
}

// TestAnswers checks that queries, however many there are, get one answer within the time that they allow; and those
// about other groups none.
func TestAnswers(t *testing.T) {
	const still4, still6 = "0: IGMPv3 still 239.1.2.3", "0: MLDv2 still ff05::1:3"
	for _, c := range []struct {
		name   string
		query  frame.Membership
		within time.Duration
		want   []string
	}{
		{"general", query(all4, 3, 5*time.Second), 5 * time.Second, []string{still4}},
		{"general, IPv6", query(all6, 2, 5*time.Second), 5 * time.Second, []string{still6}},
		{"specific", query(group4, 3, time.Second), time.Second, []string{still4}},
		{"for another group", query(netip.MustParseAddr("239.1.2.4"), 3, time.Second), time.Second, nil},
		{"without a time", query(all4, 3, 0), 100 * time.Millisecond, []string{still4}},
		{"longer than sensible", query(all4, 3, time.Hour), 10 * time.Second, []string{still4}},
		{"IGMPv1, which has no time", query(all4, 1, 0), 10 * time.Second, []string{"0: IGMPv1 still 239.1.2.3"}},
	} {
		w := &wire{t: t, now: begin}
		h := igmp.NewHost(w.port())
		h.Join(group4, nil, 0, w.now)
		h.Join(group6, nil, 0, w.now)
		w.pass(2*time.Second, h.Tick)
		w.said = nil
		for range 100 {
			h.Queried(c.query, w.now)
		}
		w.pass(c.within, h.Tick)
		w.want(c.name, c.want...)
		w.pass(time.Minute, h.Tick)
		w.want(c.name + ", afterwards")
	}
}

// TestAnswersSooner checks that of two queries the one with less time is served within that, whichever came first, and both by one
// answer.
func TestAnswersSooner(t *testing.T) {
	long, short := query(all4, 3, 10*time.Second), query(group4, 3, 100*time.Millisecond)
	for range 10 {
		for _, queries := range [][]frame.Membership{{long, short}, {short, long}} {
			w := &wire{t: t, now: begin}
			h := igmp.NewHost(w.port())
			h.Join(group4, nil, 0, w.now)
			w.pass(2*time.Second, h.Tick)
			w.said = nil
			for _, q := range queries {
				h.Queried(q, w.now)
			}
			w.pass(100*time.Millisecond, h.Tick)
			w.want("the short time", "0: IGMPv3 still 239.1.2.3")
			w.pass(time.Minute, h.Tick)
			w.want("afterwards")
		}
	}
}

// TestSpread checks that the answers to one query are spread over the time that it allows.
func TestSpread(t *testing.T) {
	for _, c := range []struct {
		name        string
		query       frame.Membership
		least, most time.Duration // the time of the last one
	}{
		{"ten seconds", query(all4, 3, 10*time.Second), 5 * time.Second, 10 * time.Second},
		{"a second", query(all4, 3, time.Second), 500 * time.Millisecond, time.Second},
		{"none", query(all4, 3, 0), 0, 100 * time.Millisecond},
		{"none, IGMPv2", query(all4, 2, 0), 0, 100 * time.Millisecond},
		{"IGMPv1, which has none", query(all4, 1, 0), 5 * time.Second, 10 * time.Second},
		{"a second, IGMPv1", query(all4, 1, time.Second), 500 * time.Millisecond, time.Second},
	} {
		w := &wire{t: t, now: begin}
		h := igmp.NewHost(w.port())
		for i := range byte(50) {
			h.Join(netip.AddrFrom4([4]byte{239, 1, 3, i}), nil, 0, w.now)
		}
		w.pass(2*time.Second, h.Tick)
		w.said = nil
		h.Queried(c.query, w.now)
		w.pass(c.least, h.Tick)
		early := len(w.said)
		w.pass(c.most-c.least, h.Tick)
		if early == 50 || len(w.said) != 50 {
			t.Errorf("%s: %d answers by half of the time, %d by all of it", c.name, early, len(w.said))
		}
	}
}

// TestOlderVersion checks that the older version is used for 260 s after its last query, and only by its address
// family.
func TestOlderVersion(t *testing.T) {
	w := &wire{t: t, now: begin}
	h := igmp.NewHost(w.port())
	h.Queried(query(all4, 2, time.Second), w.now)
	h.Queried(query(all6, 2, time.Second), w.now)
	h.Join(group4, nil, 0, w.now)
	h.Join(group6, nil, 0, w.now)
	w.want("IPv4 is old", "0: IGMPv2 still 239.1.2.3", "0: MLDv2 join ff05::1:3")
	h.LeaveAll(w.now)
	w.want("goodbye", "0: IGMPv2 leave 239.1.2.3", "0: MLDv2 leave ff05::1:3")
	h.Queried(query(all6, 1, time.Second), w.now)
	w.pass(255*time.Second, h.Tick)
	h.Join(group6, nil, 0, w.now)
	h.Leave(group6, w.now)
	w.want("IPv6 is old", "0: MLDv1 still ff05::1:3", "0: MLDv1 leave ff05::1:3")
	w.pass(10*time.Second, h.Tick)
	w.said = nil
	h.Join(group4, nil, 0, w.now)
	h.Join(group6, nil, 0, w.now)
	w.want("nobody is old", "0: IGMPv3 join 239.1.2.3", "0: MLDv2 join ff05::1:3")
}

// TestFull checks that messages that a worker did not take are sent later, and that only those that it took are
// counted.
func TestFull(t *testing.T) {
	w := &wire{t: t, now: begin}
	h, q := igmp.NewHost(w.port()), igmp.NewQuerier(w.port())
	q.Enabled = true
	h.Join(group4, nil, 0, w.now)
	w.full = true
	h.Queried(query(group4, 3, time.Second), w.now)
	tick := func(now time.Time) { h.Tick(now); q.Tick(now) }
	w.pass(time.Minute, tick)
	w.full, w.said = false, nil
	w.pass(100*time.Millisecond, tick)
	w.want("then", "0: IGMPv3 join 239.1.2.3", "0: IGMPv3 still 239.1.2.3", "0: IGMPv3 who listens to 0.0.0.0", "0: MLDv2 who listens to ::")
	if h.Reports != 3 || q.Queries != 2 {
		t.Errorf("counted %d reports, %d queries", h.Reports, q.Queries)
	}
}

// TestNoIPv4 checks that a bridge without an IPv4 address reports from 0.0.0.0, and is not the querier.
func TestNoIPv4(t *testing.T) {
	w := &wire{t: t, now: begin}
	p := w.port()
	p.IPv4, w.src = netip.Addr{}, all4
	h, q := igmp.NewHost(p), igmp.NewQuerier(p)
	q.Enabled = true
	h.Join(group4, nil, 0, w.now)
	q.Tick(w.now)
	w.want("IPv6 only", "0: IGMPv3 join 239.1.2.3", "0: MLDv2 who listens to ::")
}

// TestSources is what a host says that wants messages of some sources (RFC 3376 §5, RFC 3810 §6), and which of those it answers
// for that it is asked about.
func TestSources(t *testing.T) {
	a, b, c := netip.MustParseAddr("10.9.0.7"), netip.MustParseAddr("10.9.0.8"), netip.MustParseAddr("10.9.0.9")
	w := &wire{t: t, now: begin}
	h := igmp.NewHost(w.port())
	h.Join(group4, []netip.Addr{a, b}, 0, w.now)
	h.Join(third4, nil, 0, w.now)
	w.want("at once", "0: IGMPv3 ALLOW 239.1.2.3 [10.9.0.7 10.9.0.8", "0: IGMPv3 join 239.1.2.33")
	w.pass(2*time.Second, h.Tick)
	w.said = nil
	ask := func(group netip.Addr, sources ...netip.Addr) {
		q := query(group, 3, time.Second)
		q.Query.Sources = sources
		h.Queried(q, w.now)
	}
	ask(all4)
	w.pass(time.Second, h.Tick)
	w.want("§5.2 1", "0: IGMPv3 IS_IN 239.1.2.3 [10.9.0.7 10.9.0.8", "0: IGMPv3 still 239.1.2.33")
	ask(group4)
	w.pass(time.Second, h.Tick)
	w.want("§5.2 2", "0: IGMPv3 IS_IN 239.1.2.3 [10.9.0.7 10.9.0.8")
	ask(group4, b, c)
	ask(third4, c)
	w.pass(time.Second, h.Tick)
	w.want("§5.2 3", "0: IGMPv3 IS_IN 239.1.2.3 [10.9.0.8", "0: IGMPv3 IS_IN 239.1.2.33 [10.9.0.9")
	ask(group4, c)
	w.pass(time.Second, h.Tick)
	w.want("§5.2: of no source that it wants")
	ask(third4, a)
	ask(third4, b)
	w.pass(time.Second, h.Tick)
	w.want("§5.2 5", "0: IGMPv3 IS_IN 239.1.2.33 [10.9.0.7 10.9.0.8")
	ask(third4)
	ask(third4, b)
	w.pass(time.Second, h.Tick)
	w.want("§5.2 4", "0: IGMPv3 still 239.1.2.33")
	h.Leave(group4, w.now)
	w.want("left", "0: IGMPv3 BLOCK 239.1.2.3 [10.9.0.7 10.9.0.8")
	w.pass(2*time.Second, h.Tick)
	w.want("left, again", "0: IGMPv3 BLOCK 239.1.2.3 [10.9.0.7 10.9.0.8")
}

// TestFirstVersion: to a querier of IGMPv1, hosts report as it knows it, and leave without a word (RFC 2236 §4, RFC 3376 §7.2.1).
func TestFirstVersion(t *testing.T) {
	w := &wire{t: t, now: begin}
	h := igmp.NewHost(w.port())
	h.Queried(query(all4, 2, time.Second), w.now)
	h.Queried(query(all4, 1, 0), w.now)
	h.Join(group4, nil, 0, w.now)
	w.want("joined", "0: IGMPv1 still 239.1.2.3")
	h.Leave(group4, w.now)
	w.pass(2*time.Second, h.Tick)
	w.want("left")
}
