// SPDX-License-Identifier: Apache-2.0

// Package etcd keeps a fleet's assignment and its members' records in etcd, version 3.4 or later.
//
//	PREFIX/epoch           the assignment's number and ID, which transactions compare
//	PREFIX/assignment      the assignment, written with its number in one transaction
//	PREFIX/members/NAME    a member's record
//	PREFIX/notes/NAME      what a member told last of shards that are about to pass
//	PREFIX/processes/NAME  the process that has the member's name, and by which claim, which transactions compare, too
//	PREFIX/shared/NAME     what a member publishes for the others to compare
//	PREFIX/configuration/  what all share of their configurations: the current one, that of a push under way, what members say
//	PREFIX/peers/NAME      where the others reach a member's process by themselves
//	PREFIX/secret          what only members know, by which they know each other's messages
//	PREFIX/founded         when the first member came, which tells the fleet from one of its name in another etcd
//
// Values are JSON. etcd's own leases are not used: they are granted in whole seconds, and a new leader prolongs them.
package etcd

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"causeway/fleet/lease"
	"causeway/fleet/shards"
)

// Store is a fleet's part of an etcd. It implements lease.Store.
type Store struct {
	client    *clientv3.Client
	prefix    string
	committed atomic.Int64           // the revision of what a watch has to tell: the last renewal, or another assignment than one's own
	last      atomic.Int64           // the revision of the member's record, as far as it is known
	watches   atomic.Int64           // that have begun: of what was read before the last, etcd may have something else by the same revision
	behind    atomic.Pointer[string] // the address of the server whose watch was behind last; nil: none was
}

// New returns the store of a fleet by a client, which stays the caller's.
func New(client *clientv3.Client, fleet string) *Store {
	return &Store{client: client, prefix: "/causeway/" + fleet + "/"}
}

func (s *Store) epochKey() string             { return s.prefix + "epoch" }
func (s *Store) assignmentKey() string        { return s.prefix + "assignment" }
func (s *Store) memberKey(name string) string { return s.prefix + "members/" + name }
func (s *Store) noteKey(name string) string   { return s.prefix + "notes/" + name }
func (s *Store) processKey(name string) string {
	return s.prefix + "processes/" + name
}

// assignment is how an assignment is kept: an owner and a successor is a byte of the text, its index among the members; passing is 0 or 1.
type assignment struct {
	Epoch     lease.Epoch     `json:"epoch"`
	Follows   lease.Epoch     `json:"follows"`
	Members   []shards.Member `json:"members"`
	Owner     []byte          `json:"owner"`
	Successor []byte          `json:"successor"`
	Passing   []byte          `json:"passing"`

	Pins      map[string]string `json:"pins,omitempty"` // names of members by names of shards
	Unanimous bool              `json:"unanimous,omitempty"`
}

func encode(epoch, follows lease.Epoch, a *shards.Assignment) ([]byte, error) {
	kept := assignment{epoch, follows, a.Members, make([]byte, shards.Count), make([]byte, shards.Count), make([]byte, shards.Count), map[string]string{}, a.Unanimous}
	for s, member := range a.Pins {
		kept.Pins[s.String()] = member
	}
	for i := range shards.Count {
		kept.Owner[i], kept.Successor[i] = byte(a.Owner[i]), byte(a.Successor[i])
		if a.Passing[i] {
			kept.Passing[i] = 1
		}
	}
	return json.Marshal(kept)
}

func decode(text []byte) (e lease.Event, err error) {
	var kept assignment
	if err := json.Unmarshal(text, &kept); err != nil {
		return e, err
	}
	if len(kept.Owner) != shards.Count || len(kept.Successor) != shards.Count || len(kept.Passing) != shards.Count {
		return e, fmt.Errorf("it has %d owners, %d successors and %d that pass or do not; there are %d shards", len(kept.Owner), len(kept.Successor), len(kept.Passing), shards.Count)
	}
	a := &shards.Assignment{Members: kept.Members, Pins: map[shards.Shard]string{}, Unanimous: kept.Unanimous}
	for name, member := range kept.Pins {
		s, err := shards.ParseShard(name)
		if err != nil {
			return e, err
		}
		a.Pins[s] = member
	}
	for i := range shards.Count {
		a.Owner[i], a.Successor[i], a.Passing[i] = int8(kept.Owner[i]), int8(kept.Successor[i]), kept.Passing[i] == 1
		for _, m := range []int8{a.Owner[i], a.Successor[i]} {
			if m != shards.Nobody && (m < 0 || int(m) >= len(a.Members)) {
				return e, fmt.Errorf("%v belongs to member %d of %d", shards.Shard(i), m, len(a.Members))
			}
		}
	}
	return lease.Event{Epoch: kept.Epoch, Follows: kept.Follows, Assignment: a}, nil
}

