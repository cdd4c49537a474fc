// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"causeway/fleet/etcd"
	"causeway/fleet/etcd/etcdtest"
	"causeway/fleet/lease"
)

// TestResignOff: an operator says that a bridge of another machine has ended, unless that one still renews its lease.
func TestResignOff(t *testing.T) {
	url, _ := etcdtest.Start(t)
	client, err := etcd.Dial(etcd.Config{Endpoints: []string{url}})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	store := etcd.New(client, "east")
	m1 := lease.Record{Member: "m1", Process: 7, Claim: 1, Where: "another-boot/pid:[1]/2/3"}
	renew := func() {
		t.Helper()
		m1.Renewals++
		if err := store.Renew(t.Context(), m1); err != nil {
			t.Fatal(err)
		}
	}
	renew()
	file := filepath.Join(t.TempDir(), "causeway.toml")
	text := fmt.Sprintf("[bridge]\nname = \"m2\"\n[roce]\nport = \"ring\"\naddresses = [\"10.9.0.252/24\"]\n[ib]\nport = \"fabric:\"\n[policy]\nallow = [\"10.9.0.0/24\"]\n"+
		"[fleet]\nname = \"east\"\netcd = [%q]\nlease_ms = 500\n", url)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	resign := func(name string, code int, want string) {
		t.Helper()
		got, stdout, stderr := try("fleet", "resign", "-c", file, "-off", name)
		if got != code || !strings.Contains(stdout+stderr, want) {
			t.Errorf("%s: exit code %d\n%s%s", name, got, stdout, stderr)
		}
	}
	resign("m9", exitFailed, "has never had a member m9")
	timer := time.AfterFunc(100*time.Millisecond, renew)
	resign("m1", exitFailed, "m1 runs; stop it first")
	timer.Stop()
	resign("m1", exitOK, "m1 has ended; the fleet east knows.")
	if last, found, err := store.Record(t.Context(), "m1"); err != nil || !found || !last.Ended {
		t.Errorf("%+v, %t, %v", last, found, err)
	}
}
