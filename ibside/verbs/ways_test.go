// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"runtime"
	"testing"
)

// TestDirectAsLibrary compares the two ways on the installed libmlx5 and a device of memory: what they write for the
// same sends, byte for byte, and what they read from the same completions. With traps the device also checks the order
// of stores: requests, record, doorbell.
func TestDirectAsLibrary(t *testing.T) {
	t.Parallel()
	program := onLibmlx5(t, append(portC, "testdata/ways.c")...).whole(t, sanitizing)
	for _, args := range [][]string{{"1"}, {"2"}, {"3", "without"}} {
		if len(args) == 1 && runtime.GOARCH != "amd64" {
			t.Log("not run with traps: needs x86, where doorbells are caught by single steps")
			continue
		}
		if out, err := runCases(t, program, args...); err != nil {
			t.Errorf("%v: %v\n%s", args, err, out)
		}
	}
}

// TestDirectAsLibraryNotices breaks the direct way in one place at a time.
func TestDirectAsLibraryNotices(t *testing.T) {
	r := onLibmlx5(t, append(portC, "testdata/ways.c")...)
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
			t.Parallel()
			if out, err := runCases(t, r.broken(t, m.file, m.old, m.changed), "1"); err == nil {
				t.Errorf("the ways do not differ:\n%s", out)
			}
		})
	}
}
