// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// TestSysfs wants this machine's interfaces.
func TestSysfs(t *testing.T) {
	sys, done, err := OpenSysfs()
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	if err := shows(sys); err != nil {
		t.Error(err)
	}
}

// TestOtherNamespace wants, in a network namespace that /sys does not show, the interfaces of that one.
func TestOtherNamespace(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to make a network namespace")
	}
	ended := make(chan error)
	go func() { ended <- lookFromOther() }()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// lookFromOther moves its thread, which ends with it, to a namespace with two interfaces, and looks around.
func lookFromOther() error {
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return err
	}
	out, err := exec.Command("ip", "link", "add", "here0", "mtu", "4200", "type", "veth", "peer", "name", "here1").CombinedOutput()
	if err != nil {
		return fmt.Errorf("ip: %w: %s", err, out)
	}
	if err := shows(os.DirFS("/sys")); err == nil {
		return errors.New("/sys passes for this namespace's")
	}
	sys, done, err := OpenSysfs()
	if err != nil {
		return err
	}
	defer done()
	var names []string
	for _, e := range ReadMachine(sys).Ethernet {
		if e.Netdev == "here0" && (e.MTU != 4200 || e.Link != "down") {
			return fmt.Errorf("here0 is %+v", e)
		}
		if e.Netdev != "" {
			names = append(names, e.Netdev)
		}
	}
	if want := []string{"here0", "here1"}; !slices.Equal(names, want) {
		return fmt.Errorf("interfaces %q, want %q", names, want)
	}
	return nil
}
