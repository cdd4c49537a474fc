// SPDX-License-Identifier: Apache-2.0

package scale

import (
	"bytes"
	"math"
	"net/netip"
	"strings"
	"testing"
)

// The verification suite for receive-side scaling (Microsoft, "Verifying the RSS Hash Calculation"): IPv4 and IPv6 without ports.
func TestToeplitz(t *testing.T) {
	for _, c := range []struct {
		src, dst string
		want     uint32
	}{
		{"66.9.149.187", "161.142.100.80", 0x323e8fc2},
		{"199.92.111.2", "65.69.140.83", 0xd718262a},
		{"24.19.198.95", "12.22.207.184", 0xd2d0a5de},
		{"38.27.205.30", "209.142.163.6", 0x82989176},
		{"153.39.163.191", "202.188.127.2", 0x5d1809c5},
		{"3ffe:2501:200:1fff::7", "3ffe:2501:200:3::1", 0x2cc18cd5},
		{"3ffe:501:8::260:97ff:fe40:efab", "ff02::1", 0x0f0c461c},
	} {
		input := append(netip.MustParseAddr(c.src).AsSlice(), netip.MustParseAddr(c.dst).AsSlice()...)
		if got := toeplitz(input); got != c.want {
			t.Errorf("%s to %s: %#x, want %#x", c.src, c.dst, got, c.want)
		}
	}
}

var some = Costs{ToIB: 30, ToRoCE: 25, HandOver: 20}

// One worker hands nothing over and has no one to share with, however frames are spread.
func TestOneWorker(t *testing.T) {
	for _, s := range []Spread{BySource, ByBoth} {
		p := at(sets(100), 1, s, some)
		near(t, "towards InfiniBand", p.ToIB, 1e3/30, 1e-9)
		near(t, "towards Ethernet", p.ToRoCE, 1e3/25, 1e-9)
		near(t, "handed over", p.Handed, 0, 0)
	}
}

// Spread by source, nothing is handed over, and with many hosts workers have almost as much to do each; with few, they
// have not. Spread by both, all but one of n packets that are not a host's first are handed over.
func TestManyWorkers(t *testing.T) {
	hosts := sets(100_000)
	many := at(hosts, 16, BySource, some)
	near(t, "handed over by source", many.Handed, 0, 0)
	near(t, "many hosts", many.ToIB, 16*1e3/30, 0.05)
	near(t, "many hosts, back", many.ToRoCE, 16*1e3/25, 0.05)
	if few := at(sets(16), 16, BySource, some); few.ToIB > 0.8*many.ToIB || few.ToIB < many.ToIB/16 {
		t.Errorf("16 hosts on 16 workers: %.1f Mpps, 100000: %.1f", few.ToIB, many.ToIB)
	}
	both := at(hosts, 16, ByBoth, some)
	near(t, "handed over by both", both.Handed, 0.75*15/16, 0.05)
	near(t, "by both", both.ToIB, some.Even(16, both.Handed), 0.05)
}

// All that comes in is carried: what workers need together is what the packets cost.
func TestLoadIsWhole(t *testing.T) {
	x := newTraffic(333, 1)
	for _, s := range []Spread{BySource, ByBoth} {
		ns, handed := x.load(7, s, some)
		sum, n := 0.0, float64(nodesPerHost*333)
		for _, v := range ns {
			sum += v
		}
		near(t, "together", sum, n*(some.ToIB+handed*some.HandOver), 1e-9)
	}
}

// The redirection table has 128 entries: of three workers two get 43 of them, the third 42.
func TestQueues(t *testing.T) {
	seen := map[int]int{}
	for i := range uint32(1 << 16) {
		seen[queue(place(private(i)), 3)]++
	}
	if len(seen) != 3 {
		t.Fatalf("%v", seen)
	}
	for q, n := range seen {
		want := 43.0
		if q == 2 {
			want = 42
		}
		near(t, "share", float64(n)/(1<<16), want/128, 0.01)
	}
}

func TestPrint(t *testing.T) {
	defer func(h []int) { Hosts = h }(Hosts)
	Hosts = []int{16, 64}
	var b bytes.Buffer
	if err := Print(&b, ByBoth, Compute(ByBoth, some)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"RoCE to IB, Mpps, cards that spread by source and destination", "of linear", "33.3", "40.0"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}

func near(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if math.Abs(got-want) > tolerance*math.Abs(want)+1e-9 {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}
