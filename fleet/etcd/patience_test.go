// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"causeway/fleet/etcd/etcdtest"
	"causeway/fleet/lease"
	"causeway/fleet/peers"
	"causeway/fleet/shards"
)

// TestAgain: a request that nobody answers is sent again, to whoever does; an error comes at once, and no answer in time.
func TestAgain(t *testing.T) {
	const every = 100 * time.Millisecond
	bad := errors.New("bad")
	for name, x := range map[string]struct {
		answers map[int64]error // by which copy; others are not answered
		took    time.Duration
		copies  int64
		err     error
	}{
		"the first answers":                       {map[int64]error{1: nil}, 0, 1, nil},
		"the third answers":                       {map[int64]error{3: nil}, 2 * every, 3, nil},
		"the first fails":                         {map[int64]error{1: bad}, 0, 1, bad},
		"the second fails, and the third answers": {map[int64]error{2: bad, 3: nil}, 2 * every, 3, nil},
		"nobody answers":                          {nil, time.Second, copies, context.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				var sent atomic.Int64
				began := time.Now()
				n, err := again(ctx, every, func(ctx context.Context) (int64, error) {
					n := sent.Add(1)
					if err, answered := x.answers[n]; answered {
						return n, err
					}
					<-ctx.Done()
					return 0, ctx.Err()
				})
				if took := time.Since(began); !errors.Is(err, x.err) || took != x.took || sent.Load() != x.copies || err == nil && n != x.copies {
					t.Errorf("copy %d after %v and %d copies: %v", n, took, sent.Load(), err)
				}
			})
		})
	}
}

// TestFollow: a watch that hears nothing fails once a renewal has succeeded that it should have told of, and not before; one
// that tells of it does not, however long its caller takes.
func TestFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		s, events, failed := New(nil, "test"), make(chan *etcdserverpb.WatchResponse, 1), make(chan error, 1)
		go func() {
			failed <- s.follow(ctx, events, nil, 1, func(*mvccpb.Event) error {
				time.Sleep(time.Second)
				return nil
			})
		}()
		lives := func(what string) {
			t.Helper()
			synctest.Wait()
			select {
			case err := <-failed:
				t.Fatalf("%s: %v", what, err)
			default:
			}
		}
		time.Sleep(time.Minute)
		lives("nothing was renewed")
		for revision := range int64(20) {
			events <- &etcdserverpb.WatchResponse{Events: []*mvccpb.Event{{Kv: &mvccpb.KeyValue{ModRevision: 2 + revision}}}}
			s.committed.Store(2 + revision)
			lives("what was renewed is under way")
		}
		time.Sleep(time.Minute)
		lives("it has told of all")
		s.committed.Store(100)
		began := time.Now()
		if err := <-failed; !errors.Is(err, errBehind) || time.Since(began) > (behindTimes+1)*behindEvery {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
	})
}

// A renewer renews the record of a member, by whole renewals, and by single copies of them.
type renewer struct {
	*Store
	t   *testing.T
	ctx context.Context
}

func newRenewer(t *testing.T) *renewer {
	t.Helper()
	url, _ := etcdtest.Start(t)
	s, ctx := storeAt(t, url)
	return &renewer{s, t, ctx}
}

// storeAt returns the store of these servers, and a context for a test.
func storeAt(t *testing.T, urls ...string) (*Store, context.Context) {
	t.Helper()
	client, err := Dial(Config{Endpoints: urls})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(func() {
		cancel()
		_ = client.Close()
	})
	return New(client, "test"), ctx
}

func (s *renewer) renew(n uint64) {
	s.t.Helper()
	if err := s.Renew(s.ctx, lease.Record{Member: "a", Process: 1, Claim: 1, Renewals: n}); err != nil {
		s.t.Fatalf("renewal %d: %v", n, err)
	}
	if got, found, err := s.Record(s.ctx, "a"); err != nil || !found || got.Renewals != n {
		s.t.Fatalf("after renewal %d there is %+v, %v", n, got, err)
	}
}

