// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
)

// headers are those that take longest. A compiler reads them once for all files.
const headers = `
#include <rte_config.h>

#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>

#include <rte_mbuf.h>
#include <rte_memcpy.h>
#include <rte_random.h>
`

// A compiler makes objects, each once for all tests.
type compiler struct {
	flags   []string
	headers func() (string, error) // the path of those that have been read, without .gch
	objects sync.Map               // by flags and file, a func() (string, error)
}

func newCompiler(flags ...string) *compiler {
	return &compiler{flags: flags, headers: sync.OnceValues(func() (string, error) {
		dir, err := os.MkdirTemp(compiled, "headers")
		if err != nil {
			return "", err
		}
		file := filepath.Join(dir, "headers.h")
		if err := os.WriteFile(file, []byte(headers), 0o600); err != nil {
			return "", err
		}
		return file, gcc(append(slices.Clone(flags), "-o", file+".gch", file)...)
	})}
}

// sanitizing finds most; quick is for the many programs that are to fail. Headers read before have lost what they say
// about warnings in themselves.
var (
	sanitizing = newCompiler("-Wall", "-Wextra", "-Werror", "-Wno-stringop-overflow", "-Wno-stringop-overread", "-O1",
		"-fsanitize=address,undefined", "-fno-sanitize-recover=all")
	quick = newCompiler("-w")
)

// compiled is where all is that compilers make; TestMain removes it.
var compiled string

func (c *compiler) object(file string, flags ...string) (string, error) {
	made, _ := c.objects.LoadOrStore(strings.Join(append(flags, file), " "), sync.OnceValues(func() (string, error) {
		if !strings.HasPrefix(file, "mlx5mem/") { // the device needs none of these headers
			common, err := c.headers()
			if err != nil {
				return "", err
			}
			flags = append(flags, "-include", common)
		}
		object, err := os.CreateTemp(compiled, "*.o")
		if err != nil {
			return "", err
		}
		args := slices.Concat(c.flags, flags, []string{"-c", "-o", object.Name(), file})
		return object.Name(), errors.Join(object.Close(), gcc(args...))
	}))
	return made.(func() (string, error))()
}

// pkgConfig returns what pkg-config says about DPDK.
func pkgConfig(what string) ([]string, error) {
	flags, err := exec.Command("pkg-config", what, "libdpdk").Output()
	if err != nil {
		return nil, fmt.Errorf("pkg-config libdpdk: %w; install the DPDK development package", err)
	}
	return strings.Fields(string(flags)), nil
}

var (
	dpdkFlags = sync.OnceValues(func() ([]string, error) { return pkgConfig("--cflags") })
	dpdkLibs  = sync.OnceValues(func() ([]string, error) { // only those that are needed: a linker opens all
		dirs, err := pkgConfig("--libs-only-L")
		return append(dirs, "-lrte_eal", "-lrte_mbuf", "-lrte_mempool", "-lrte_ring"), err
	})
)

// compiling has a place for each compiler that runs at a time.
var compiling = make(chan struct{}, runtime.NumCPU())

func gcc(args ...string) error {
	flags, err := dpdkFlags()
	if err != nil {
		return err
	}
	compiling <- struct{}{}
	defer func() { <-compiling }()
	args = slices.Concat([]string{"-std=gnu11"}, args, []string{"-I.", "-I../.."}, flags)
	if text, err := exec.Command("gcc", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("gcc: %w\n%s", err, text)
	}
	return nil
}

// TestOnLibmlx5 runs the worker's calls and the queue pairs' life on the installed libmlx5, with the sanitizers.
func TestOnLibmlx5(t *testing.T) {
	t.Parallel()
	out, err := runCases(t, onLibmlx5(t, append(portC, "testdata/libmlx5/cases.c")...).whole(t, sanitizing))
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if n := strings.Count(out, ": ok"); n != 99 {
		t.Errorf("%d cases are ok, want 96:\n%s", n, out)
	}
}

