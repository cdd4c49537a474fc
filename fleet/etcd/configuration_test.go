// SPDX-License-Identifier: Apache-2.0

package etcd_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"causeway/fleet/etcd"
)

// seen is what a member has read.
type seen struct {
	t    *testing.T
	s    *etcd.Store
	last *etcd.Configurations
}

// is checks what is current, what is proposed, and who is to follow.
func (x *seen) is(what string, current, proposed uint64, follow ...string) {
	x.t.Helper()
	now, err := x.s.Configurations(x.t.Context(), x.last)
	if err != nil {
		x.t.Fatal(err)
	}
	x.last = now
	version, follows := uint64(0), []string(nil)
	if p := now.Proposal; p != nil {
		version, follows = p.Version, p.Follow
	}
	if c := now.Current; c.Version != current || version != proposed || !slices.Equal(follows, follow) || current == 1 && (c.Text != "a" || c.By != "me") {
		x.t.Errorf("%s: %+v, %+v", what, c, now.Proposal)
	}
}

// TestPush: one push at a time proposes, has members follow and makes current; what was undone has a version of its own.
func TestPush(t *testing.T) {
	c := dial(t)
	s := etcd.New(c, "test")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	is := (&seen{t, s, nil}).is
	push := func(text string) *etcd.Push {
		t.Helper()
		p, err := s.Push(ctx, text, "me")
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	good := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	is("nothing", 0, 0)
	first := push("a")
	is("proposed", 0, 1)
	if _, err := s.Push(ctx, "b", "another"); !errors.Is(err, etcd.ErrPushing) || !strings.HasSuffix(err.Error(), ": me") {
		t.Errorf("a second push: %v", err)
	}
	good(first.Follow(ctx, []string{"m1"}))
	is("m1 follows", 0, 1, "m1")
	good(first.Commit(ctx))
	is("current", 1, 0)
	undone := push("b")
	good(undone.End(ctx))
	is("undone", 1, 0)
	dying := push("c")
	is("another", 1, 3)
	if got, err := c.Get(ctx, "/causeway/test/configuration/proposal"); err != nil || got.Kvs[0].Lease == 0 {
		t.Errorf("a push that dies leaves its proposal: %v, %v", got, err)
	} else if _, err := c.Delete(ctx, "/causeway/test/configuration/proposal"); err != nil {
		t.Fatal(err)
	}
	next := push("d")
	for what, err := range map[string]error{"follow": dying.Follow(ctx, []string{"m1"}), "commit": dying.Commit(ctx), "end": dying.End(ctx)} {
		if !errors.Is(err, etcd.ErrPushLost) {
			t.Errorf("%s of a push that is none any more: %v", what, err)
		}
	}
	is("the next", 1, 4)
	good(next.Commit(ctx))
	is("the next is current", 4, 0)
}

// TestFollowers: each member's word is kept by its name, until it takes it back.
func TestFollowers(t *testing.T) {
	s := etcd.New(dial(t), "test")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	one := etcd.Follower{Checked: 3, Refuses: "no", Version: 2}
	for name, f := range map[string]*etcd.Follower{"m1": &one, "m2": {Version: 1}, "m3": nil} {
		if err := s.Follows(ctx, name, f); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Follows(ctx, "m2", nil); err != nil {
		t.Fatal(err)
	}
	if all, err := s.Followers(ctx); err != nil || len(all) != 1 || all["m1"] != one {
		t.Errorf("followers are %+v, %v", all, err)
	}
}

// TestPutBack: an etcd that was emptied gets back what was current, once, and the next push has the next version.
func TestPutBack(t *testing.T) {
	c := dial(t)
	s := etcd.New(c, "test")
	is := (&seen{t, s, nil}).is
	for _, put := range []etcd.Configuration{{Version: 1, Text: "a", By: "me"}, {Version: 7, Text: "b", By: "another"}} {
		if err := s.PutBack(t.Context(), &put); err != nil {
			t.Fatal(err)
		}
		is("put back", 1, 0)
	}
	p, err := s.Push(t.Context(), "b", "me")
	if err != nil || p.Proposal.Version != 2 {
		t.Fatal(p, err)
	}
	is("then pushed", 1, 2)
}