// Watch implements lease.Store.
func (s *Store) Watch(ctx context.Context, f func(lease.Event)) error {
	return s.watch(ctx, func(all []*mvccpb.KeyValue) error {
		for _, kv := range all {
			if err := s.tell(kv, f); err != nil {
				return err
			}
		}
		f(lease.Event{Complete: true})
		return nil
	}, func(e *mvccpb.Event) error {
		if e.Type == mvccpb.DELETE {
			return nil // a record that an operator removed says nothing: its member may still forward
		}
		return s.tell(e.Kv, f)
	})
}

// Record returns a member's last record; false: it has none. A member does not ask for another's by the store of its own renewals.
func (s *Store) Record(ctx context.Context, member string) (r lease.Record, found bool, err error) {
	got, err := s.get(ctx, s.memberKey(member))
	if err != nil {
		return r, false, err
	}
	for _, kv := range got.Kvs {
		err = s.tell(kv, func(e lease.Event) { r, found = e.Record, true })
		s.last.Store(kv.ModRevision) // who reads it is to end it
	}
	return r, found, err
}

// tell has f know a key's value.
func (s *Store) tell(kv *mvccpb.KeyValue, f func(lease.Event)) error {
	var e lease.Event
	var err error
	switch key := string(kv.Key); {
	case key == s.assignmentKey():
		e, err = decode(kv.Value)
	case strings.HasPrefix(key, s.memberKey("")):
		err = json.Unmarshal(kv.Value, &e.Record)
		e.Record.Revision = kv.ModRevision
	case strings.HasPrefix(key, s.noteKey("")):
		err = json.Unmarshal(kv.Value, &e.Note)
	default:
		return nil
	}
	if err != nil {
		return fmt.Errorf("etcd: %s was not written by a fleet of this version: %w; restore it, or remove all below %s while no bridge runs", kv.Key, err, s.prefix)
	}
	f(e)
	return nil
}

// at is true while the assignment is that of an epoch.
func (s *Store) at(epoch lease.Epoch) clientv3.Cmp {
	if epoch == (lease.Epoch{}) {
		return clientv3.Compare(clientv3.CreateRevision(s.epochKey()), "=", 0)
	}
	return clientv3.Compare(clientv3.Value(s.epochKey()), "=", valueOf(epoch))
}

// valueOf is how an epoch is kept.
func valueOf(e lease.Epoch) string { return fmt.Sprintf("%d %016x", e.Number, e.ID) }

// Renew implements lease.Store. It is sent again while there is no answer: what is carried out late, after it has been or after
// another record of the member, changes nothing.
func (s *Store) Renew(ctx context.Context, r lease.Record) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	own, name := holder{r.Process, r.Claim}, s.processKey(r.Member)
	holds, err := json.Marshal(own)
	if err != nil {
		return err
	}
	for {
		last := s.last.Load()
		done, err := again(ctx, pause(ctx, patience), func(ctx context.Context) (*clientv3.TxnResponse, error) {
			return s.renewal(ctx, &r, string(text), string(holds), last)
		})
		if err != nil {
			return fmt.Errorf("etcd: write below %s: %w", s.prefix, err)
		}
		if done.Succeeded {
			s.last.Store(done.Header.Revision)
			s.committed.Store(done.Header.Revision)
			return nil
		}
		for _, epoch := range done.Responses[2].GetResponseRange().Kvs {
			if string(epoch.Value) != valueOf(r.Epoch) {
				s.committed.Store(epoch.ModRevision)
			}
		}
		var has holder // nobody
		before := clientv3.Compare(clientv3.CreateRevision(name), "=", 0)
		for _, kv := range done.Responses[0].GetResponseRange().Kvs {
			if err := json.Unmarshal(kv.Value, &has); err != nil {
				return fmt.Errorf("etcd: %s is %s, which was not written by a fleet of this version: %w", name, kv.Value, err)
			}
			before = clientv3.Compare(clientv3.Value(name), "=", string(kv.Value))
		}
		if has != own {
			if has.Claim >= own.Claim {
				return lease.ErrReplaced
			}
			when := []clientv3.Cmp{s.at(r.Epoch), before}
			if r.After != 0 {
				when = append(when, clientv3.Compare(clientv3.ModRevision(s.memberKey(r.Member)), "=", r.After))
			}
			return s.write(ctx, when, clientv3.OpPut(s.memberKey(r.Member), string(text)), clientv3.OpPut(name, string(holds)))
		}
		now, is := revisionOf(done.Responses[1].GetResponseRange().Kvs, text)
		s.last.Store(now)
		switch {
		case is:
			s.committed.Store(now)
			return nil
		case now == last:
			return lease.ErrEpoch
		}
	}
}