// breaksOnLibmlx5 are places in which the port can be broken.
var breaksOnLibmlx5 = []struct{ what, file, old, changed string }{
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
	{"rejected sends stay counted", "portable.c", "__atomic_store_n(&q->head, from, __ATOMIC_RELAXED);", ""},
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
	{"one look is enough", "qp.c", "2 * recv_lap(w)", "recv_lap(w)"},
	{"a number does not rest", "qp.c", "take_away(w, q, reset(w, q))", "verbs_qp_end(w, q)"},
	{"messages at the end do not count", "setup.c", "verbs_qp_drain(w, w->qps[i]);", ";"},
	{"each worker asks the device whether it blocks", "qp.c", "w->dev->asked_to_block = true;", ""},
	{"an Ethernet port is asked, too", "qp.c", "w->dev->asked_to_block || w->dev->ethernet", "w->dev->asked_to_block"},
	{"a refusal is not remembered", "qp.c", "w->dev->blocks_own_multicast = qp;", "w->dev->blocks_own_multicast = true;"},
	{"inlined mbufs stay", "post.c", "rte_pktmbuf_free_bulk(m, n);", ";"},
	{"inlined mbufs are freed twice", "post.c", "inlined ? NULL : s->mbuf", "s->mbuf"},
	{"queue pairs are outside the thread domain", "qp.c", ".pd = w->pd,", ".pd = w->dev->pd,"},
	{"a bell is the first request's", "direct_post.c", "block(q, q->sq.last);", "block(q, (uint16_t)(q->sq.next - 2));"},
	{"an empty piece is posted", "direct_post.c", "if (likely(s[i].length))", "if (1)"},
	{"an empty payload is posted", "direct_post.c", "if (unlikely(bytes == 0))", "if (0)"},
	{"an owner bit is not looked at", "direct_poll.c", "(own & MLX5_CQE_OWNER_MASK) != !!(i & c->size)", "0"},
	{"a completion's place is not given back", "direct_poll.c", "c->next += n;\n\t__atomic_store_n(c->record, htobe32(c->next & 0xffffff), __ATOMIC_RELEASE);", "c->next += n;"},
	{"a flushed send is an error", "direct_poll.c", "e->syndrome == MLX5_CQE_SYNDROME_WR_FLUSH_ERR", "0"},
	{"messages wake nobody", "portable.c", "\tibv_req_notify_cq(w->recv_cq, 0);\n", ""},
	{"sends that end wake nobody", "portable.c", "\tibv_req_notify_cq(w->send_cq, 0);\n", ""},
	{"events are not acknowledged", "sleep.c", "\t\tibv_ack_cq_events(cq, 1);\n", ""},
	{"one event is taken", "sleep.c", "while (ibv_get_cq_event", "if (ibv_get_cq_event"},
	{"answers wake nobody", "setup.c", "\trte_ring_sp_enqueue(w->answers, e);\n\twake_now(&w->bell);\n", "\trte_ring_sp_enqueue(w->answers, e);\n"},
	{"a queue pair that stops wakes nobody", "qp.c", "\twake_now(&w->bell); /* to poll, more than twice */\n", ""},
	{"a reset frees no mbufs", "qp.c", "rte_pktmbuf_free(q->fifo[i & q->mask].mbuf);", ""},
}

// TestOnLibmlx5Notices breaks the port in one place at a time: the cases must then fail.
func TestOnLibmlx5Notices(t *testing.T) {
	r := onLibmlx5(t, append(portC, "testdata/libmlx5/cases.c")...)
	for _, m := range breaksOnLibmlx5 {
		t.Run(m.what, func(t *testing.T) {
			t.Parallel()
			if out, err := runCases(t, r.broken(t, m.file, m.old, m.changed)); err == nil {
				t.Errorf("no case failed:\n%s", out)
			}
		})
	}
}
