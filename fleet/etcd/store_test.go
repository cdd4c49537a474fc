// SPDX-License-Identifier: Apache-2.0

package etcd_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"causeway/fleet/etcd"
	"causeway/fleet/etcd/etcdtest"
	"causeway/fleet/lease"
	"causeway/fleet/shards"
)

func dial(t *testing.T) *clientv3.Client {
	t.Helper()
	url, _ := etcdtest.Start(t)
	return dialAt(t, url)
}

func dialAt(t *testing.T, url string) *clientv3.Client {
	t.Helper()
	c, err := etcd.Dial(etcd.Config{Endpoints: []string{url}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// said is an event in a line.
func said(e lease.Event) string {
	switch {
	case e.Assignment != nil:
		return fmt.Sprintf("epoch %v after %v, of %d", e.Epoch, e.Follows, len(e.Assignment.Members))
	case e.Complete:
		return "complete"
	}
	return fmt.Sprintf("%s at %v, %d renewals", e.Record.Member, e.Record.Epoch, e.Record.Renewals)
}

// watched collects what a store tells, until the test ends.
func watched(t *testing.T, s *etcd.Store) (next func(n int) []string, failed chan error) {
	t.Helper()
	events, failed := make(chan lease.Event, 100), make(chan error, 1)
	go func() { failed <- s.Watch(t.Context(), func(e lease.Event) { events <- e }) }()
	return func(n int) (lines []string) {
		t.Helper()
		for range n {
			select {
			case e := <-events:
				lines = append(lines, said(e))
			case err := <-failed:
				t.Fatal(err)
			case <-time.After(time.Minute):
				t.Fatalf("nothing comes after %q", lines)
			}
		}
		return lines
	}, failed
}

// newest returns the epoch of the assignment that a store has.
func newest(t *testing.T, s *etcd.Store) (is lease.Epoch) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err := s.Watch(ctx, func(e lease.Event) {
		if e.Assignment != nil {
			is = e.Epoch
		} else if e.Complete {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	return is
}

func plan(names ...string) *shards.Assignment {
	var all []shards.Member
	for _, n := range names {
		all = append(all, shards.Member{Name: n, Weight: 1})
	}
	return shards.Plan(all, nil)
}

// TestStore: only who follows the assignment that there is can renew or change it, and each sees all in one order.
func TestStore(t *testing.T) {
	c := dial(t)
	s := etcd.New(c, "test")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	early, _ := watched(t, s)
	epochs := []lease.Epoch{{}, {}, {}}
	record := func(epoch, n uint64) lease.Record {
		return lease.Record{Member: "a", Process: 7, Claim: 1, Epoch: epochs[epoch], Renewals: n}
	}
	propose := func(epoch uint64, names ...string) error {
		err := s.Propose(ctx, lease.Proposal{Epoch: epochs[epoch], Assignment: plan(names...)})
		epochs[epoch+1] = newest(t, s)
		return err
	}
	var got []error
	for _, f := range []func() error{
		func() error { return s.Renew(ctx, record(0, 1)) },
		func() error { return propose(0, "a", "b") },
		func() error { return propose(0, "a") },
		func() error { return s.Renew(ctx, record(0, 2)) },
		func() error { return s.Renew(ctx, record(1, 3)) },
		func() error { return etcd.New(c, "other").Renew(ctx, record(0, 4)) },
		func() error {
			r := record(1, 5)
			r.Epoch.ID++ // of an etcd that was set back
			return s.Renew(ctx, r)
		},
		func() error { return propose(1, "a", "b", "c") },
		func() error { return s.Renew(ctx, record(1, 6)) },
	} {
		got = append(got, f())
	}
	e := lease.ErrEpoch
	if want := []error{nil, nil, e, e, nil, nil, e, nil, e}; !slices.EqualFunc(got, want, func(a, b error) bool { return errors.Is(a, b) }) {
		t.Errorf("%v\nand not\n%v", got, want)
	}
	if lines, want := early(5), []string{"complete", "a at 0, 1 renewals", "epoch 1 after 0, of 2", "a at 1, 3 renewals", "epoch 2 after 1, of 3"}; !slices.Equal(lines, want) {
		t.Errorf("told were %q", lines)
	}
	late, _ := watched(t, s)
	if lines, want := late(3), []string{"epoch 2 after 1, of 3", "a at 1, 3 renewals", "complete"}; !slices.Equal(lines, want) {
		t.Errorf("told late were %q", lines)
	}
	if _, err := c.Delete(ctx, "/causeway/test/members/a"); err != nil {
		t.Fatal(err)
	}
	if err := s.Renew(ctx, record(2, 7)); err != nil {
		t.Fatal(err)
	}
	if lines := late(1); lines[0] != "a at 2, 7 renewals" {
		t.Errorf("after a removal %q", lines)
	}
}

// TestStoreProcesses: one process at a time has a member's name, and takes it only from the one that it knows of.
func TestStoreProcesses(t *testing.T) {
	s := etcd.New(dial(t), "test")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r := lease.ErrReplaced
	for i, c := range []struct {
		process, claim uint64
		want           error
	}{
		{1, 0, r}, {1, 1, nil}, {1, 1, nil}, {2, 1, r}, {2, 2, nil}, {1, 1, r}, {1, 2, r}, {2, 2, nil}, {3, 2, r}, {3, 3, nil},
		{1, 4, nil}, {2, 2, r}, {3, 3, r}, {1, 1, r}, // process 2 took the name from 1, which has it again; but the claim is an old one
		{3, 5, nil}, {1, 4, r},
		{1, 7, nil}, {3, 5, r}, {3, 8, nil}, // etcd was set back to before claims that there were
	} {
		if err := s.Renew(ctx, lease.Record{Member: "a", Process: c.process, Claim: c.claim}); !errors.Is(err, c.want) {
			t.Errorf("%d, process %d by claim %d: %v, want %v", i, c.process, c.claim, err, c.want)
		}
	}
	if err := s.Renew(ctx, lease.Record{Member: "a", Process: 3, Claim: 8, Epoch: lease.Epoch{Number: 9}}); !errors.Is(err, lease.ErrEpoch) {
		t.Errorf("of another assignment: %v", err)
	}
	if last, found, err := s.Record(ctx, "a"); err != nil || !found || last.Process != 3 {
		t.Errorf("%+v, %t, %v", last, found, err)
	}
	for _, c := range []struct {
		by   lease.Record
		want error
	}{
		{lease.Record{Member: "a", Process: 3, Claim: 4}, lease.ErrEpoch}, {lease.Record{Member: "a", Process: 1, Claim: 8}, lease.ErrEpoch},
		{lease.Record{Member: "b", Process: 3, Claim: 8}, lease.ErrEpoch}, {lease.Record{Member: "a", Process: 3, Claim: 8}, nil},
	} {
		if err := s.Propose(ctx, lease.Proposal{Assignment: plan("a"), By: &c.by}); !errors.Is(err, c.want) {
			t.Errorf("a proposal by %+v: %v, want %v", c.by, err, c.want)
		}
	}
	if _, found, err := s.Record(ctx, "b"); err != nil || found {
		t.Errorf("of nobody: %t, %v", found, err)
	}
}

// TestStoreTakes: where it matters, a name is taken only in place of the record that was seen.
func TestStoreTakes(t *testing.T) {
	s := etcd.New(dial(t), "test")
	first, second := lease.Record{Member: "a", Process: 1, Claim: 1}, lease.Record{Member: "a", Process: 2, Claim: 2}
	seen := func() (r lease.Record) {
		t.Helper()
		r, _, err := s.Record(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	do := func(r lease.Record, want error) {
		t.Helper()
		if err := s.Renew(t.Context(), r); !errors.Is(err, want) {
			t.Errorf("%+v: %v, want %v", r, err, want)
		}
	}
	do(first, nil)
	second.After = seen().Revision
	first.Renewals++
	do(first, nil)
	do(second, lease.ErrEpoch)
	second.After = seen().Revision
	do(second, nil)
	second.Renewals++ // it has the name, whatever the record is
	do(second, nil)
	do(first, lease.ErrReplaced)
}

// TestStoreAssignment: an assignment comes back as it was written.
func TestStoreAssignment(t *testing.T) {
	s := etcd.New(dial(t), "test")
	want, err := plan("a", "b", "c").Pin(7, "b")
	if err != nil {
		t.Fatal(err)
	}
	want.Unanimous = true
	want.Owner[5], want.Successor[6] = shards.Nobody, shards.Nobody
	want.Passing[7], want.Passing[shards.Count-1] = true, true
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := s.Propose(ctx, lease.Proposal{Assignment: want}); err != nil {
		t.Fatal(err)
	}
	err = s.Watch(ctx, func(e lease.Event) {
		if e.Complete {
			return
		}
		if e.Epoch.Number != 1 || !e.Assignment.Unanimous || !maps.Equal(e.Assignment.Pins, want.Pins) || e.Assignment.Owner != want.Owner || e.Assignment.Successor != want.Successor || e.Assignment.Passing != want.Passing || !slices.Equal(e.Assignment.Members, want.Members) {
			t.Errorf("%v: %v", e.Epoch, e.Assignment.Members)
		}
		cancel()
	})
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestPublished: what a member publishes all read, with when it began to, and whether its member has ended.
func TestPublished(t *testing.T) {
	s := etcd.New(dial(t), "test")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	do := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	do(s.Publish(ctx, "a", "one"))
	do(s.Publish(ctx, "b", "two"))
	do(s.Renew(ctx, lease.Record{Member: "a", Process: 7, Claim: 1}))
	first, err := s.Published(ctx)
	do(err)
	do(s.Publish(ctx, "a", "one"))
	do(s.Renew(ctx, lease.Record{Member: "a", Process: 7, Claim: 1, Ended: true}))
	do(s.Publish(ctx, "b", "three"))
	second, err := s.Published(ctx)
	do(err)
	if a, b := first["a"], first["b"]; len(first) != 2 || a.Text != "one" || a.Ended || b.Text != "two" || !b.Ended || a.Since >= b.Since {
		t.Errorf("at first: %+v", first)
	}
	if a, b := second["a"], second["b"]; a.Since != first["a"].Since || !a.Ended || b.Text != "three" || b.Since <= first["b"].Since {
		t.Errorf("then: %+v, after %+v", second, first)
	}
}

// TestFounded: a fleet is founded once in an etcd, and each for itself.
func TestFounded(t *testing.T) {
	c := dial(t)
	var all []uint64
	for _, fleet := range []string{"test", "test", "other"} {
		founded, err := etcd.New(c, fleet).Founded(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, founded)
	}
	if all[0] != all[1] || all[2] <= all[1] || time.Since(time.Unix(0, int64(all[0]))) > time.Minute {
		t.Errorf("founded at %v", all)
	}
	if _, err := c.Put(t.Context(), "/causeway/x/founded", "x"); err != nil {
		t.Fatal(err)
	}
	if _, err := etcd.New(c, "x").Founded(t.Context()); err == nil || !strings.Contains(err.Error(), "/causeway/x/founded") {
		t.Error(err)
	}
}

// TestStoreOfStrangers: what no fleet wrote ends a watch in one line that says where it is.
func TestStoreOfStrangers(t *testing.T) {
	c := dial(t)
	for key, value := range map[string]string{
		"assignment": `{"epoch": 1, "owner": "AAAA"}`, "members/a": "x",
	} {
		s := etcd.New(c, key)
		_, failed := watched(t, s)
		if _, err := c.Put(t.Context(), "/causeway/"+key+"/"+key, value); err != nil {
			t.Fatal(err)
		}
		if err := <-failed; err == nil || !strings.Contains(err.Error(), "/causeway/"+key+"/"+key) || !strings.Contains(err.Error(), "restore it") {
			t.Errorf("%s: %v", key, err)
		}
	}
}

// TestWatchAfterCompaction: a watch that begins anew does not miss what was compacted.
func TestWatchAfterCompaction(t *testing.T) {
	c := dial(t)
	s := etcd.New(c, "test")
	for n := range uint64(5) {
		if err := s.Renew(t.Context(), lease.Record{Member: "a", Claim: 1, Renewals: n}); err != nil {
			t.Fatal(err)
		}
	}
	got, err := c.Get(t.Context(), "x")
	if err == nil {
		_, err = c.Compact(t.Context(), got.Header.Revision)
	}
	if err != nil {
		t.Fatal(err)
	}
	next, _ := watched(t, s)
	if lines := next(1); lines[0] != "a at 0, 4 renewals" {
		t.Errorf("%q", lines)
	}
}

func TestDialMistakes(t *testing.T) {
	for endpoint, want := range map[string]string{"": "no endpoints", "10.0.0.1:2379": "no URL of a server", "ftp://x": "no URL", "https://x:1": "wants TLS"} {
		if _, err := etcd.Dial(etcd.Config{Endpoints: strings.Fields(endpoint)}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", endpoint, err)
		}
	}
}
