// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// What is told of 16 workers comes from figures that were measured, and these are told beside it.
func TestScale(t *testing.T) {
	if runtime.NumCPU() < 2 {
		t.Skip("needs two CPUs, one a worker")
	}
	file := filepath.Join(t.TempDir(), "scale.json")
	stdout, stderr, err := program(t, "scale -reps 1 -window 2ms -json "+file)
	if err != nil {
		t.Fatalf("%v\n%s", err, stderr)
	}
	for _, want := range []string{
		"two workers, Mpps", "50 % handed over", "RoCE to IB, Mpps, cards that spread by source\n", "IB to RoCE, Mpps, cards that spread by source and destination\n",
	} {
		if !strings.Contains(stdout, want) {
			t.Errorf("no %q in\n%s", want, stdout)
		}
	}
	var x scaling
	b, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(b, &x)
	}
	if err != nil {
		t.Fatal(err)
	}
	if x.Costs.ToIB <= 0 || x.Costs.ToRoCE <= 0 || x.Costs.ToIB != x.Two[0].AloneNS || len(x.Handed) != 3 || len(x.Points[1]) != len(x.Points[0]) {
		t.Errorf("%+v", x)
	}
	if first := x.Points[0][0]; first.Workers != 1 || first.ToIB*x.Costs.ToIB < 999 || first.ToIB*x.Costs.ToIB > 1001 {
		t.Errorf("one worker: %+v, of %+v", first, x.Costs)
	}
	if _, stderr, err := program(t, "scale -reps 0"); err == nil || !strings.Contains(stderr, "at least one reading") {
		t.Errorf("%v: %s", err, stderr)
	}
}
