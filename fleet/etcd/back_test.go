// SPDX-License-Identifier: Apache-2.0

package etcd_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"causeway/fleet/etcd"
	"causeway/fleet/etcd/etcdtest"
	"causeway/fleet/lease"
)

// TestComesBack: a client tries to find etcd again at least each half second, however long that is away, and finds it when it is
// back.
func TestComesBack(t *testing.T) {
	t.Parallel()
	url, start := etcdtest.New(t)
	server := start()
	client, err := etcd.Dial(etcd.Config{Endpoints: []string{url}})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	s, n := etcd.New(client, "test"), uint64(0)
	renew := func() error {
		n++
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond) // as long as a member waits
		defer cancel()
		return s.Renew(ctx, lease.Record{Member: "a", Process: 1, Claim: 1, Renewals: n})
	}
	found := func() {
		t.Helper()
		for began := time.Now(); ; {
			if err := renew(); err == nil {
				return
			} else if time.Since(began) > time.Minute {
				t.Fatal(err)
			}
		}
	}
	found()
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	if _, err := server.Wait(); err != nil {
		t.Fatal(err)
	}
	knocks := knocksAt(t, url, func() {
		if renew() == nil {
			t.Fatal("a server that was killed answers")
		}
	})
	// Of a client whose patience is not limited the last two are five and a half seconds apart.
	if gap := knocks[len(knocks)-1].Sub(knocks[len(knocks)-2]); gap > 3*time.Second {
		t.Errorf("it tries at %v", knocks)
	}
	start()
	found()
}

// knocksAt has a client do something until it has tried twelve times to connect to a server that is away, and returns when it has.
func knocksAt(t *testing.T, url string, do func()) []time.Time {
	t.Helper()
	l, err := net.Listen("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	knocks, all := make(chan time.Time, 1000), []time.Time{}
	go func() {
		defer close(knocks)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.Close()
			knocks <- time.Now()
		}
	}()
	for len(all) < 12 {
		do()
		for more := true; more; {
			select {
			case at := <-knocks:
				all = append(all, at)
			default:
				more = false
			}
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return all
}

// A backed is a store whose server's data can be exchanged.
type backed struct {
	*etcd.Store
	t      *testing.T
	ctx    context.Context
	dir    string // of the data
	server *os.Process
	start  func() *os.Process
}

func newBacked(t *testing.T) *backed {
	t.Helper()
	url, dir, start := etcdtest.NewIn(t)
	server := start()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return &backed{etcd.New(dialAt(t, url), "test"), t, ctx, dir, server, start}
}

func (s *backed) do(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// again kills the server, and starts it after something was done.
func (s *backed) again(between func() error) {
	s.t.Helper()
	s.do(s.server.Kill())
	_, err := s.server.Wait()
	s.do(err)
	s.do(between())
	s.server = s.start()
}

// renew renews as soon as etcd is back.
func (s *backed) renew(r lease.Record) (err error) {
	for err = s.Renew(s.ctx, r); err != nil && !errors.Is(err, lease.ErrEpoch) && s.ctx.Err() == nil; err = s.Renew(s.ctx, r) {
		time.Sleep(10 * time.Millisecond)
	}
	return err
}

// TestSetBack: a watch ends when its server does, and begins anew with what an older copy of that server's data has; whoever followed
// what there was since is refused, also by the assignment that has the same number now.
func TestSetBack(t *testing.T) {
	t.Parallel()
	s := newBacked(t)
	r := lease.Record{Member: "a", Process: 1, Claim: 1}
	s.do(s.renew(r))
	s.do(s.Propose(s.ctx, lease.Proposal{Assignment: plan("a")}))
	r.Epoch = newest(t, s.Store)
	s.do(s.renew(r))
	backup := filepath.Join(t.TempDir(), "backup")
	s.again(func() error { return os.CopyFS(backup, os.DirFS(s.dir)) })
	r.Renewals++
	s.do(s.renew(r))
	s.do(s.Propose(s.ctx, lease.Proposal{Epoch: r.Epoch, Assignment: plan("a", "b")}))
	old := r
	old.Epoch = newest(t, s.Store)
	s.do(s.renew(old))
	next, ended := watched(t, s.Store)
	next(3) // until it is complete
	s.again(func() error { return errors.Join(os.RemoveAll(s.dir), os.CopyFS(s.dir, os.DirFS(backup))) })
	select {
	case err := <-ended:
		if err == nil || s.ctx.Err() != nil {
			t.Error(err)
		}
	case <-s.ctx.Done():
		t.Fatal("the watch goes on")
	}
	if err := s.renew(old); !errors.Is(err, lease.ErrEpoch) {
		t.Errorf("of an assignment that there is no more: %v", err)
	}
	s.do(s.Propose(s.ctx, lease.Proposal{Epoch: r.Epoch, Assignment: plan("a", "c")}))
	if err := s.renew(old); !errors.Is(err, lease.ErrEpoch) {
		t.Errorf("of another assignment with the same number: %v", err)
	}
	if lines, _ := watched(t, s.Store); !slices.Equal(lines(3), []string{"epoch 2 after 1, of 2", "a at 1, 0 renewals", "complete"}) {
		t.Error("something else is told")
	}
}
