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

// gcc compiles with the processor's barriers.
func gcc(t testing.TB, args ...string) {
	t.Helper()
	flags, err := exec.Command("pkg-config", "--cflags", "--libs", "libdpdk").Output()
	if err != nil {
		t.Fatalf("pkg-config libdpdk: %v; install the DPDK development package", err)
	}
	args = append(append([]string{"-std=gnu11", "-Wall", "-Wextra", "-g", "-I.", "-I../.."}, args...), strings.Fields(string(flags))...)
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

// TestWithoutDevice runs the C side, with the address and undefined behaviour sanitizers, on a fake device that the
// cases control.
func TestWithoutDevice(t *testing.T) {
	program := filepath.Join(t.TempDir(), "cases")
	gccOrdered(t, slices.Concat([]string{"-Werror", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-o", program},
		casesC, portC)...)
	out, err := runCases(t, program)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if n := strings.Count(out, ": ok"); n != 69 {
		t.Errorf("%d cases are ok, want 69:\n%s", n, out)
	}
	t.Run("one queue pair alone", udWithoutDevice)
}

// breaks are places in which the port can be broken.
var breaks = []struct{ what, file, old, changed string }{
	{"the last of a list is not signalled", "post.c", "w->burst.out[w->burst.list[i].last].signaled = true;", ";"},
	{"a full queue is not noticed", "post.c", "> q->mask))", "> q->mask + 9000))"},
	{"rejected sends stay counted", "portable.c", "__atomic_store_n(&q->head, from, __ATOMIC_RELAXED);", ""},
	{"late completions count", "poll.c", "n == 0 ||", "0 &&"},
	{"the area is not zeroed", "poll.c", "memset(rte_pktmbuf_mtod(m, void *), 0, IB_GRH_LEN / 2);", ";"},
	{"an address handle leaks", "ah.c", "if (rte_ring_sp_enqueue(w->retired, e->ah))", "if (0)"},
	{"the source's GID does not count", "ah.c", "0xffffff000000;", "0x00ffff000000;"},
	{"the LID counts on Ethernet", "ah.c", "k.w2 &= ~(uint64_t)DLID;", ""},
	{"a path's hop limit does not count", "ah.c", "0xffffff000000;", "0xffff00000000;"},
	{"a path's rate does not count", "ah.c", "0xffull << 48;", "0;"},
	{"a port that wants a GRH gets none", "ah.c", "wanted || __atomic_load_n(&w->dev->grh, __ATOMIC_RELAXED)", "wanted || w->dev->ethernet"},
	{"a queue pair may ask without end", "ah.c", "q->pending_ahs++;", ""},
	{"an answer to a queue pair that has gone counts", "ah.c", "verbs_qp_of(w, e->requester);", "__atomic_load_n(&w->qps[HANDLE_INDEX(e->requester)], __ATOMIC_SEQ_CST);"},
	{"a handle stays that was to be dropped", "ah.c", "likely(flush == w->flushed)", "any || flush == w->flushed"},
	{"pending messages are counted twice", "post.c", "w->pending[i].entry->pending_sends = 0;", ""},
	{"pending messages have all the pool", "post.c", "w->pending_n >= w->pending_most || ", ""},
	{"Ethernet has SLs", "portable.c", "w->dev->ethernet ? 0 : wc->sl", "wc->sl"},
	{"messages for a queue pair that is reset are not awaited", "qp.c", "verbs_qp_ended(q) && all_received(w, q)", "verbs_qp_ended(q)"},
	{"one look is enough", "qp.c", "2 * recv_lap(w)", "recv_lap(w)"},
	{"messages for a queue pair that ends are not awaited", "qp.c", "\tawait_receives(w, q);", ""},
	{"a number does not rest", "qp.c", "take_away(w, q, reset(w, q))", "verbs_qp_end(w, q)"},
	{"completions of receives have no room", "setup.c", "ibv_create_cq(w->dev->ctx, (int)s->receives,", "ibv_create_cq(w->dev->ctx, 1,"},
	{"the device's limits are others'", "setup.c", ".receives = a.max_srq_wr", ".receives = a.max_qp_wr"},
	{"messages at the end do not count", "setup.c", "verbs_qp_drain(w, w->qps[i]);", ";"},
	{"each worker asks the device whether it blocks", "qp.c", "w->dev->asked_to_block = true;", ""},
	{"an Ethernet port is asked, too", "qp.c", "w->dev->asked_to_block || w->dev->ethernet", "w->dev->asked_to_block"},
	{"a refusal is not remembered", "qp.c", "w->dev->blocks_own_multicast = qp;", "w->dev->blocks_own_multicast = true;"},
	{"the trial stays", "qp.c", "\tif (qp)\n\t\tibv_destroy_qp(qp);\n", ""},
	{"a lost completion queue is an empty one", "poll.c", "if (likely(got >= 0))", "if (1)"},
	{"inlined mbufs stay", "post.c", "rte_pktmbuf_free_bulk(m, n);", ";"},
	{"inlined mbufs are freed twice", "post.c", "inlined ? NULL : s->mbuf", "s->mbuf"},
	{"queue pairs are outside the thread domain", "qp.c", ".pd = w->pd,", ".pd = w->dev->pd,"},
	{"a thread domain stays", "setup.c", "\tibv_dealloc_td(w->td);\n}", "}"},
	{"the receive queue is in the thread domain", "setup.c", "ibv_create_srq(w->dev->pd,", "ibv_create_srq(w->pd,"},
	{"a record is before its requests", "direct_post.c", "\tdirect_requests_before_records();\n", ""},
	{"bells are not after their records", "direct_post.c", "\tdirect_records_before_bells();\n", ""},
	{"a bell is not flushed", "direct_post.c", "\tdirect_flush_bell(b->reg + b->offset);\n", ""},
	{"a bell is the first request's", "direct_post.c", "block(q, q->sq.last);", "block(q, (uint16_t)(q->sq.next - 2));"},
	{"old bytes stay in a request", "direct_post.c", "\tc->dci_stream_channel_id = 0;\n", ""},
	{"an empty piece is posted", "direct_post.c", "if (likely(s[i].length))", "if (1)"},
	{"an empty payload is posted", "direct_post.c", "if (unlikely(bytes == 0))", "if (0)"},
	{"an owner bit is not looked at", "direct_poll.c", "(own & MLX5_CQE_OWNER_MASK) != !!(i & c->size)", "0"},
	{"a completion's place is not given back", "direct_poll.c", "c->next += n;\n\t__atomic_store_n(c->record, htobe32(c->next & 0xffffff), __ATOMIC_RELEASE);", "c->next += n;"},
	{"the buffers' record is before them", "direct_poll.c", "\tdirect_buffers_before_record();\n", ""},
	{"payload in a completion counts", "direct_poll.c", "(MLX5_INLINE_SCATTER_32 | MLX5_INLINE_SCATTER_64)", "0"},
	{"a place is not free again", "direct_poll.c", "direct_place(s, s->tail)->next_wqe_index = htobe16(place);", ";"},
	{"a flushed send is an error", "direct_poll.c", "e->syndrome == MLX5_CQE_SYNDROME_WR_FLUSH_ERR", "0"},
	{"completions of a reset queue pair are not awaited", "direct.c", "if (verbs_qp_ended(q))", "if (1)"},
	{"blocks go on after a reset", "direct.c", "\tq->sq.next = 0;\n", ""},
	{"any completion is taken", "direct.c", "c.cqe_size != sizeof(struct mlx5_cqe64)", "0"},
	{"messages wake nobody", "portable.c", "\tibv_req_notify_cq(w->recv_cq, 0);\n", ""},
	{"sends that end wake nobody", "portable.c", "\tibv_req_notify_cq(w->send_cq, 0);\n", ""},
	{"events are not acknowledged", "sleep.c", "\t\tibv_ack_cq_events(cq, 1);\n", ""},
	{"one event is taken", "sleep.c", "while (ibv_get_cq_event", "if (ibv_get_cq_event"},
	{"answers wake nobody", "setup.c", "\trte_ring_sp_enqueue(w->answers, e);\n\twake_now(&w->bell);\n", "\trte_ring_sp_enqueue(w->answers, e);\n"},
	{"a queue pair that stops wakes nobody", "qp.c", "\twake_now(&w->bell); /* to poll, more than twice */\n", ""},
	{"a reset frees no mbufs", "qp.c", "rte_pktmbuf_free(q->fifo[i & q->mask].mbuf);", ""},
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
