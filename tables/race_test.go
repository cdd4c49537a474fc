// SPDX-License-Identifier: Apache-2.0

package tables

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// sanitizers are the builds of testdata/race.c. gcc warns that ThreadSanitizer does not know the fence in
// rte_rcu_qsbr_thread_online; no ordering here rests on that fence alone, hence -Wno-tsan. -fno-builtin: a memcpy that
// gcc expands itself is not checked. No report is suppressed.
var sanitizers = []struct {
	name  string
	flags []string
}{
	{"thread", []string{"-fsanitize=thread", "-fno-builtin", "-O1", "-g", "-Wno-tsan"}},
	{"address,undefined", []string{"-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-O1", "-g"}},
	{"none", []string{"-O3"}},
}

// dpdk returns what a C program on DPDK is compiled and linked with.
var dpdk = sync.OnceValues(func() ([]string, error) {
	out, err := exec.Command("pkg-config", "--cflags", "--libs", "libdpdk").Output()
	if err != nil {
		return nil, fmt.Errorf("pkg-config libdpdk: %w; install the DPDK development package", err)
	}
	return strings.Fields(string(out)), nil
})

func gcc(t testing.TB, args ...string) {
	t.Helper()
	libraries, err := dpdk()
	if err != nil {
		t.Fatal(err)
	}
	args = append(append([]string{"-std=gnu11", "-Wall", "-Wextra", "-Werror", "-I."}, args...), libraries...)
	if out, err := exec.Command("gcc", append(args, "-lpthread")...).CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
}

// object compiles a C program of testdata, and returns the path of what compile links.
func object(t testing.TB, program string, flags ...string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "program.o")
	gcc(t, append(flags, "-c", "-o", out, filepath.Join("testdata", program))...)
	return out
}

// compile links an object with table.c, which may have been changed, and returns the program's path.
func compile(t testing.TB, object, tableC string, flags ...string) string {
	t.Helper()
	dir := t.TempDir()
	source, out := filepath.Join(dir, "table.c"), filepath.Join(dir, "program")
	if err := os.WriteFile(source, []byte(tableC), 0o600); err != nil {
		t.Fatal(err)
	}
	gcc(t, append(flags, "-o", out, object, source)...)
	return out
}

func runProgram(t testing.TB, path string, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, path, args...)
	c.Env = append(os.Environ(), "TSAN_OPTIONS=halt_on_error=1 exitcode=66", "UBSAN_OPTIONS=print_stacktrace=1")
	b, err := c.CombinedOutput()
	return string(b), err
}

func readSource(t testing.TB, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestReadersAndWriter runs one writer against three readers under the sanitizers.
func TestReadersAndWriter(t *testing.T) {
	for _, s := range sanitizers {
		t.Run(s.name, func(t *testing.T) {
			out, err := runProgram(t, compile(t, object(t, "race.c", s.flags...), readSource(t, "table.c"), s.flags...))
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			t.Log(out)
			if n := strings.Count(out, "buckets"); n != 4 {
				t.Errorf("%d rounds of 4 reported how they ended", n)
			}
		})
	}
}

// TestReadersNotice breaks table.c in one place at a time: the run that found nothing must then find it.
func TestReadersNotice(t *testing.T) {
	source := readSource(t, "table.c")
	race := make([]string, len(sanitizers))
	for i, s := range sanitizers {
		race[i] = object(t, "race.c", s.flags...)
	}
	for _, m := range []struct {
		what, old, new string
		sanitizer      int
	}{
		{"a replacement is published without release",
			"__atomic_store_n(&p.bucket->index[p.lane], slot, __ATOMIC_RELEASE)",
			"__atomic_store_n(&p.bucket->index[p.lane], slot, __ATOMIC_RELAXED)", 0},
		{"a new array is published without release",
			"__atomic_store_n(&t->array, array, __ATOMIC_RELEASE)",
			"__atomic_store_n(&t->array, array, __ATOMIC_RELAXED)", 0},
		{"a slot is used again before readers are quiescent",
			"if (!rte_rcu_qsbr_check(w->rcu, r->token, false))", "if (0)", 0},
		{"the same, detected only by the readers' check words",
			"if (!rte_rcu_qsbr_check(w->rcu, r->token, false))", "if (0)", 2},
		{"an old array is freed before readers are quiescent",
			"if (rte_rcu_qsbr_check(w->rcu, w->arrays[i].token, false))", "if (1)", 0},
		{"a key outside its home bucket is not counted there", "add_further(p, 1)", "(void)p", 2},
		{"a change is not undone", "undo(&changes[--i])", "i -= i > 1 ? 1 : (undo(changes), 1)", 2},
	} {
		t.Run(m.what, func(t *testing.T) {
			broken := strings.Replace(source, m.old, m.new, 1)
			if broken == source {
				t.Fatalf("table.c has no %q any more: break it elsewhere", m.old)
			}
			program := compile(t, race[m.sanitizer], broken, sanitizers[m.sanitizer].flags...)
			const tries = 40 // a race does not show in each try; most do in the first
			for range tries {
				if out, err := runProgram(t, program); err != nil {
					t.Log(firstLines(out, 3))
					return
				}
			}
			t.Error("went unnoticed")
		})
	}
}

func firstLines(s string, n int) string {
	lines := strings.SplitN(strings.TrimLeft(s, "=\n"), "\n", n+1)
	return strings.Join(lines[:min(n, len(lines))], "\n")
}
