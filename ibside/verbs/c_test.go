// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// directC are the files that use the device's queues directly; order is theirs.
var directC = []string{"direct.c", "direct_post.c", "direct_poll.c"}

// portC is the part of the port's C that needs only those functions of libibverbs that testdata/mock.c has fakes of.
var portC = append([]string{"post.c", "poll.c", "portable.c", "ah.c", "qp.c", "setup.c", "sleep.c"}, directC...)

// A rig is a program in C that runs cases: its files, and what it is linked with.
type rig struct {
	sources []string
	libs    []string
	ordered []string // files compiled for a device that looks at what has been stored at each barrier
}

// onFake returns a rig with the device of testdata.
func onFake() rig {
	own := []string{"testdata/cases.c", "testdata/rings.c"}
	return rig{slices.Concat(own, []string{"testdata/mock.c"}, portC), nil, append(own, directC...)}
}

// onLibmlx5 returns a rig with the installed libmlx5 on the device made of memory. The cases are programs of their own:
// the tests of this package run on other devices, too.
func onLibmlx5(t *testing.T, sources ...string) rig {
	t.Helper()
	device, err := filepath.Glob("mlx5mem/*.c")
	if err != nil || len(device) == 0 {
		t.Fatalf("no C files in mlx5mem: %v", err)
	}
	return rig{slices.Concat(sources, []string{"device.c"}, device), []string{"-lmlx5", "-libverbs"}, nil}
}

// build returns the rig's program, in which a file may be another's copy with a mistake. Objects are made once, beside
// each other.
func (r rig) build(t *testing.T, c *compiler, file, mistaken string) string {
	t.Helper()
	objects, errs := make([]string, len(r.sources)), make([]error, len(r.sources))
	var all sync.WaitGroup
	for i, source := range r.sources {
		var flags []string
		if slices.Contains(r.ordered, source) {
			flags = []string{"-Itestdata", `-DDIRECT_ORDER="order.h"`}
		}
		if source == file {
			source = mistaken
		}
		all.Go(func() { objects[i], errs[i] = c.object(source, flags...) })
	}
	all.Wait()
	program := filepath.Join(t.TempDir(), "program")
	libs, err := dpdkLibs()
	if err := errors.Join(append(errs, err)...); err != nil {
		t.Fatal(err)
	}
	if err := gcc(slices.Concat(c.flags, []string{"-o", program}, objects, r.libs, libs)...); err != nil {
		t.Fatal(err)
	}
	return program
}

func (r rig) whole(t *testing.T, c *compiler) string {
	t.Helper()
	return r.build(t, c, "", "")
}

func (r rig) broken(t *testing.T, file, old, changed string) string {
	t.Helper()
	return r.build(t, quick, file, change(t, file, old, changed))
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

// runCases runs a program. Its time is bounded for mistakes that make it wait for ever.
func runCases(t *testing.T, program string, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, program, args...)
	c.Env = append(os.Environ(), "ASAN_OPTIONS=detect_leaks=0") // the EAL and libmlx5 keep memory; mbufs are counted
	text, err := c.CombinedOutput()
	return string(text), err
}

// TestWithoutDevice runs the C side, with the address and undefined behaviour sanitizers, on a fake device, for what the
// installed libmlx5 does not show on the device made of memory.
func TestWithoutDevice(t *testing.T) {
	t.Parallel()
	out, err := runCases(t, onFake().whole(t, sanitizing))
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
	{"late completions count", "poll.c", "n == 0 ||", "(n &= 0xff, 0) &&"},
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
	r := onFake()
	for _, m := range breaks {
		t.Run(m.what, func(t *testing.T) {
			t.Parallel()
			if out, err := runCases(t, r.broken(t, m.file, m.old, m.changed)); err == nil {
				t.Errorf("no case failed:\n%s", out)
			}
		})
	}
}
