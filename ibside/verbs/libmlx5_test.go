// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A rig is what cases run on: the C beside the port's, and what it is linked with.
type rig struct {
	sources []string
	libs    []string
}

// onLibmlx5 returns a rig with the installed libmlx5 on the device made of memory. The cases are programs of their own:
// the tests of this package run on other devices, too.
func onLibmlx5(t *testing.T, cases string) rig {
	t.Helper()
	device, err := filepath.Glob("mlx5mem/*.c")
	if err != nil || len(device) == 0 {
		t.Fatalf("no C files in mlx5mem: %v", err)
	}
	return rig{append([]string{cases, "device.c"}, device...), []string{"-lmlx5", "-libverbs"}}
}

// withSanitizers are the flags for the address and undefined behaviour sanitizers.
var withSanitizers = []string{"-Werror", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"}

// compileAll makes the objects of C files.
func compileAll(t *testing.T, files []string) map[string]string {
	t.Helper()
	dir, objects := t.TempDir(), map[string]string{}
	for _, name := range files {
		objects[name] = filepath.Join(dir, strings.ReplaceAll(name, "/", "_")+".o")
		gcc(t, "-c", "-o", objects[name], name)
	}
	return objects
}

// TestOnLibmlx5 runs the worker's calls and the queue pairs' life on the installed libmlx5, with the sanitizers.
func TestOnLibmlx5(t *testing.T) {
	program, r := filepath.Join(t.TempDir(), "cases"), onLibmlx5(t, "testdata/libmlx5/cases.c")
	gcc(t, slices.Concat(withSanitizers, []string{"-o", program}, r.sources, portC, r.libs)...)
	out, err := runCases(t, program)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if n := strings.Count(out, ": ok"); n != 54 {
		t.Errorf("%d cases are ok, want 54:\n%s", n, out)
	}
}

// TestOnLibmlx5Notices breaks the port in one place at a time: the cases must then fail.
func TestOnLibmlx5Notices(t *testing.T) {
	r := onLibmlx5(t, "testdata/libmlx5/cases.c")
	objects := compileAll(t, append(slices.Clone(portC), r.sources...))
	for _, m := range []struct{ what, file, old, changed string }{
		{"the last of a list is not signalled", "post.c", "w->burst.out[w->burst.list[i].last].signaled = true;", ";"},
		{"a full queue is not noticed", "post.c", "> q->mask))", "> q->mask + 9000))"},
		{"the Q_Key is another", "portable.c", "remote_qkey = o->dest_qkey", "remote_qkey = o->dest_qpn"},
		{"the immediate is in host order", "portable.c", "htonl(o->imm)", "o->imm"},
		{"nothing is solicited", "portable.c", "o->flags & IB_SEND_SOLICITED ? IBV_SEND_SOLICITED : 0", "0"},
		{"a piece has another's key", "post.c", "sge[n].lkey = mr->lkey;", "sge[n].lkey = mr->lkey + 1;"},
		{"the area is not zeroed", "poll.c", "memset(rte_pktmbuf_mtod(m, void *), 0, IB_GRH_LEN / 2);", ";"},
		{"a buffer is longer than it is", "portable.c", ".length = w->recv_room", ".length = w->recv_room + 4096"},
		{"a buffer has another's key", "portable.c", "verbs_mr_of(w->dev, p)->lkey", "verbs_mr_of(w->dev, p)->lkey + 1"},
		{"Ethernet has SLs", "portable.c", "w->dev->ethernet ? 0 : wc->sl", "wc->sl"},
		{"messages for a queue pair that is reset are not awaited", "qp.c", "verbs_qp_ended(q) && all_received(w, q)", "verbs_qp_ended(q)"},
		{"messages for a queue pair that ends are not awaited", "qp.c", "\tawait_receives(w, q);", ""},
		{"completions of receives have no room", "setup.c", "ibv_create_cq(w->dev->ctx, (int)s->receives,", "ibv_create_cq(w->dev->ctx, 1,"},
		{"the device's limits are others'", "setup.c", ".receives = a.max_srq_wr", ".receives = a.max_qp_wr"},
		{"own multicast is not blocked", "qp.c", "a.create_flags = IBV_QP_CREATE_BLOCK_SELF_MCAST_LB;", ""},
		{"the trial stays", "qp.c", "\tif (qp)\n\t\tibv_destroy_qp(qp);\n", ""},
		{"a region stays", "device.c", "e = ibv_dereg_mr(d->mr[i].mr);", "e = 0;"},
	} {
		t.Run(m.what, func(t *testing.T) {
			parts := maps.Clone(objects)
			parts[m.file] = filepath.Join(t.TempDir(), "changed.o")
			gcc(t, "-c", "-o", parts[m.file], change(t, m.file, m.old, m.changed))
			program := filepath.Join(t.TempDir(), "cases")
			gcc(t, slices.Concat([]string{"-o", program}, slices.Collect(maps.Values(parts)), r.libs)...)
			if out, err := runCases(t, program); err == nil {
				t.Errorf("no case failed:\n%s", out)
			}
		})
	}
}
