// SPDX-License-Identifier: Apache-2.0

package mlx5mem_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// TestDevice runs the C cases on the installed libmlx5, with the address and undefined behaviour sanitizers: once as
// the device is by default, where on x86 it catches doorbells, and once without.
func TestDevice(t *testing.T) {
	program := filepath.Join(t.TempDir(), "selftest")
	files, err := filepath.Glob("*.c")
	if err != nil || len(files) == 0 {
		t.Fatal("no C files: ", err)
	}
	args := append([]string{
		"-std=gnu11", "-Wall", "-Wextra", "-Werror", "-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all",
		"-I../../..", "-o", program, "testdata/selftest.c",
	}, files...)
	if text, err := exec.Command("gcc", append(args, "-lmlx5", "-libverbs")...).CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, text)
	}
	for _, run := range []struct {
		name  string
		args  []string
		cases int
	}{
		{"with traps", nil, 19},
		{"without traps", []string{"without"}, 18},
	} {
		t.Run(run.name, func(t *testing.T) {
			if run.args == nil && runtime.GOARCH != "amd64" {
				t.Skip("needs x86: doorbells are caught by single steps")
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			c := exec.CommandContext(ctx, program, run.args...)
			c.Env = append(os.Environ(), "ASAN_OPTIONS=detect_leaks=0") // libmlx5 keeps some memory of closed devices
			text, err := c.CombinedOutput()
			if n := strings.Count(string(text), ": ok"); err != nil || n != run.cases {
				t.Errorf("%v; %d cases are ok, want %d:\n%s", err, n, run.cases, text)
			}
		})
	}
}
