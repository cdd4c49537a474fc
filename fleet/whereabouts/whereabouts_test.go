// SPDX-License-Identifier: Apache-2.0

package whereabouts_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"causeway/fleet/whereabouts"
)

// A process of this machine before it started anew has ended, and one of a version that did not tell its machine is found, too.
func TestEndedBefore(t *testing.T) {
	own, err := whereabouts.Of(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Split(own, "/")
	if fields[4] == "" {
		t.Skip("this is a container, or has no machine-id: nobody can know what was here before")
	}
	if ended, err := whereabouts.Ended("another-boot/" + strings.Join(fields[1:], "/")); !ended || err != nil {
		t.Errorf("before this machine started anew: %t, %v", ended, err)
	}
	if ended, err := whereabouts.Ended(strings.Join(fields[:4], "/")); ended || err != nil {
		t.Errorf("this process, as told by a version before: %t, %v", ended, err)
	}
}

func TestEnded(t *testing.T) {
	c := exec.Command("sleep", "60")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	where, err := whereabouts.Of(c.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	if ended, err := whereabouts.Ended(where); ended || err != nil {
		t.Errorf("it runs: %t, %v", ended, err)
	}
	own, err := whereabouts.Of(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Split(own, "/")
	fields[3] = "1"
	another := strings.Join(fields, "/") // which had this process's number
	if ended, err := whereabouts.Ended(another); !ended || err != nil {
		t.Errorf("a process with the number of one that ended: %t, %v", ended, err)
	}
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		ended, err := whereabouts.Ended(where)
		if ended && err == nil {
			break
		}
		if err != nil || time.Now().After(end) {
			t.Fatalf("it was killed, and nobody has waited for it: %t, %v", ended, err)
		}
	}
	_ = c.Wait() // it was killed
	if ended, err := whereabouts.Ended(where); !ended || err != nil {
		t.Errorf("it was killed: %t, %v", ended, err)
	}
	for _, elsewhere := range []string{"", "another-boot/pid:[1]/2/3", "another-boot/pid:[1]/2/3/", "another-boot/pid:[1]/2/3/another-machine", "x/" + own} {
		if ended, err := whereabouts.Ended(elsewhere); ended || err == nil {
			t.Errorf("%q: %t, %v; nobody here can know", elsewhere, ended, err)
		}
	}
}
