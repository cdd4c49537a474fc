// SPDX-License-Identifier: Apache-2.0

package condition

import (
	"os"
	"slices"
	"strings"
	"testing"

	"causeway/lcore"
)

func drop(t *testing.T, name string) lcore.Drop {
	t.Helper()
	d, known := lcore.DropNamed(name)
	if !known {
		t.Fatalf("no drop %q", name)
	}
	return d
}

// TestDropping checks which shares of drops are remarked, and that what is meant is no loss.
func TestDropping(t *testing.T) {
	type drops map[string]uint64
	for _, c := range []struct {
		name     string
		received uint64
		drops    drops
		want     []string
	}{
		{"nothing came", 0, nil, nil},
		{"all crossed", 1000, nil, nil},
		{"less than half", 1000, drops{"acl": 499}, nil},
		{"half", 1000, drops{"acl": 500}, []string{`50% of what comes roce_to_ib is dropped: acl 50%; "show drops" says what each means`}},
		{"the three most frequent", 1000, drops{"acl": 100, "node_unknown": 500, "mc_unknown": 300, "icrc": 1},
			[]string{`90% of what comes roce_to_ib is dropped: node_unknown 50%, mc_unknown 30%, acl 10%; "show drops" says what each means`}},
		{"meant", 1000, drops{"standby_port": 900, "duplicate": 50, "injected": 50}, nil},
		{"few", 19, drops{"acl": 19}, nil},
	} {
		was, now := lcore.Counters{}, lcore.Counters{}
		for d := range now.Direction {
			was.Direction[d].Drops, now.Direction[d].Drops = map[lcore.Drop]uint64{}, map[lcore.Drop]uint64{}
		}
		was.Direction[0].Received, now.Direction[0].Received = 70, 70+c.received
		for name, n := range c.drops {
			was.Direction[0].Drops[drop(t, name)], now.Direction[0].Drops[drop(t, name)] = 7, 7+n
		}
		if got := Dropping(&was, &now); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	was := lcore.Counters{}
	was.Direction[0].Received = 1000
	if got := Dropping(&was, &lcore.Counters{}); got != nil {
		t.Errorf("the counters have been reset: %q", got)
	}
}

// TestMeant checks that the alert by the share of drops leaves the same reasons out.
func TestMeant(t *testing.T) {
	for _, name := range Meant {
		drop(t, name)
	}
	rules, err := os.ReadFile("../../docs/alerts/causeway.rules.yml")
	if err != nil {
		t.Fatal(err)
	}
	if want := `{reason!~"` + strings.Join(Meant, "|") + `"}`; !strings.Contains(string(rules), want) {
		t.Errorf("no alert leaves out %s", want)
	}
}
