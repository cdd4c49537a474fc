// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// waysC is what a program needs beside the port's own files: the device, and what opens it.
func waysC(t testing.TB, main string) []string {
	t.Helper()
	files, err := filepath.Glob("mlx5mem/*.c")
	if err != nil || len(files) == 0 {
		t.Fatal("no files of mlx5mem: ", err)
	}
	return append(files, main, "device.c")
}

func runWays(t testing.TB, program string, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, program, args...)
	c.Env = append(os.Environ(), "ASAN_OPTIONS=detect_leaks=0") // the EAL and libmlx5 keep memory; mbufs are counted
	text, err := c.CombinedOutput()
	return string(text), err
}

// TestDirectAsLibrary compares the two ways on the installed libmlx5 and a device of memory: what they write for the
// same sends, byte for byte, and what they read from the same completions. With traps the device also checks the order
// of stores: requests, record, doorbell.
func TestDirectAsLibrary(t *testing.T) {
	program := filepath.Join(t.TempDir(), "ways")
	gcc(t, slices.Concat([]string{"-Werror", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-o", program},
		waysC(t, "testdata/ways.c"), portC, []string{"-lmlx5", "-libverbs"})...)
	for _, args := range [][]string{{"1"}, {"2"}, {"3", "without"}} {
		if len(args) == 1 && runtime.GOARCH != "amd64" {
			t.Log("not run with traps: needs x86, where doorbells are caught by single steps")
			continue
		}
		if out, err := runWays(t, program, args...); err != nil {
			t.Errorf("%v: %v\n%s", args, err, out)
		}
	}
}

// TestDirectAsLibraryNotices breaks the direct way in one place at a time.
func TestDirectAsLibraryNotices(t *testing.T) {
	dir := t.TempDir()
	objects := map[string]string{}
	for _, name := range slices.Concat(waysC(t, "testdata/ways.c"), portC) {
		objects[name] = filepath.Join(dir, strings.ReplaceAll(name, "/", "_")+".o")
		gcc(t, "-O1", "-c", "-o", objects[name], name)
	}
	for _, m := range []struct{ what, file, old, changed string }{
		{"nothing is solicited", "direct_post.c", "MLX5_WQE_CTRL_SOLICITED : 0", "0 : 0"},
		{"an immediate is left", "direct_post.c", "imm ? htobe32(o->imm) : 0", "htobe32(o->imm)"},
		{"the address is short", "direct_post.c", "memcpy(to, o->address, sizeof(*to));", "memcpy(to, o->address, sizeof(*to) - 1);"},
		{"a payload ends at the ring's end", "direct_post.c", "if (likely(s->length <= room))", "if (1)"},
		{"the Q_Key is the address's", "direct_post.c", "\tto->key.qkey.qkey = htobe32(o->dest_qkey);\n", ""},
		{"a record is one ahead", "direct_post.c", "htobe32(q->sq.next);", "htobe32(q->sq.next + 1u);"},
		{"a bell is forgotten", "direct_post.c", "for (unsigned i = 0; i < w->burst.lists; i++)\n\t\tring_bell", "for (unsigned i = 1; i < w->burst.lists; i++)\n\t\tring_bell"},
		{"an SL has three bits", "direct_poll.c", "SL_MASK = 15", "SL_MASK = 7"},
		{"there is no GRH", "direct_poll.c", "IB_RECV_GRH : 0", "0 : 0"},
		{"messages wake nobody", "direct_poll.c", "\tarm_cq(&w->direct->recv);\n", ""},
		{"sends that end wake nobody", "direct_poll.c", "\tarm_cq(&w->direct->send);\n", ""},
		{"an arming is the last one again", "direct_poll.c", "\tc->events++;\n", "\t(void)c;\n"},
		{"an arming has not what was taken", "direct_poll.c", "MLX5_CQ_DB_REQ_NOT | (c->next & 0xffffff)", "MLX5_CQ_DB_REQ_NOT"},
		{"the length is without the area", "direct_poll.c", "m->pkt_len = len;", "m->pkt_len = len - IB_GRH_LEN;"},
	} {
		t.Run(m.what, func(t *testing.T) {
			parts := objects[m.file]
			defer func() { objects[m.file] = parts }()
			objects[m.file] = filepath.Join(t.TempDir(), "changed.o")
			gcc(t, "-O1", "-c", "-o", objects[m.file], change(t, m.file, m.old, m.changed))
			program := filepath.Join(t.TempDir(), "ways")
			args := []string{"-o", program}
			for _, o := range objects {
				args = append(args, o)
			}
			gcc(t, append(args, "-lmlx5", "-libverbs")...)
			if out, err := runWays(t, program, "1"); err == nil {
				t.Errorf("the ways do not differ:\n%s", out)
			}
		})
	}
}

// BenchmarkDirect compares what a message costs a worker by libmlx5 and directly, on a device of memory: without the
// device's time, and without what a doorbell costs that crosses PCIe. The ratios are gates.
func BenchmarkDirect(b *testing.B) {
	program := filepath.Join(b.TempDir(), "bench")
	gcc(b, slices.Concat([]string{"-O2", "-o", program}, waysC(b, "testdata/bench.c"), portC, []string{"-lmlx5", "-libverbs"})...)
	for _, gate := range []struct {
		qps        int
		post, poll float64 // the most, 0: not a gate
	}{
		{1, 0, 0}, {64, 0, 0}, {256, 0.45, 0}, {1024, 0.45, 0.3},
	} {
		b.Run(fmt.Sprintf("%d queue pairs", gate.qps), func(b *testing.B) {
			var post, poll [3]float64 // by libmlx5, directly: ns; and the ratio
			var bells float64
			for range b.N {
				out, err := runWays(b, program, strconv.Itoa(gate.qps))
				if err != nil {
					b.Fatalf("%v\n%s", err, out)
				}
				if _, err := fmt.Sscanf(out, "post %f %f %f poll %f %f %f bells %f",
					&post[0], &post[1], &post[2], &poll[0], &poll[1], &poll[2], &bells); err != nil {
					b.Fatalf("%v: %s", err, out)
				}
			}
			for name, x := range map[string][3]float64{"post": post, "poll": poll} {
				b.ReportMetric(x[0], "library-"+name+"-ns")
				b.ReportMetric(x[1], "direct-"+name+"-ns")
				b.ReportMetric(x[2], name+"-ratio")
			}
			b.ReportMetric(bells, "bells/message")
			b.ReportMetric(0, "ns/op")
			if gate.post > 0 && post[2] > gate.post || gate.poll > 0 && poll[2] > gate.poll {
				b.Errorf("post %.2f and poll %.2f of what they take by libmlx5, want %.2f and %.2f at most", post[2], poll[2], gate.post, gate.poll)
			}
		})
	}
}