// copied has a copy of a renewal be carried out, in place of the record of a revision, and returns whether it was.
func (s *renewer) copied(n uint64, last int64) bool {
	s.t.Helper()
	r := lease.Record{Member: "a", Process: 1, Claim: 1, Renewals: n}
	text, err := json.Marshal(r)
	holds, err2 := json.Marshal(holder{1, 1})
	if err := errors.Join(err, err2); err != nil {
		s.t.Fatal(err)
	}
	done, err := s.renewal(s.ctx, &r, string(text), string(holds), last)
	if err != nil {
		s.t.Fatal(err)
	}
	return done.Succeeded
}

// TestWatchBehind: a real watch fails so, and another one begins.
func TestWatchBehind(t *testing.T) {
	s := newRenewer(t)
	s.renew(1)
	s.renew(2)
	seen := make(chan uint64, 100)
	tell := func(e lease.Event) {
		if !e.Complete {
			seen <- e.Record.Renewals
		}
	}
	for range 2 {
		err := s.Watch(s.ctx, func(e lease.Event) {
			if tell(e); e.Complete {
				time.AfterFunc(behindEvery, func() { s.committed.Add(1 << 40) }) // as if another server had committed more
			}
		})
		if !errors.Is(err, errBehind) {
			t.Fatal(err)
		}
	}
	s.renew(3)
	go func() { _ = s.Watch(s.ctx, tell) }() // it ends with ctx
	lists, ended := make(chan map[string]peers.Record, 100), make(chan error, 1)
	go func() { ended <- s.WatchPeers(s.ctx, func(all map[string]peers.Record) { lists <- all }) }()
	for _, want := range []uint64{2, 2, 3} {
		if n := <-seen; n != want {
			t.Errorf("%d renewals are seen, want %d", n, want)
		}
	}
	time.Sleep(2 * behindTimes * behindEvery)
	s.renew(4)
	if n := <-seen; n != 4 {
		t.Errorf("%d renewals are seen, want 4", n)
	}
	if err := s.PutPeer(s.ctx, "b", peers.Record{Process: 7}); err != nil {
		t.Fatal(err)
	}
	if first, second := <-lists, <-lists; len(first) != 0 || second["b"].Process != 7 || len(second) != 1 || len(lists) != 0 {
		t.Errorf("of the others' records there are %v, then %v, and %d more lists", first, second, len(lists))
	}
	s.committed.Add(1 << 40)
	if err := <-ended; !errors.Is(err, errBehind) {
		t.Errorf("a watch of the others' records that is behind: %v", err)
	}
}

// two is the store of two servers, which know nothing of each other, to both of which there are connections.
type two struct {
	*Store
	t      *testing.T
	ctx    context.Context
	server *os.Process // one of these
	both   map[string]int
}

func newTwo(t *testing.T) *two {
	t.Helper()
	url, server := etcdtest.Start(t)
	other, _ := etcdtest.Start(t)
	store, ctx := storeAt(t, url, other)
	s := &two{store, t, ctx, server, nil}
	if _, err := s.Followers(ctx); err != nil { // until one of them is there
		t.Fatal(err)
	}
	for len(s.both) < 2 && ctx.Err() == nil {
		s.both = s.streams(6)
	}
	return s
}

// streams returns at which servers so many streams are.
func (s *two) streams(n int) (at map[string]int) {
	s.t.Helper()
	at = map[string]int{}
	for range n {
		x, err := s.stream(s.ctx, 1)
		if err != nil {
			s.t.Fatal(err)
		}
		x.end()
		at[x.at]++
	}
	return at
}

// stop has one of the servers stand still. It returns when it does.
func (s *two) stop() {
	s.t.Helper()
	if err := s.server.Signal(syscall.SIGSTOP); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = s.server.Signal(syscall.SIGCONT) }) // it is killed in any case
	for stat := fmt.Sprintf("/proc/%d/stat", s.server.Pid); s.ctx.Err() == nil; time.Sleep(time.Millisecond) {
		text, err := os.ReadFile(stat)
		if err != nil {
			s.t.Fatal(err)
		}
		if strings.Contains(string(text), ") T ") {
			return
		}
	}
	s.t.Fatal("it does not stop")
}

