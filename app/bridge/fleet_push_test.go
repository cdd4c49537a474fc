// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"causeway/config"
	"causeway/fleet/etcd"
	"causeway/ibside"
)

// pushedFile is a member's whose fleet shares the rest.
const pushedFile = "[roce]\nport = \"ring\"\naddresses = [\"10.9.0.254/24\"]\n[ib]\nport = \"fabric:\"\n[policy]\nallow = [\"10.9.0.0/24\"]\n" +
	"[fleet]\nname = \"east\"\netcd = [\"http://127.0.0.1:1\"]\nconfiguration = \"etcd\"\n"

// loadPushed loads it from a folder.
func loadPushed(t *testing.T, dir string) *config.Config {
	t.Helper()
	path := filepath.Join(dir, "bridge.toml")
	err := os.WriteFile(path, []byte(pushedFile), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// TestFailedPush: a configuration that the bridge cannot have is not followed: a reload of the file means what it did before.
func TestFailedPush(t *testing.T) {
	was := loadPushed(t, t.TempDir())
	c := newConfiguration(was, nil, slog.New(slog.DiscardHandler))
	c.checkPorts = func([]ibside.PortRange) error { return errors.New("no room") }
	p := &pushes{inForce: c, log: slog.New(slog.DiscardHandler)}
	p.follows.Store(&etcd.Configuration{})
	p.follow(t.Context(), &etcd.Configuration{Version: 4, Text: "[policy]\nallow = [\"10.8.0.0/15\"]\n"})
	if !strings.Contains(p.says.Failed, "no room") || p.says.Tried != 4 || p.follows.Load().Version != 0 || c.Config() != was {
		t.Errorf("it says %+v, follows %+v", p.says, p.follows.Load())
	}
	if now, err := p.reloaded(was); err != nil || now != was {
		t.Errorf("a reload is of %v, %v", now, err)
	}
}

// TestStartWith starts without etcd: with what was kept of the fleet's configuration, with nothing of it, and not at all with what
// no bridge has kept.
func TestStartWith(t *testing.T) {
	for _, c := range []struct{ name, kept, allow, fails string }{
		{"kept", `{"version":4,"text":"[policy]\nallow = [\"10.8.0.0/15\"]\n"}`, "10.8.0.0/15", ""},
		{"nothing", "", "10.9.0.0/24", ""},
		{"damaged", "{", "", "is not what a bridge has kept of its fleet's configuration"},
		{"not for this member", `{"version":4,"text":"[[roce]]\nvlan = 7\n"}`, "", "bridge.toml with configuration 4 of fleet east: roce vlan 7: the member's file has no segment"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			kept := filepath.Join(dir, "pushed.json")
			if c.kept != "" {
				if err := os.WriteFile(kept, []byte(c.kept), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			to, shared, err := StartWith(t.Context(), loadPushed(t, dir), kept, slog.New(slog.DiscardHandler))
			switch {
			case c.fails != "":
				if err == nil || !strings.Contains(err.Error(), c.fails) {
					t.Errorf("it fails with %v", err)
				}
			case err != nil:
				t.Error(err)
			case to.Policy.Allow[0].String() != c.allow || shared.File != kept || (shared.Version == 4) != (c.kept != ""):
				t.Errorf("it starts with version %d of %s, and %v", shared.Version, shared.File, to.Policy.Allow)
			}
		})
	}
}
