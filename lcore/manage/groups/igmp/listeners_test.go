// SPDX-License-Identifier: Apache-2.0

package igmp

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"causeway/lcore/frame"
)

// A link is a group of an address family on a link, whose hosts, queriers and time the test is. Sources are written by a
// letter.
type link struct {
	t       *testing.T
	family  string // "IGMP" or "MLD"
	group   netip.Addr
	q       *Querier
	l       Listeners
	now     time.Time
	queries []string
}

func newLink(t *testing.T, family string) *link {
	k := &link{t: t, family: family, group: netip.MustParseAddr("239.1.2.3"), now: time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)}
	if family == "MLD" {
		k.group = netip.MustParseAddr("ff05::1:3")
	}
	k.q = NewQuerier(Port{Link: frame.Link{MAC: frame.MAC{2, 5: 0xfe}}, IPv4: netip.MustParseAddr("10.9.0.254"), Send: k.sent})
	k.q.Enabled = true
	return k
}

func (k *link) sent(_ int, b []byte) bool {
	f, _ := frame.Open(b)
	m, fault := frame.Membership{}, frame.Fault("")
	if f.IPv4 != nil {
		m, fault = frame.ParseIGMP(f.IPv4, f.Payload)
	} else {
		m, fault = frame.ParseMLD(f.IPv6, f.Payload)
	}
	if fault != "" || m.Query == nil {
		k.t.Fatalf("sent %x: %s", b, fault)
	}
	if q := m.Query; !q.Group.IsUnspecified() {
		says := fmt.Sprintf("Q(G%s)", strings.Join(append([]string{""}, k.names(q.Sources)...), ","))
		if q.Suppress {
			says += "/S"
		}
		k.queries = append(k.queries, says)
	}
	return true
}

// addr is the address of a source that has a letter.
func (k *link) addr(letter byte) netip.Addr {
	if k.family == "MLD" {
		return netip.AddrFrom16([16]byte{0x20, 1, 0xd, 0xb8, 15: letter})
	}
	return netip.AddrFrom4([4]byte{192, 0, 2, letter})
}

func (k *link) names(all []netip.Addr) (names []string) {
	for _, a := range all {
		b := a.AsSlice()
		names = append(names, string(b[len(b)-1]))
	}
	return names
}

var recordTypes = map[string]frame.RecordType{
	"IS_IN": frame.ModeIsInclude, "IS_EX": frame.ModeIsExclude, "TO_IN": frame.ToInclude, "TO_EX": frame.ToExclude,
	"ALLOW": frame.AllowNewSources, "BLOCK": frame.BlockOldSources,
}

// report is what a host of the newest version says, as in "ALLOW ab"; or of an older one, as in "v2 report", "v1 report" and
// "leave".
func (k *link) report(says string) {
	k.t.Helper()
	version, word, sources := uint8(3), says, ""
	if k.family == "MLD" {
		version = 2
	}
	switch {
	case says == "leave":
		word, version = "TO_IN", version-1
	case strings.HasSuffix(says, " report"):
		version, word = says[1]-'0', "IS_EX"
	default:
		word, sources, _ = strings.Cut(says, " ")
	}
	r := frame.GroupRecord{Type: recordTypes[word], Group: k.group}
	if r.Type == 0 {
		k.t.Fatalf("there is no record %q", says)
	}
	for i := range len(sources) {
		r.Sources = append(r.Sources, k.addr(sources[i]))
	}
	k.l.Reported(k.q, version, r, k.now)
}

// pass lets time pass, a tenth of a second at a time.
func (k *link) pass(seconds float64) {
	const step = 100 * time.Millisecond
	for range int(seconds*10 + 0.5) {
		k.now = k.now.Add(step)
		k.q.Tick(k.now)
		k.l.Tick(k.q, k.group, step, k.now)
	}
}

// state is what is wanted, with the seconds that are left: "INCLUDE a260 b160", or "EXCLUDE 260: a160 -b".
func (k *link) state() string {
	words := []string{"INCLUDE"}
	if k.l.exclude {
		words[0] = fmt.Sprintf("EXCLUDE %.0f:", k.l.timer.Sub(k.now).Seconds())
	}
	var wanted, excluded []string
	for a, s := range k.l.sources {
		if s.until.IsZero() {
			excluded = append(excluded, "-"+k.names([]netip.Addr{a})[0])
		} else {
			wanted = append(wanted, fmt.Sprintf("%s%.0f", k.names([]netip.Addr{a})[0], s.until.Sub(k.now).Seconds()))
		}
	}
	slices.Sort(wanted)
	slices.Sort(excluded)
	return strings.Join(slices.Concat(words, wanted, excluded), " ")
}