// renewal writes a record in place of the one of a revision, while the assignment is its epoch's and the process has its name. Else
// it reads who has that, the record, and the epoch.
func (s *Store) renewal(ctx context.Context, r *lease.Record, text, holds string, last int64) (*clientv3.TxnResponse, error) {
	key, name := s.memberKey(r.Member), s.processKey(r.Member)
	when := []clientv3.Cmp{s.at(r.Epoch), clientv3.Compare(clientv3.Value(name), "=", holds), clientv3.Compare(clientv3.ModRevision(key), "=", last)}
	return s.client.Txn(ctx).If(when...).Then(clientv3.OpPut(key, text)).Else(clientv3.OpGet(name), clientv3.OpGet(key), clientv3.OpGet(s.epochKey())).Commit()
}

// revisionOf returns of which revision a key is, 0 if it is not there, and whether it has this value.
func revisionOf(of []*mvccpb.KeyValue, text []byte) (revision int64, is bool) {
	for _, kv := range of {
		revision, is = kv.ModRevision, bytes.Equal(kv.Value, text)
	}
	return revision, is
}

// holder is which process has a member's name, and by which claim.
type holder struct {
	Process uint64 `json:"process"`
	Claim   uint64 `json:"claim"`
}

// Tell implements lease.Store.
func (s *Store) Tell(ctx context.Context, n lease.Note) error {
	text, err := json.Marshal(n)
	if err != nil {
		return err
	}
	_, err = again(ctx, pause(ctx, patience), func(ctx context.Context) (*clientv3.PutResponse, error) {
		return s.client.Put(ctx, s.noteKey(n.Member), string(text)) // a late copy says what no member needs any more
	})
	if err != nil {
		return fmt.Errorf("etcd: write %s: %w", s.noteKey(n.Member), err)
	}
	return nil
}

// Propose implements lease.Store. It is sent again while there is no answer: the one that comes second finds that it has been carried
// out.
func (s *Store) Propose(ctx context.Context, p lease.Proposal) error {
	next := lease.Epoch{Number: p.Epoch.Number + 1, ID: rand.Uint64()}
	text, err := encode(next, p.Epoch, p.Assignment)
	if err != nil {
		return err
	}
	when := []clientv3.Cmp{s.at(p.Epoch)}
	if by := p.By; by != nil {
		holds, err := json.Marshal(holder{by.Process, by.Claim})
		if err != nil {
			return err
		}
		when = append(when, clientv3.Compare(clientv3.Value(s.processKey(by.Member)), "=", string(holds)))
	}
	done, err := again(ctx, pause(ctx, patience), func(ctx context.Context) (*clientv3.TxnResponse, error) {
		return s.client.Txn(ctx).If(when...).Then(clientv3.OpPut(s.epochKey(), valueOf(next)), clientv3.OpPut(s.assignmentKey(), string(text))).
			Else(clientv3.OpGet(s.epochKey())).Commit()
	})
	if err != nil {
		return fmt.Errorf("etcd: write below %s: %w", s.prefix, err)
	}
	if _, is := revisionOf(done.Responses[0].GetResponseRange().GetKvs(), []byte(valueOf(next))); !done.Succeeded && !is {
		return lease.ErrEpoch
	}
	return nil
}

func (s *Store) write(ctx context.Context, when []clientv3.Cmp, ops ...clientv3.Op) error {
	done, err := s.client.Txn(ctx).If(when...).Then(ops...).Commit()
	if err != nil {
		return fmt.Errorf("etcd: write below %s: %w", s.prefix, err)
	}
	if !done.Succeeded {
		return lease.ErrEpoch
	}
	return nil
}