// TestWatchElsewhere: changes are told by a server that begins to in time, and by another one than that which was behind, however the
// client takes turns.
func TestWatchElsewhere(t *testing.T) {
	t.Parallel()
	s := newTwo(t)
	if x, err := s.stream(s.ctx, 1<<40); !errors.Is(err, errBehind) {
		t.Errorf("a stream begins after what there is: %+v, %v", x, err)
	}
	for behind := range s.both {
		s.behind.Store(&behind)
		if at := s.streams(6); at[behind] > 0 {
			t.Errorf("streams are at %v, and %s was behind", at, behind)
		}
	}
	s.behind.Store(nil)
	s.stop()
	if at := s.streams(6); len(at) != 1 {
		t.Errorf("streams are at %v, of which one stands still", at)
	}
}

// TestStalledServer: one of two servers takes requests and answers none; what is read, and told, comes by the other one. The two
// know nothing of each other, which is no matter here.
func TestStalledServer(t *testing.T) {
	t.Parallel()
	s := newTwo(t)
	ask := func(ctx context.Context) error {
		_, err := s.Configurations(ctx, nil)
		_, err2 := s.Followers(ctx)
		_, err3 := s.Records(ctx)
		_, err4 := s.Published(ctx)
		_, _, err5 := s.Record(ctx, "a")
		return errors.Join(err, err2, err3, err4, err5, s.Tell(ctx, lease.Note{Leave: lease.Leave{Member: "a"}}))
	}
	s.stop()
	for range 3 {
		ctx, cancel := context.WithTimeout(t.Context(), 2*readPatience)
		if err := ask(ctx); err != nil {
			t.Error(err)
		}
		cancel()
	}
}

// TestLateRenewal: a copy of a renewal that is carried out late changes nothing, whether it has been carried out before or
// another record has come since; and a renewal is not refused because of the one before, of which nobody knows whether it was.
func TestLateRenewal(t *testing.T) {
	s := newRenewer(t)
	s.renew(1)
	s.renew(2)
	before := s.last.Load()
	s.renew(3)
	if s.copied(3, before) {
		t.Error("a copy was carried out after its renewal")
	}
	s.renew(4)
	if s.copied(3, before) || s.copied(2, before) {
		t.Error("a copy was carried out after the next renewal")
	}
	if !s.copied(5, s.last.Load()) {
		t.Error("a renewal without an answer was not carried out")
	}
	revision := s.last.Load()
	s.renew(5) // the answer comes by another copy
	if s.last.Load() == revision || s.committed.Load() != s.last.Load() {
		t.Error("it is not known of which revision the renewal is")
	}
	if !s.copied(6, s.last.Load()) {
		t.Error("a renewal without an answer was not carried out")
	}
	s.renew(7)
	if err := s.Renew(s.ctx, lease.Record{Member: "a", Process: 1, Claim: 1, Renewals: 8, Epoch: lease.Epoch{Number: 1}}); !errors.Is(err, lease.ErrEpoch) {
		t.Errorf("with another assignment's number: %v", err)
	}
	a := shards.Plan([]shards.Member{{Name: "a", Weight: 1}}, nil)
	if err := s.Propose(s.ctx, lease.Proposal{Assignment: a}); err != nil {
		t.Fatal(err)
	}
	if err := s.Renew(s.ctx, lease.Record{Member: "a", Process: 1, Claim: 1, Renewals: 9}); !errors.Is(err, lease.ErrEpoch) {
		t.Errorf("with the assignment before: %v", err)
	}
	got, err := s.get(s.ctx, s.epochKey())
	if err != nil || s.committed.Load() != got.Kvs[0].ModRevision {
		t.Errorf("a watch has to tell of revision %d, and not of the assignment's: %+v, %v", s.committed.Load(), got, err)
	}
}
