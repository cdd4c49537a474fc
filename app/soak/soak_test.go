// SPDX-License-Identifier: Apache-2.0

// Package soak runs bin/causeway for a time, with traffic of many kinds, while everything around it comes, goes and
// fails at random:
//
//	hosts in network namespaces ─ switch ─ veth ─ causeway run ─ its software subnet's socket ─ nodes
//
// A seed decides what happens. It fails when a message is lost that nothing has excused, comes twice, damaged or out of
// order, or in another partition than its sender's; when a packet is not counted; when something grows; or when the bridge does not recover.
package soak

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

var (
	duration = flag.Duration("duration", 20*time.Second, "how long TestSoak has things happen")
	seedFlag = flag.Uint64("seed", 1, "what happens in TestSoak; 0: at random")
	fabrics  = flag.Int("fabrics", 1, "TestSoak's InfiniBand fabrics: 1, or 2, one of which is cut at times")
	segments = flag.Int("segments", 1, "TestSoak's segments of RoCE: 1, or 2, each with a partition, and nothing may cross")
	ports    = flag.Int("ports", 1, "TestSoak's Ethernet ports: 1, or with 2 segments 2, each with one")
	only     = flag.String("only", "", "draw only faults whose names match this `expression`")
)

// built is the folder with the program that was built for the tests; "": none was.
var built string

func TestMain(m *testing.M) {
	code := m.Run()
	if built != "" {
		os.RemoveAll(built)
	}
	os.Exit(code)
}

// program returns the bridge's program, with faults that come from inside of it (testdata/failing_unsafe.go): CAUSEWAY_BIN, or one
// that is built for all tests.
func program(t *testing.T) string {
	t.Helper()
	if bin := os.Getenv("CAUSEWAY_BIN"); bin != "" {
		return bin
	}
	bin, err := buildOnce()
	if err != nil {
		t.Fatal(err)
	}
	return bin
}

var buildOnce = sync.OnceValues(build)

func build() (bin string, err error) {
	dir, err := os.MkdirTemp("", "soak")
	if err != nil {
		return "", err
	}
	built = dir
	run, errRun := filepath.Abs("../causeway/run.go")
	failing, errFailing := filepath.Abs("testdata/failing_unsafe.go")
	text, errText := os.ReadFile(run)
	if err := errors.Join(errRun, errFailing, errText); err != nil {
		return "", err
	}
	const call = "bridge.Build("
	if n := strings.Count(string(text), call); n != 1 {
		return "", fmt.Errorf("%s has %q %d times, want once", run, call, n)
	}
	changed, overlay, bin := filepath.Join(dir, "run.go"), filepath.Join(dir, "overlay.json"), filepath.Join(dir, "causeway")
	replace, err := json.Marshal(map[string]any{"Replace": map[string]string{run: changed, filepath.Join(filepath.Dir(run), filepath.Base(failing)): failing}})
	err = errors.Join(err, os.WriteFile(changed, []byte(strings.Replace(string(text), call, "buildFailing(", 1)), 0o600), os.WriteFile(overlay, replace, 0o600))
	if err != nil {
		return "", err
	}
	if out, err := exec.Command("go", "build", "-buildvcs=false", "-overlay", overlay, "-o", bin, "../causeway").CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the bridge: %w\n%s", err, out)
	}
	return bin, nil
}

func TestSoak(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		if os.Getenv("CI") == "true" {
			t.Fatal("CI must run the soak as root")
		}
		t.Skip("the soak makes network namespaces: run it as root")
	}
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64N(1e9) + 1
	}
	ctx, stop := signal.NotifyContext(t.Context(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	l := layout{*fabrics, *segments, *ports}
	if err := l.check(); err != nil {
		t.Fatal(err)
	}
	repeat := fmt.Sprintf("make soak DURATION=%v SEED=%d %v", *duration, seed, l)
	t.Logf("repeat with: %s", repeat)
	r := newRig(ctx, t, seed, program(t), l)
	r.soak(*duration)
	if ctx.Err() != nil {
		r.fault("interrupted")
	}
	if err := r.finish(); err != nil {
		r.fault("%v", err)
	}
	t.Logf("\n%s", r.report())
	if t.Failed() {
		t.Logf("the bridge logged last:\n%s", lastLines(r.bridge.readLog()))
		t.Logf("FAILED; repeat with: %s", repeat)
	}
}

// soak has rounds happen for a time: something comes or goes, a fault or two at once, a moment of nothing, a check.
func (r *rig) soak(d time.Duration) {
	if err := r.begin(); err != nil {
		r.fault("%v", err)
		return
	}
	services, stop := context.WithCancel(r.ctx)
	defer r.asking.Wait()
	defer stop()
	for _, p := range r.partitions {
		for _, h := range p.hosts {
			r.asking.Go(func() { p.services.run(services, h) })
		}
	}
	for _, c := range r.crossers {
		if !c.in.isNone() {
			r.asking.Go(func() { r.cross(services, c) })
		}
	}
	r.round(fault{name: "the beginning", do: func() error { return nil }})
	for end := time.Now().Add(d); time.Now().Before(end) && r.ctx.Err() == nil && !r.t.Failed(); {
		for range r.random.IntN(3) {
			if err := r.churn(); err != nil && r.ctx.Err() == nil {
				r.fault("%v", err)
			}
		}
		r.settled()
		r.quiet()
		r.round(r.drawn()...)
		r.settled()
	}
	r.quiet()
}

// drawn draws one fault, or two that act on different things.
func (r *rig) drawn() []fault {
	wanted := regexp.MustCompile(*only)
	one := func() (f fault) {
		for f.name == "" || !wanted.MatchString(f.name) || r.bridge.segments > 1 && f.name == secondBridgeComes {
			from := faults
			if r.bridge.fabrics > 1 && r.random.IntN(3) == 0 {
				from = fabricFaults
			}
			if r.bridge.segments > 1 && r.random.IntN(8) == 0 {
				from = partitionFaults
			}
			if r.random.IntN(12) == 0 {
				from = restarts
			}
			f = from[r.random.IntN(len(from))](r)
		}
		return f
	}
	all := []fault{one()}
	if r.random.IntN(2) == 0 && all[0].on != alone {
		if other := one(); other.on != all[0].on && other.on != alone {
			all = append(all, other)
		}
	}
	return all
}

// settled lets traffic flow for a moment in which nothing is excused.
func (r *rig) settled() {
	const each = 20 // messages of a flow
	from := map[*flow]uint64{}
	for _, f := range r.all() {
		from[f] = f.count().arrived
	}
	r.patiently("traffic when nothing happens", func() string {
		for f, was := range from {
			if f.count().arrived < was+each || !f.is(steady) {
				return f.name + " does not arrive"
			}
		}
		return ""
	})
}

// finish ends the flows and the bridge.
func (r *rig) finish() error {
	for _, f := range r.all() {
		r.endFlow(f)
	}
	if r.ctx.Err() != nil || !r.bridge.running() {
		return errors.New("the bridge does not run at the end")
	}
	r.last = r.baseline
	return r.bridge.stop(r.ctx)
}

// note says what happens.
func (r *rig) note(format string, args ...any) {
	r.t.Logf("%8.3f  %s", time.Since(r.began).Seconds(), fmt.Sprintf(format, args...))
}