// want checks the state, and what has been asked since the last call.
func (k *link) want(state string, queries ...string) {
	k.t.Helper()
	slices.Sort(k.queries)
	if got := k.state(); got != state || !slices.Equal(k.queries, queries) {
		k.t.Errorf("%s, asked %q; want %s, %q", got, k.queries, state, queries)
	}
	k.queries = nil
}

// families runs a test for IGMP and MLD, by the sections of RFC 3376 and RFC 3810.
func families(t *testing.T, igmp, mld string, test func(k *link)) {
	for _, x := range [][2]string{{"IGMP", "RFC 3376 §" + igmp}, {"MLD", "RFC 3810 §" + mld}} {
		if x[1][len(x[1])-1] != '-' {
			t.Run(x[1], func(t *testing.T) { test(newLink(t, x[0])) })
		}
	}
}

// TestRecords has each record come while some sources are wanted, 100 seconds after they were: A is ab, X is wx and Y is yz.
func TestRecords(t *testing.T) {
	include := func(k *link) {
		k.report("ALLOW ab")
		k.pass(100)
		k.want("INCLUDE a160 b160")
	}
	exclude := func(k *link) {
		k.report("TO_EX yz")
		k.report("ALLOW wx")
		k.pass(100)
		k.want("EXCLUDE 160: w160 x160 -y -z")
	}
	for _, c := range []struct {
		igmp, mld string
		before    func(k *link)
		record    string
		state     string
		queries   []string
	}{
		{"6.4.1 INCLUDE (A), IS_IN (B)", "7.4.1 INCLUDE (A), IS_IN (B)", include, "IS_IN bc", "INCLUDE a160 b260 c260", nil},
		{"6.4.1 INCLUDE (A), IS_EX (B)", "7.4.1 INCLUDE (A), IS_EX (B)", include, "IS_EX bc", "EXCLUDE 260: b160 -c", nil},
		{"6.4.1 EXCLUDE (X,Y), IS_IN (A)", "7.4.1 EXCLUDE (X,Y), IS_IN (A)", exclude, "IS_IN xyn", "EXCLUDE 160: n260 w160 x260 y260 -z", nil},
		{"6.4.1 EXCLUDE (X,Y), IS_EX (A)", "7.4.1 EXCLUDE (X,Y), IS_EX (A)", exclude, "IS_EX xyn", "EXCLUDE 260: n260 x160 -y", nil},
		{"6.4.2 INCLUDE (A), ALLOW (B)", "7.4.2 INCLUDE (A), ALLOW (B)", include, "ALLOW bc", "INCLUDE a160 b260 c260", nil},
		{"6.4.2 INCLUDE (A), BLOCK (B)", "7.4.2 INCLUDE (A), BLOCK (B)", include, "BLOCK bc", "INCLUDE a160 b2", []string{"Q(G,b)"}},
		{"6.4.2 INCLUDE (A), TO_EX (B)", "7.4.2 INCLUDE (A), TO_EX (B)", include, "TO_EX bc", "EXCLUDE 260: b2 -c", []string{"Q(G,b)"}},
		{"6.4.2 INCLUDE (A), TO_IN (B)", "7.4.2 INCLUDE (A), TO_IN (B)", include, "TO_IN bc", "INCLUDE a2 b260 c260", []string{"Q(G,a)"}},
		{"6.4.2 INCLUDE (A), TO_IN ()", "7.4.2 INCLUDE (A), TO_IN ()", include, "TO_IN", "INCLUDE a2 b2", []string{"Q(G,a,b)"}},
		{"6.4.2 EXCLUDE (X,Y), ALLOW (A)", "7.4.2 EXCLUDE (X,Y), ALLOW (A)", exclude, "ALLOW xyn", "EXCLUDE 160: n260 w160 x260 y260 -z", nil},
		{"6.4.2 EXCLUDE (X,Y), BLOCK (A)", "7.4.2 EXCLUDE (X,Y), BLOCK (A)", exclude, "BLOCK xyn", "EXCLUDE 160: n2 w160 x2 -y -z", []string{"Q(G,n,x)"}},
		{"6.4.2 EXCLUDE (X,Y), TO_EX (A)", "7.4.2 EXCLUDE (X,Y), TO_EX (A)", exclude, "TO_EX xyn", "EXCLUDE 260: n2 x2 -y", []string{"Q(G,n,x)"}},
		{"6.4.2 EXCLUDE (X,Y), TO_IN (A)", "7.4.2 EXCLUDE (X,Y), TO_IN (A)", exclude, "TO_IN xy", "EXCLUDE 2: w2 x260 y260 -z", []string{"Q(G)", "Q(G,w)"}},
		{"6.4.2 EXCLUDE (X,Y), TO_IN ()", "7.4.2 EXCLUDE (X,Y), TO_IN ()", exclude, "TO_IN", "EXCLUDE 2: w2 x2 -y -z", []string{"Q(G)", "Q(G,w,x)"}},
	} {
		families(t, c.igmp, c.mld, func(k *link) {
			c.before(k)
			k.report(c.record)
			k.want(c.state, c.queries...)
		})
	}
}

