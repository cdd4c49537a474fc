// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"context"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// portC is the part of the port's C that needs only those functions of libibverbs that testdata/mock.c has fakes of.
var portC = []string{"post.c", "poll.c", "portable.c", "ah.c", "qp.c", "setup.c", "sleep.c", "direct.c", "direct_post.c", "direct_poll.c"}

// casesC are the cases, and the device.
var casesC = []string{"testdata/cases.c", "testdata/mock.c", "testdata/rings.c"}

// gccOrdered compiles for the device of testdata, which looks at what has been stored at each barrier.
func gccOrdered(t *testing.T, args ...string) {
	t.Helper()
	gcc(t, append([]string{"-Itestdata", `-DDIRECT_ORDER="order.h"`}, args...)...)
}

var dpdkFlags = sync.OnceValues(func() ([]string, error) {
	flags, err := exec.Command("pkg-config", "--cflags", "--libs", "libdpdk").Output()
	return strings.Fields(string(flags)), err
})

// gcc compiles with the processor's barriers.
func gcc(t testing.TB, args ...string) {
	t.Helper()
	flags, err := dpdkFlags()
	if err != nil {
		t.Fatalf("pkg-config libdpdk: %v; install the DPDK development package", err)
	}
	args = append(append([]string{"-std=gnu11", "-Wall", "-Wextra", "-I.", "-I../.."}, args...), flags...)
	if text, err := exec.Command("gcc", args...).CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, text)
	}
}

// change writes a copy of one of the port's files in which changed replaces old, and returns its path.
func change(t *testing.T, file, old, changed string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if n := strings.Count(string(text), old); err != nil || n != 1 {
		t.Fatalf("%s has %q %d times (%v), want once", file, old, n, err)
	}
	out := filepath.Join(t.TempDir(), file)
	if err := os.WriteFile(out, []byte(strings.Replace(string(text), old, changed, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	return out
}

func runCases(t *testing.T, program string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, program)
	c.Env = append(os.Environ(), "ASAN_OPTIONS=detect_leaks=0") // the EAL keeps memory; mbufs are counted
	text, err := c.CombinedOutput()
	return string(text), err
}

// TestWithoutDevice runs the C side, with the address and undefined behaviour sanitizers, on a fake device, for what the
// installed libmlx5 does not show on the device made of memory.
func TestWithoutDevice(t *testing.T) {
	program := filepath.Join(t.TempDir(), "cases")
	gccOrdered(t, slices.Concat([]string{"-Werror", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-o", program},
		casesC, portC)...)
	out, err := runCases(t, program)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if n := strings.Count(out, ": ok"); n != 9 {
		t.Errorf("%d cases are ok, want 9:\n%s", n, out)
	}
	t.Run("one queue pair alone", udWithoutDevice)
}

// breaks are places in which the port can be broken, and only the fake device shows it.
var breaks = []struct{ what, file, old, changed string }{
	{"late completions count", "poll.c", "n == 0 ||", "0 &&"},
	{"a lost completion queue is an empty one", "poll.c", "if (likely(got >= 0))", "if (1)"},
	{"a thread domain stays", "setup.c", "\tibv_dealloc_td(w->td);\n}", "}"},
	{"the receive queue is in the thread domain", "setup.c", "ibv_create_srq(w->dev->pd,", "ibv_create_srq(w->pd,"},
	{"a record is before its requests", "direct_post.c", "\tdirect_requests_before_records();\n", ""},
	{"bells are not after their records", "direct_post.c", "\tdirect_records_before_bells();\n", ""},
	{"a bell is not flushed", "direct_post.c", "\tdirect_flush_bell(b->reg + b->offset);\n", ""},
	{"old bytes stay in a request", "direct_post.c", "\tc->dci_stream_channel_id = 0;\n", ""},
	{"the buffers' record is before them", "direct_poll.c", "\tdirect_buffers_before_record();\n", ""},
	{"payload in a completion counts", "direct_poll.c", "(MLX5_INLINE_SCATTER_32 | MLX5_INLINE_SCATTER_64)", "0"},
	{"a place is not free again", "direct_poll.c", "direct_place(s, tail)->next_wqe_index = e->wqe_counter;", ";"},
	{"completions of a reset queue pair are not awaited", "direct.c", "if (verbs_qp_ended(q))", "if (1)"},
	{"blocks go on after a reset", "direct.c", "\tq->sq.next = 0;\n", ""},
	{"any completion is taken", "direct.c", "c.cqe_size != sizeof(struct mlx5_cqe64)", "0"},
}

// TestCasesNotice breaks the port in one place at a time: the cases must then fail.
func TestCasesNotice(t *testing.T) {
	t.Run("one queue pair alone", udNotices)
	dir := t.TempDir()
	objects := map[string]string{}
	for _, name := range slices.Concat(casesC, portC) {
		objects[name] = filepath.Join(dir, filepath.Base(name)+".o")
		gccOrdered(t, "-c", "-o", objects[name], name)
	}
	for _, m := range breaks {
		t.Run(m.what, func(t *testing.T) {
			t.Parallel()
			parts := maps.Clone(objects)
			parts[m.file] = filepath.Join(t.TempDir(), "changed.o")
			gccOrdered(t, "-c", "-o", parts[m.file], change(t, m.file, m.old, m.changed))
			program := filepath.Join(t.TempDir(), "cases")
			gccOrdered(t, append([]string{"-o", program}, slices.Collect(maps.Values(parts))...)...)
			if out, err := runCases(t, program); err == nil {
				t.Errorf("no case failed:\n%s", out)
			}
		})
	}
}
