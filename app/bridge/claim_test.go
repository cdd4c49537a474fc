// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"causeway/config"
)

// claimant is a bridge that wants an interface.
type claimant struct {
	cfg *config.Config
	teardown
}

// ownClaims gives a test a folder of its own.
func ownClaims(t *testing.T) (folder string) {
	t.Helper()
	real := claimFolder
	t.Cleanup(func() { claimFolder = real })
	claimFolder = filepath.Join(t.TempDir(), "run", "ports")
	return claimFolder
}

func (c *claimant) claim() error { return claimVLAN(c.cfg.RoCE.Port, c.cfg.RoCE.VLAN, &c.teardown) }

// TestClaimPort checks that only one of two bridges in one process gets an interface.
func TestClaimPort(t *testing.T) {
	ownClaims(t)
	const own = "eth1"
	with := func(driver, arg string, vlan uint16) *claimant {
		cfg := &config.Config{}
		cfg.RoCE.Port, cfg.RoCE.VLAN = config.EthPort{Driver: driver, Arg: arg}, vlan
		return &claimant{cfg: cfg}
	}
	first := with("af_packet", own, 0)
	if err := first.claim(); err != nil {
		t.Fatal(err)
	}
	for _, second := range []*claimant{
		with("af_packet", own, 0), with("tap", "new0,remote="+own, 0), with("bond", "lacp,af_packet:free,af_packet:"+own, 0),
	} {
		defer func() {
			if err := second.run(); err != nil {
				t.Error(err)
			}
		}()
		err := second.claim()
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("another causeway (process %d) has it", os.Getpid())) {
			t.Errorf("%v: %v", second.cfg.RoCE.Port, err)
		}
	}
	for _, other := range []*claimant{
		with("af_packet", own, 7), with("af_packet", own+"b", 0), with("tap", own, 0), with("tap", own, 0), with("ring", "", 0), with("memif", own, 0),
	} {
		if err := other.claim(); err != nil {
			t.Error(err)
		}
		defer func() {
			if err := other.run(); err != nil {
				t.Error(err)
			}
		}()
	}
	if err := first.run(); err != nil {
		t.Error(err)
	}
	again := with("af_packet", own, 0)
	if err := again.claim(); err != nil {
		t.Errorf("after the first has ended: %v", err)
	}
	if err := again.run(); err != nil {
		t.Error(err)
	}
}

func onEth1() *claimant {
	cfg := &config.Config{}
	cfg.RoCE.Port = config.EthPort{Driver: "af_packet", Arg: "eth1"}
	return &claimant{cfg: cfg}
}

// TestClaimOfDead checks that the file of a process that was killed is in nobody's way, nor one that is empty.
func TestClaimOfDead(t *testing.T) {
	folder := ownClaims(t)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	name, err := claimName(onEth1().cfg.RoCE.Port, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"", "12345678\n"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		c := onEth1()
		if err := c.claim(); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(filepath.Join(folder, name)); err != nil || string(got) != fmt.Sprintf("%d\n", os.Getpid()) {
			t.Errorf("the file has %q, %v", got, err)
		}
		if err := c.run(); err != nil {
			t.Error(err)
		}
		if left, _ := os.ReadDir(folder); len(left) != 0 {
			t.Errorf("it has left %v", left)
		}
	}
}

// TestClaimFolder checks that a folder in which others could take the port is rejected.
func TestClaimFolder(t *testing.T) {
	folder := ownClaims(t)
	parent := filepath.Dir(folder)
	for _, c := range []struct {
		name string
		make func() error
		want string
	}{
		{"written by all", func() error { return errors.Join(os.MkdirAll(folder, 0o755), os.Chmod(folder, 0o777)) },
			"the folder " + folder + " can be written by others than its owner, who could take the port; chmod go-w " + folder},
		{"written by a group", func() error { return os.Chmod(folder, 0o775) }, "chmod go-w " + folder},
		{"in one that all can write", func() error { return errors.Join(os.Chmod(folder, 0o755), os.Chmod(parent, 0o777)) }, "chmod go-w " + parent},
		{"right", func() error { return os.Chmod(parent, 0o750) }, ""},
		{"a link", func() error { return errors.Join(os.Remove(folder), os.Symlink("/tmp", folder)) }, folder + " is not a folder; remove it"},
		{"a file", func() error { return errors.Join(os.Remove(folder), os.WriteFile(folder, nil, 0o600)) }, "mkdir " + folder + ": not a directory"},
	} {
		if err := c.make(); err != nil {
			t.Fatal(err)
		}
		x := onEth1()
		err := x.claim()
		if c.want == "" && err == nil {
			if err := x.run(); err != nil {
				t.Error(err)
			}
			continue
		}
		const who = "bridge: [roce] port af_packet:eth1: claim it: "
		if err == nil || !strings.HasPrefix(err.Error(), who) || !strings.HasSuffix(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %s", c.name, err, c.want)
		}
	}
}

// TestClaimSquatted has another user try to lock the file: it does not get it.
func TestClaimSquatted(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: another user")
	}
	folder := ownClaims(t)
	c := onEth1()
	if err := c.claim(); err != nil {
		t.Fatal(err)
	}
	for at := folder; at != "/tmp" && at != "/"; at = filepath.Dir(at) {
		if err := os.Chmod(at, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	files, err := os.ReadDir(folder)
	if err != nil || len(files) != 1 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, try := range []string{"flock --shared " + filepath.Join(folder, files[0].Name()) + " true", "touch " + folder + "/eth2.0.1"} {
		out, err := exec.Command("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "sh", "-c", try).CombinedOutput()
		if err == nil || !strings.Contains(string(out), "denied") {
			t.Errorf("%s: %v: %s", try, err, out)
		}
	}
	if err := c.run(); err != nil {
		t.Error(err)
	}
}

// TestClaimRace has many claim and leave at once: the file of one that has left while another opened it is nobody's, or
// that one and the next would both have the port.
func TestClaimRace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "eth1")
	var holders, claims, twice atomic.Int32
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 2000 {
				f, err := lockFile(path)
				if errors.Is(err, unix.EWOULDBLOCK) {
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				if claims.Add(1); holders.Add(1) > 1 {
					twice.Add(1)
				}
				runtime.Gosched()
				holders.Add(-1)
				if err := errors.Join(os.Remove(path), f.Close()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if claims.Load() == 0 || twice.Load() > 0 {
		t.Errorf("of %d claims %d were another's, too", claims.Load(), twice.Load())
	}
}
