// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/peer"
)

// A server of etcd whose disk is stalled takes requests and answers none, for as long as that takes; it says that it leads when
// another does; and what watches there hears nothing, while connections to it are alive. So is a request lost that another
// server has passed on to a leader that is none any more. Neither is known from an error: only time tells.

// copies is how often a request is sent at most: to each of three servers, and again when they have another leader.
const copies = 5

// readPatience is how long a read may take. A fleet's is small.
const readPatience = 2 * time.Second

// again sends a request that may be carried out any number of times, and sends it again, to the next server, as long as there
// is no answer. The first answer counts; an error does when no other copy is under way.
func again[T any](ctx context.Context, every time.Duration, request func(context.Context) (T, error)) (T, error) {
	type answer struct {
		is  T
		err error
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answers := make(chan answer, copies)
	ticks := time.NewTicker(every)
	defer ticks.Stop()
	send := func() {
		go func() {
			is, err := request(ctx)
			answers <- answer{is, err}
		}()
	}
	send()
	for sent, failed := 1, 0; ; {
		select {
		case a := <-answers:
			if a.err != nil {
				failed++
			}
			if a.err == nil || failed == sent {
				return a.is, a.err
			}
		case <-ticks.C:
			if sent < copies && ctx.Err() == nil {
				sent++
				send()
			}
		}
	}
}

// pause is how long a request of this context waits for an answer before it is sent again.
func pause(ctx context.Context, patience time.Duration) time.Duration {
	if end, has := ctx.Deadline(); has {
		patience = min(patience, time.Until(end))
	}
	return max(patience/copies, time.Millisecond)
}

// get reads a key, or with options several.
func (s *Store) get(ctx context.Context, key string, options ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	got, err := again(ctx, pause(ctx, readPatience/4), func(ctx context.Context) (*clientv3.GetResponse, error) {
		return s.client.Get(ctx, key, options...)
	})
	if err != nil {
		return nil, fmt.Errorf("etcd: read %s: %w", key, err)
	}
	return got, nil
}

// getAll reads several at one time. The first one names them in an error.
func (s *Store) getAll(ctx context.Context, gets ...clientv3.Op) ([]*etcdserverpb.ResponseOp, error) {
	got, err := again(ctx, pause(ctx, readPatience/4), func(ctx context.Context) (*clientv3.TxnResponse, error) {
		return s.client.Txn(ctx).Then(gets...).Commit()
	})
	if err != nil {
		return nil, fmt.Errorf("etcd: read %s: %w", gets[0].KeyBytes(), err)
	}
	return got.Responses, nil
}

// watch gives all that the fleet has there to read, and then each change to f. It fails when etcd has no leader, or its server does
// not tell what another has committed, so that who asks another of its servers gets on; and when the connection ends: an etcd that
// was set back meanwhile tells nothing of that, and has each revision again. A client's Watcher would go on in silence.
func (s *Store) watch(ctx context.Context, read func([]*mvccpb.KeyValue) error, f func(*mvccpb.Event) error) error {
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	timed, end := context.WithTimeout(ctx, readPatience)
	defer end()
	s.watches.Add(1)
	got, err := s.get(timed, s.prefix, clientv3.WithPrefix())
	if err == nil {
		err = read(got.Kvs)
	}
	if err != nil {
		return err
	}
	if was := s.committed.Load(); was > got.Header.Revision { // etcd was set back since, or this was renewed just now
		s.committed.CompareAndSwap(was, got.Header.Revision)
	}
	x, err := s.stream(ctx, got.Header.Revision+1)
	if err == nil {
		defer x.end()
		events, ended := x.told()
		if err = s.follow(ctx, events, ended, got.Header.Revision, f); errors.Is(err, errBehind) {
			s.behind.Store(&x.at)
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return fmt.Errorf("etcd: watch %s: %w", s.prefix, err)
}

// A stream is what one of etcd's servers tells of changes.
type stream struct {
	etcdserverpb.Watch_WatchClient
	at  string // the server's address
	end context.CancelFunc
}

const (
	// beginPatience is how long a server may take to begin: one that stands still does not. When none of three has, each may take
	// twice as long.
	beginPatience = 100 * time.Millisecond
	beginTimes    = 2 * copies
)

// stream has one of etcd's servers tell of changes from a revision on: the next that begins to in time, and was not the last one that
// was behind, as long as there are others.
func (s *Store) stream(ctx context.Context, from int64) (*stream, error) {
	for times := 1; ; times++ {
		trying, cancel := context.WithCancel(ctx)
		timer := time.AfterFunc(beginPatience<<((times-1)/3), cancel)
		x, err := s.begin(trying, from)
		if err == nil && !timer.Stop() {
			err = context.DeadlineExceeded
		}
		if err == nil && (times == beginTimes || s.behind.Load() == nil || *s.behind.Load() != x.at) {
			x.end = cancel
			return x, nil
		}
		cancel()
		if err != nil && (times == beginTimes || ctx.Err() != nil) {
			return nil, err
		}
	}
}

// begin has the next of etcd's servers begin to tell, until ctx ends. It fails where that one does not have the revision before.
func (s *Store) begin(ctx context.Context, from int64) (*stream, error) {
	// The limit is that of the client's other calls.
	w, err := etcdserverpb.NewWatchClient(s.client.ActiveConnection()).Watch(ctx, grpc.MaxCallRecvMsgSize(math.MaxInt32))
	if err != nil {
		return nil, err
	}
	create := &etcdserverpb.WatchCreateRequest{Key: []byte(s.prefix), RangeEnd: []byte(clientv3.GetPrefixRangeEnd(s.prefix)), StartRevision: from}
	if err := w.Send(&etcdserverpb.WatchRequest{RequestUnion: &etcdserverpb.WatchRequest_CreateRequest{CreateRequest: create}}); err != nil {
		return nil, err
	}
	x := &stream{Watch_WatchClient: w}
	r, err := x.next() // it says that it has begun
	if err == nil && r.Header.Revision < from-1 {
		err = errBehind // it, or etcd was set back since what was read
	}
	if p, is := peer.FromContext(w.Context()); is {
		x.at = p.Addr.String()
	}
	return x, err
}

// next returns the next that it tells.
func (x *stream) next() (*etcdserverpb.WatchResponse, error) {
	r, err := x.Recv()
	if err == nil && r.Canceled {
		err = errors.New(cmp.Or(r.CancelReason, "its server has ended it"))
	}
	return r, err
}

// told gives all that it tells, until it ends.
func (x *stream) told() (<-chan *etcdserverpb.WatchResponse, <-chan error) {
	all, ended := make(chan *etcdserverpb.WatchResponse), make(chan error, 1)
	go func() {
		for {
			r, err := x.next()
			if err != nil {
				ended <- err
				return
			}
			select {
			case all <- r:
			case <-x.Context().Done():
				return
			}
		}
	}()
	return all, ended
}

// errBehind is returned by a watch whose server does not learn what the others commit.
var errBehind = errors.New("the server does not tell of what was committed by another")

// behind is how often what is committed must have been seen to be ahead of a watch, with nothing heard in between, and each how long after
// the time before. What the caller does with an event may take longer than that: then the next one has come.
const (
	behindTimes = 3
	behindEvery = 50 * time.Millisecond
)

// follow gives events of a watch to f. It fails when this store knows of something committed, and the watch does not tell of it.
func (s *Store) follow(ctx context.Context, events <-chan *etcdserverpb.WatchResponse, ended <-chan error, from int64, f func(*mvccpb.Event) error) error {
	ticks := time.NewTicker(behindEvery)
	defer ticks.Stop()
	for times := 0; ; {
		select {
		case err := <-ended:
			return err
		case <-ctx.Done():
			return ctx.Err()
		case r := <-events:
			for _, e := range r.Events {
				if err := f(e); err != nil {
					return err
				}
				from = max(from, e.Kv.ModRevision)
			}
			times = 0
		case <-ticks.C:
			if times++; s.committed.Load() <= from {
				times = 0
			}
			if times == behindTimes {
				return errBehind
			}
		}
	}
}
