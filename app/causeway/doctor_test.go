// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"strings"
	"testing"

	"causeway/app/doctor"
)

func TestDoctor(t *testing.T) {
	file := bridgeIn(t)
	if code, stdout, stderr := try("doctor", file); code != exitOK || stderr != "" || !strings.HasPrefix(stdout, "hugepages ") || strings.Contains(stdout, "ipoib") {
		t.Errorf("the software subnet: exit code %d\n%s%s", code, stdout, stderr)
	}
	if code, stdout, stderr := try("doctor"); code > exitFailed || stderr != "" || !strings.HasPrefix(stdout, "hugepages ") || !strings.Contains(stdout, "\nclock ") {
		t.Errorf("the machine alone: exit code %d\n%s%s", code, stdout, stderr)
	}
	if code, stdout, _ := try("doctor", "-all", file); code != exitOK || !strings.Contains(stdout, "enough open files\n") {
		t.Errorf("all: exit code %d\n%s", code, stdout)
	}
	file = bridgeIn(t, `port = "fabric:DIR/fabric.toml"`, `port = "nosuch_0:1"`)
	code, stdout, stderr := try("doctor", file)
	if code != exitFailed || stderr != "" || !strings.Contains(stdout, "drivers    error    there is no RDMA port nosuch_0:1 here\n"+
		"                    fix: causeway devices # lists the existing ones\n") {
		t.Errorf("no device: exit code %d\n%s%s", code, stdout, stderr)
	}
	code, stdout, _ = try("doctor", "-json", "-netdev", "lo", file)
	var found doctor.Findings
	if err := json.Unmarshal([]byte(stdout), &found); err != nil || code != exitFailed || len(found) < 10 || !found.Errors() || found[0].Group == "" || found[0].Level == "" {
		t.Errorf("exit code %d, %v\n%s", code, err, stdout)
	}
	if code, stdout, _ := try("doctor", "-fixes", "-netdev", "lo", file); code != exitFailed || !strings.Contains(stdout, "\nsysctl -w net.ipv4.conf.lo.proxy_arp=1\n") {
		t.Errorf("exit code %d\n%s", code, stdout)
	}
	for args, want := range map[string]int{"a b": exitUsage, "/nosuch": exitFailed, "-json -fixes " + file: exitFailed} {
		if code, _, stderr := try(append([]string{"doctor"}, strings.Fields(args)...)...); code != want || stderr == "" {
			t.Errorf("doctor %s: exit code %d, want %d; %s", args, code, want, stderr)
		}
	}
}
