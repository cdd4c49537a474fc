// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestFleetPlan divides the work among three bridges, of which one then goes.
func TestFleetPlan(t *testing.T) {
	plan := func(args ...string) planReport {
		t.Helper()
		code, stdout, stderr := try(append([]string{"fleet", "plan", "-json", "-member", "a", "-member", "b", "-member", "c:2"}, args...)...)
		var r planReport
		if err := json.Unmarshal([]byte(stdout), &r); err != nil || code != exitOK || stderr != "" {
			t.Fatalf("exit code %d, %v\n%s%s", code, err, stdout, stderr)
		}
		return r
	}
	host := []string{"-host", "02:00:00:00:00:01", "-group", "ff12:401b:ffff::1"}
	before := plan(host...)
	if m := before.Members; len(m) != 3 || m[0].Hosts != 16 || m[2].Hosts != 32 || m[1].Groups != 1024 || m[2].Groups != 2048 || len(m[0].Successors) != 2 {
		t.Errorf("%+v", before)
	}
	gone := before.Keys[0].Owner
	after := plan(append(host, "-gone", gone)...)
	if len(after.Members) != 2 || after.Moved != 0 || after.Keys[0].Owner != before.Keys[0].Successor || after.Keys[0].Shard != before.Keys[0].Shard {
		t.Errorf("%s goes: %+v, then %+v", gone, before, after)
	}
	code, stdout, _ := try("fleet", "plan", "-member", "a", "-member", "b", "-host", "02:00:00:00:00:01", "-gone", "b")
	if code != exitOK || !strings.Contains(stdout, "MEMBER") || !strings.Contains(stdout, "0 shards moved") || !strings.Contains(stdout, "02:00:00:00:00:01  host/") {
		t.Errorf("exit code %d\n%s", code, stdout)
	}
}

// TestFleetPlanMistakes: each is one line that says what to do.
func TestFleetPlanMistakes(t *testing.T) {
	for line, want := range map[string]string{
		"fleet":                                  "is nothing of a fleet",
		"fleet plan":                             "no member has a weight",
		"fleet plan a":                           "say plan, rehearse or resign",
		"fleet plan -member a:x":                 "is no weight; write NAME:WEIGHT",
		"fleet plan -member a -member a":         "two members are called a",
		"fleet plan -member a -gone b":           "there is no -member b",
		"fleet plan -member a -gone a":           "no member has a weight",
		"fleet rehearse":                         "say -name NAME",
		"fleet rehearse -name a":                 "etcd is missing",
		"fleet rehearse -name a -etcd 10.0.0.1":  "is no URL of a server",
		"fleet rehearse -name a -etcd https://a": "there is no ca",
		"fleet rehearse -name a -etcd http://a -ca /nosuch -cert a":      "cert and key go together",
		"fleet rehearse -name a -etcd http://a -ca /nosuch -lease 100ms": "a lease of 100ms is out of range; use 200 to 60000 ms",
		"fleet rehearse -name a -etcd http://a -ca /nosuch -fleet a/b":   "is not a fleet's",
		"fleet plan -member a -host 1":                                   "write it as 02:00:00:00:00:01",
		"fleet plan -member a -group 239.1.1.1x":                         "239.1.1.1x",
	} {
		code, stdout, stderr := try(strings.Fields(line)...)
		if code != exitUsage || stdout != "" || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit code %d\n%s%s", line, code, stdout, stderr)
		}
	}
}
