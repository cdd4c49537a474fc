// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"strings"
	"testing"

	"causeway/app/doctor"
)

// TestDevices checks that this machine's ports, whatever they are, are listed as a table and as JSON.
func TestDevices(t *testing.T) {
	code, stdout, stderr := try("devices")
	if code != exitOK || stderr != "" || !strings.HasPrefix(stdout, "RDMA ports") || !strings.Contains(stdout, "\nEthernet ports") {
		t.Errorf("exit code %d\n%s%s", code, stdout, stderr)
	}
	code, stdout, stderr = try("devices", "-json")
	var m doctor.Machine
	if err := json.Unmarshal([]byte(stdout), &m); err != nil || code != exitOK || stderr != "" || m.RDMA == nil || m.Ethernet == nil {
		t.Errorf("exit code %d, %v\n%s%s", code, err, stdout, stderr)
	}
}

// TestCheckHere checks that a valid file is rejected on a machine without its ports, and only with -here.
func TestCheckHere(t *testing.T) {
	file := bridgeIn(t, `port = "ring"`, `port = "af_packet:nosuch0"`, `port = "fabric:DIR/fabric.toml"`, `port = "nosuch_0:1"`)
	if code, stdout, stderr := try("check", file); code != exitOK || stderr != "" || !strings.HasSuffix(stdout, file+": ok: 1 host, 1 group\n") {
		t.Errorf("check: exit code %d\n%s%s", code, stdout, stderr)
	}
	code, stdout, stderr := try("check", "-here", file)
	lines := strings.SplitAfter(stderr, "\n")
	if code != exitFailed || len(lines) != 3 || strings.Contains(stdout, "ok") ||
		!strings.HasPrefix(lines[0], "config: "+file+`:4: roce: port "af_packet:nosuch0": there is no interface nosuch0 here; there `) ||
		!strings.HasPrefix(lines[1], "config: "+file+`:8: ib: port "nosuch_0:1": there is no RDMA device nosuch_0 here`) {
		t.Errorf("check -here: exit code %d\n%s%s", code, stdout, stderr)
	}
	file = bridgeIn(t)
	code, stdout, stderr = try("check", "-here", file)
	if code != exitOK || stderr != "" || stdout != file+": ok: 1 host, 1 group; suits this machine\n" {
		t.Errorf("check -here: exit code %d\n%s%s", code, stdout, stderr)
	}
}
