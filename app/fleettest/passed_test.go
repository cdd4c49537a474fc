// SPDX-License-Identifier: Apache-2.0

package fleettest

import (
	"strings"
	"testing"
)

const (
	saidOfFleet = `members:
MEMBER     STATE       WEIGHT  HOST SHARDS  GROUP SHARDS  GID                       FOLLOWS  HEARD
m1 (this)  takes part     100           1          1365  fe80::aa9:8b07:b550:9b6b       18   52ms
m2         takes part     100           1          1366  fe80::aa9:8c07:b550:9d1e       18   52ms
The fleet is test, and its assignment number 18. This bridge has 1 host and 1365
group shards open.
`
	saidOfShards = `shards:
SHARD   MAC                OWNER  SUCCESSOR  HERE  PINNED TO
host/0  36:00:00:00:00:00  m1     m2         open
host/1  36:00:00:00:00:01  m2     m1
`
)

func TestPassed(t *testing.T) {
	for name, x := range map[string]struct {
		fleet, shards [2]string // replaced
		want          bool
	}{
		"all":                      {want: true},
		"without a GID":            {fleet: [2]string{"fe80::aa9:8b07:b550:9b6b", ""}, want: true},
		"a group's is open still":  {fleet: [2]string{"1365\ngroup", "1366\ngroup"}},
		"one is to pass":           {fleet: [2]string{"open.", "open. Shards pass: m1 to m2 1."}},
		"a host's is open still":   {shards: [2]string{"m2     m1", "m2     m1         open"}},
		"a host's is not open yet": {shards: [2]string{"open", ""}},
		"there is no assignment":   {fleet: [2]string{"m1 (this)", "m1"}},
	} {
		fleet, shards := strings.Replace(saidOfFleet, x.fleet[0], x.fleet[1], 1), strings.Replace(saidOfShards, x.shards[0], x.shards[1], 1)
		if got := Passed("m1", fleet, shards); got != x.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