// TestNewSources: a source that a host excludes and nobody has named yet has the group's timer (RFC 3376 §6.4.2, RFC 3810 §7.4.2).
// Where another is the querier, nothing lowers it at once.
func TestNewSources(t *testing.T) {
	families(t, "6.4.2 (A-X-Y)=timer", "7.4.2 (A-X-Y)=timer", func(k *link) {
		k.other(frame.Query{MaxResp: 10 * time.Second})
		k.report("TO_EX")
		k.pass(100)
		k.report("BLOCK n")
		k.want("EXCLUDE 160: n160")
		k.report("TO_EX mn")
		k.want("EXCLUDE 260: m160 n160")
	})
}

// TestTimers is what ends, and when.
func TestTimers(t *testing.T) {
	families(t, "6.3 a source's timer, INCLUDE", "7.2.3 a source's timer, INCLUDE", func(k *link) {
		k.report("ALLOW a")
		k.pass(200)
		k.report("ALLOW b")
		k.pass(60)
		k.want("INCLUDE b200")
		k.pass(200)
		k.want("INCLUDE")
		if k.l.Any() {
			k.t.Error("somebody wants the group")
		}
	})
	families(t, "6.3 a source's timer, EXCLUDE", "7.2.3 a source's timer, EXCLUDE", func(k *link) {
		k.report("TO_EX")
		k.report("ALLOW a")
		k.pass(200)
		k.report("IS_EX a")
		k.pass(60)
		k.want("EXCLUDE 200: -a")
	})
	families(t, "6.5 the group's timer, sources are left", "7.5 the filter timer, sources are left", func(k *link) {
		k.report("TO_EX y")
		k.pass(200)
		k.report("ALLOW a")
		k.pass(60)
		k.want("INCLUDE a200")
	})
	families(t, "6.5 the group's timer, none is left", "7.5 the filter timer, none is left", func(k *link) {
		k.report("TO_EX y")
		k.pass(259.9)
		k.want("EXCLUDE 0: -y")
		k.pass(0.1)
		k.want("INCLUDE")
	})
	families(t, "8.4 the querier's robustness and interval", "9.4 the querier's robustness and interval", func(k *link) {
		k.other(frame.Query{Robustness: 3, Interval: 300 * time.Second, MaxResp: 20 * time.Second})
		k.report("TO_EX")
		k.want("EXCLUDE 920:")
		k.pass(900)
		if k.q.IsOwn(k.group, k.now) {
			k.t.Error("§8.5: the bridge asks 900 s after a querier of 3 * 300 s + 10 s")
		}
		k.pass(15)
		if !k.q.IsOwn(k.group, k.now) {
			k.t.Error("§8.5: the bridge does not ask 915 s after a querier of 3 * 300 s + 10 s")
		}
	})
}

// other is a query of another querier, whose address is lower than the bridge's.
func (k *link) other(q frame.Query) {
	from := netip.MustParseAddr("10.9.0.1")
	if k.family == "MLD" {
		from = netip.MustParseAddr("fe80::1")
	}
	if !q.Group.IsValid() {
		q.Group = map[string]netip.Addr{"IGMP": netip.IPv4Unspecified(), "MLD": netip.IPv6Unspecified()}[k.family]
	}
	k.q.Heard(from, &q, k.now)
	if q.Group == k.group {
		k.l.Queried(&q, k.now)
	}
}

