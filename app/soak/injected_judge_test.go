// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
)

// caught takes what the flows have noticed, and lets them begin anew.
func (r *rig) caught() (all []string) {
	for _, f := range r.all() {
		f.mu.Lock()
		all = append(all, f.faults...)
		f.faults = nil
		f.mu.Unlock()
	}
	return all
}

// TestInjectedJudge has a bridge lose, double and reorder messages, leak, and miscount, one after the other, with
// nothing excused: the soak notices each. A soak that notices nothing would pass with any bridge.
func TestInjectedJudge(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("the soak makes network namespaces: run it as root")
	}
	r := newRig(t.Context(), t, 1, program(t), layout{1, 1, 1})
	if err := r.begin(); err != nil {
		t.Fatal(err)
	}
	r.settled()
	r.quiet()
	defer func() { // what is caught is meant to be
		for _, f := range r.all() {
			f.shake(false)
		}
		r.caught()
	}()
	for _, direction := range []string{"roce_to_ib", "ib_to_roce"} {
		for fault, want := range map[string]string{"drop": "is lost", "duplicate": "has arrived again", "reorder": " after message "} {
			t.Run(fault+" "+direction, func(t *testing.T) { r.spoil(t, direction, fault, want) })
		}
	}
	t.Run("leak", r.spoilUsage)
	t.Run("miscount", r.spoilCounts)
}

// spoil has the bridge do something to some messages, and waits until a flow complains.
func (r *rig) spoil(t *testing.T, direction, fault, want string) {
	if _, err := r.bridge.ctl(r.ctx, "set", "injection", direction, fault, "10%"); err != nil {
		t.Fatal(err)
	}
	var all []string
	err := await(r.ctx, "a complaint", func() bool {
		all = append(all, r.caught()...)
		return slices.ContainsFunc(all, func(f string) bool { return strings.Contains(f, want) })
	})
	if err != nil {
		t.Errorf("%v: %q of %q", err, want, all)
	}
	if _, err := r.bridge.ctl(r.ctx, "clear", "injection"); err != nil {
		t.Fatal(err)
	}
	for _, f := range r.all() {
		f.setPaused(true)
		f.shake(false)
	}
	if err := await(r.ctx, "quiet", func() bool { return !slices.ContainsFunc(r.all(), func(f *flow) bool { return !f.idle() }) }); err != nil {
		t.Fatal(err)
	}
	for _, f := range r.all() {
		f.probe()
		f.setPaused(false)
	}
	r.caught()
	if err := await(r.ctx, "traffic", func() bool { return !slices.ContainsFunc(r.all(), func(f *flow) bool { return !f.is(steady) }) }); err != nil {
		t.Fatal(err)
	}
}

// spoilUsage has the bridge keep descriptors and goroutines, for clients that stay.
func (r *rig) spoilUsage(t *testing.T) {
	for range 4 * moreDescriptors { // as the bridge may have closed some others since
		c, err := net.Dial("unix", r.bridge.file("console.sock"))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := fmt.Fprintln(c, "show status"); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Read(make([]byte, 1)); err != nil { // it is served
			t.Fatal(err)
		}
	}
	says(t, r.grown(), "file descriptors")
}

// spoilCounts has one frame be counted by the kernel alone, and one by the bridge alone.
func (r *rig) spoilCounts(t *testing.T) {
	for _, f := range r.all() {
		f.setPaused(true)
	}
	says := func(want string) {
		t.Helper()
		last := ""
		if err := await(r.ctx, "a complaint", func() bool {
			last = r.uncounted()
			return want == "" && last == "" || want != "" && strings.Contains(last, want)
		}); err != nil {
			t.Errorf("%v: it says %q, want %q", err, last, want)
		}
	}
	says("")
	r.baseline.port.in++
	says("frames in, the bridge")
	r.baseline.port.in--
	r.baseline.port.out--
	says("frames out, the bridge")
	r.baseline.port.out++
	says("")
}