// TestLastMember is what happens after a host has left.
func TestLastMember(t *testing.T) {
	families(t, "6.6.3.1 nobody answers", "7.6.3.1 nobody answers", func(k *link) {
		k.report("TO_EX")
		k.report("TO_IN")
		k.want("EXCLUDE 2:", "Q(G)")
		k.pass(1)
		k.want("EXCLUDE 1:", "Q(G)")
		k.pass(1)
		k.want("INCLUDE")
		k.pass(10)
		k.want("INCLUDE")
	})
	families(t, "6.6.3.1 somebody answers", "7.6.3.1 somebody answers", func(k *link) {
		k.report("TO_EX")
		k.report("TO_IN")
		k.pass(0.5)
		k.report("IS_EX")
		k.want("EXCLUDE 260:", "Q(G)")
		k.pass(10)
		k.want("EXCLUDE 250:", "Q(G)/S")
	})
	families(t, "6.6.3.2 one of two sources is wanted", "7.6.3.2 one of two sources is wanted", func(k *link) {
		k.report("ALLOW ab")
		k.report("BLOCK ab")
		k.pass(0.5)
		k.report("IS_IN b")
		k.want("INCLUDE a2 b260", "Q(G,a,b)")
		k.pass(0.5)
		k.want("INCLUDE a1 b260", "Q(G,a)", "Q(G,b)/S")
		k.pass(1)
		k.want("INCLUDE b258")
	})
	families(t, "6.6.1 another is the querier", "7.6.1 another is the querier", func(k *link) {
		k.other(frame.Query{MaxResp: 10 * time.Second, Robustness: 2, Interval: 125 * time.Second})
		k.report("TO_EX")
		k.report("ALLOW a")
		k.pass(100)
		k.report("TO_IN")
		k.report("BLOCK a")
		k.pass(5)
		k.want("EXCLUDE 155: a155")
		k.other(frame.Query{Group: k.group, MaxResp: time.Second, Robustness: 2, Suppress: true})
		k.want("EXCLUDE 155: a155")
		k.other(frame.Query{Group: k.group, MaxResp: time.Second, Robustness: 2, Sources: []netip.Addr{k.addr('a'), k.addr('z')}})
		k.want("EXCLUDE 155: a2")
		k.other(frame.Query{Group: k.group, MaxResp: 2 * time.Second, Robustness: 3})
		k.want("EXCLUDE 6: a2")
		k.pass(5)
		k.report("IS_EX")
		k.want("EXCLUDE 260:")
	})
}

// TestOlderHosts is RFC 3376 §7.3.2 and RFC 3810 §8.3.2: what a host of an older version cannot say is not heeded while one is
// there.
func TestOlderHosts(t *testing.T) {
	families(t, "7.3.2 IGMPv1: no leave is heeded", "-", func(k *link) {
		k.report("v1 report")
		k.pass(100)
		for _, says := range []string{"leave", "TO_IN", "BLOCK a", "TO_IN a"} {
			k.report(says)
		}
		k.want("EXCLUDE 160:")
		k.report("TO_EX a")
		k.want("EXCLUDE 260:")
		k.pass(160)
		k.report("leave")
		k.want("EXCLUDE 2:", "Q(G)")
	})
	families(t, "7.3.2 IGMPv2: sources are not heeded", "8.3.2 MLDv1: sources are not heeded", func(k *link) {
		k.report(map[string]string{"IGMP": "v2 report", "MLD": "v1 report"}[k.family])
		k.pass(100)
		k.report("BLOCK a")
		k.report("TO_EX b")
		k.want("EXCLUDE 260:")
		k.report("leave")
		k.want("EXCLUDE 2:", "Q(G)")
	})
}

// TestManySources: with more sources than are kept, the group is wanted of all.
func TestManySources(t *testing.T) {
	families(t, "6.2.1 bounds", "7.2.1 bounds", func(k *link) {
		for i := range byte(sourcesMost) {
			k.report("ALLOW " + string([]byte{i}))
		}
		if len(k.l.sources) != sourcesMost || k.l.exclude {
			k.t.Errorf("%d sources are wanted, all: %v", len(k.l.sources), k.l.exclude)
		}
		k.report("BLOCK " + string([]byte{200}))
		k.report("ALLOW " + string([]byte{201}))
		if len(k.l.sources) != 0 || !k.l.exclude {
			k.t.Errorf("with another: %d sources are wanted, all: %v", len(k.l.sources), k.l.exclude)
		}
	})
}
