// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"causeway/fleet/lease"
)

// Configuration is what all members of a fleet share of theirs, as it was pushed.
type Configuration struct {
	Version uint64 `json:"version"` // of pushes that were undone, too, so that no two have one; 0: there was no push
	Text    string `json:"text"`
	By      string `json:"by"` // who pushed it
}

// Proposal is a configuration that a push is about to make current. It is there as long as the push is.
type Proposal struct {
	Configuration
	Follow []string `json:"follow"` // members that are to have it already; all others have the current one
}

// Follower is what a member says of configurations.
type Follower struct {
	Checked uint64 `json:"checked"`           // the version of the last proposal that it has checked
	Refuses string `json:"refuses,omitempty"` // why it cannot have that one; "": it can
	Version uint64 `json:"version"`           // that it has
	Tried   uint64 `json:"tried"`             // the version that it has tried last to have
	Failed  string `json:"failed,omitempty"`  // why it could not; "": it could
	Unready string `json:"unready,omitempty"` // why it is not ready, but for differing from most
	Differs string `json:"differs,omitempty"` // in what it differs from most
}

// ErrPushing is returned for a push while there is another one.
var ErrPushing = errors.New("etcd: another push is under way")

// ErrPushLost is returned when a push is none any more: etcd did not hear of it for PushSeconds.
var ErrPushLost = fmt.Errorf("etcd: this push was not heard of for %d seconds, and so is over: members go back by themselves", PushSeconds)

// PushSeconds is how long a proposal outlives a push that has died. It is a lease's, which a new leader of etcd may prolong:
// nothing depends on how long it is.
const PushSeconds = 10

// patience is how long etcd may take: a push that it has not heard of for longer is none.
const patience = PushSeconds * time.Second

func (s *Store) currentKey() string  { return s.prefix + "configuration/current" }
func (s *Store) proposalKey() string { return s.prefix + "configuration/proposal" }
func (s *Store) versionKey() string  { return s.prefix + "configuration/version" }
func (s *Store) followerKey(name string) string {
	return s.prefix + "configuration/members/" + name
}

// Configurations are what there was when they were last read. The zero value was not read yet.
type Configurations struct {
	Current  Configuration
	Proposal *Proposal // nil: there is none
	revision [2]int64  // of their keys
	watches  int64     // as in Store
}

// Configurations returns what there is. When that is what last has, it is not read again.
func (s *Store) Configurations(ctx context.Context, last *Configurations) (*Configurations, error) {
	keys := [2]string{s.currentKey(), s.proposalKey()}
	get := func(options ...clientv3.OpOption) ([2]*mvccpb.KeyValue, error) {
		var out [2]*mvccpb.KeyValue
		got, err := s.getAll(ctx, clientv3.OpGet(keys[0], options...), clientv3.OpGet(keys[1], options...))
		if err != nil {
			return out, err
		}
		for i, r := range got {
			if kvs := r.GetResponseRange().Kvs; len(kvs) > 0 {
				out[i] = kvs[0]
			}
		}
		return out, nil
	}
	revisions := func(kvs [2]*mvccpb.KeyValue) (r [2]int64) {
		for i, kv := range kvs {
			r[i] = kv.GetModRevision()
		}
		return r
	}
	watches := s.watches.Load()
	if last != nil && last.watches == watches {
		if kvs, err := get(clientv3.WithKeysOnly()); err != nil || revisions(kvs) == last.revision {
			return last, err
		}
	}
	kvs, err := get()
	if err != nil {
		return last, err
	}
	c := &Configurations{revision: revisions(kvs), watches: watches}
	if kvs[0] != nil {
		err = unmarshal(kvs[0], &c.Current)
	}
	if kvs[1] != nil && err == nil {
		err = unmarshal(kvs[1], &c.Proposal)
	}
	return c, err
}

func unmarshal(kv *mvccpb.KeyValue, to any) error {
	if err := json.Unmarshal(kv.Value, to); err != nil {
		return fmt.Errorf("etcd: %s was not written by a fleet of this version: %w", kv.Key, err)
	}
	return nil
}

// PutBack makes a configuration the current one where etcd has none: it was emptied.
func (s *Store) PutBack(ctx context.Context, c *Configuration) error {
	text, err := json.Marshal(c)
	if err != nil {
		return err
	}
	key := s.currentKey()
	_, err = s.client.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(key), "=", 0)).
		Then(clientv3.OpPut(key, string(text)), clientv3.OpPut(s.versionKey(), strconv.FormatUint(c.Version, 10))).Commit()
	if err != nil {
		return fmt.Errorf("etcd: write %s: %w", key, err)
	}
	return nil
}

// Follows keeps what a member says; nil: it takes no configuration from here.
func (s *Store) Follows(ctx context.Context, member string, f *Follower) error {
	key := s.followerKey(member)
	op := clientv3.OpDelete(key)
	if f != nil {
		text, err := json.Marshal(f)
		if err != nil {
			return err
		}
		op = clientv3.OpPut(key, string(text))
	}
	if _, err := s.client.Do(ctx, op); err != nil {
		return fmt.Errorf("etcd: write %s: %w", key, err)
	}
	return nil
}

// Followers returns what members say, by their names.
func (s *Store) Followers(ctx context.Context) (map[string]Follower, error) {
	got, err := s.get(ctx, s.followerKey(""), clientv3.WithPrefix())
	if err != nil {
		return nil, err
	}
	all := map[string]Follower{}
	for _, kv := range got.Kvs {
		var f Follower
		if err := unmarshal(kv, &f); err != nil {
			return nil, err
		}
		all[strings.TrimPrefix(string(kv.Key), s.followerKey(""))] = f
	}
	return all, nil
}

// Records returns the last records of all members, by their names.
func (s *Store) Records(ctx context.Context) (map[string]lease.Record, error) {
	got, err := s.get(ctx, s.memberKey(""), clientv3.WithPrefix())
	if err != nil {
		return nil, err
	}
	all := map[string]lease.Record{}
	for _, kv := range got.Kvs {
		var r lease.Record
		if err := unmarshal(kv, &r); err != nil {
			return nil, err
		}
		all[r.Member] = r
	}
	return all, nil
}

// Push is a push that is under way. There is one at a time.
type Push struct {
	Proposal Proposal
	Before   Configuration // the current one
	store    *Store
	lease    clientv3.LeaseID
	revision int64 // of the proposal's key
}

// Push proposes a configuration. The proposal is there until Commit, End, or until lasting has ended for PushSeconds.
func (s *Store) Push(lasting context.Context, text, by string) (*Push, error) {
	ctx, end := context.WithTimeout(lasting, patience)
	defer end()
	now, err := s.Configurations(ctx, nil)
	if err != nil {
		return nil, err
	}
	if now.Proposal != nil {
		return nil, fmt.Errorf("%w: %s", ErrPushing, now.Proposal.By)
	}
	got, err := s.get(ctx, s.versionKey())
	if err != nil {
		return nil, err
	}
	unchanged, version := clientv3.Compare(clientv3.CreateRevision(s.versionKey()), "=", 0), uint64(0)
	for _, kv := range got.Kvs {
		if err := unmarshal(kv, &version); err != nil {
			return nil, err
		}
		unchanged = clientv3.Compare(clientv3.Value(s.versionKey()), "=", string(kv.Value))
	}
	granted, err := s.client.Grant(ctx, PushSeconds)
	if err != nil {
		return nil, fmt.Errorf("etcd: write %s: %w", s.proposalKey(), err)
	}
	p := &Push{Proposal{Configuration: Configuration{version + 1, text, by}}, now.Current, s, granted.ID, 0}
	err = p.write(ctx, ErrPushing, []clientv3.Cmp{unchanged, clientv3.Compare(clientv3.CreateRevision(s.proposalKey()), "=", 0)},
		clientv3.OpPut(s.versionKey(), strconv.FormatUint(version+1, 10)))
	if err != nil {
		return nil, err
	}
	alive, err := s.client.KeepAlive(lasting, p.lease)
	if err != nil {
		return nil, errors.Join(err, p.End(ctx))
	}
	go func() {
		for range alive { // until lasting ends
		}
	}()
	return p, nil
}

// write writes the proposal, and what else there is to write, when all of when is true.
func (p *Push) write(ctx context.Context, otherwise error, when []clientv3.Cmp, more ...clientv3.Op) error {
	text, err := json.Marshal(p.Proposal)
	if err != nil {
		return err
	}
	return p.commit(ctx, otherwise, when, append(more, clientv3.OpPut(p.store.proposalKey(), string(text), clientv3.WithLease(p.lease)))...)
}

func (p *Push) commit(ctx context.Context, otherwise error, when []clientv3.Cmp, ops ...clientv3.Op) error {
	ctx, end := context.WithTimeout(ctx, patience)
	defer end()
	done, err := p.store.client.Txn(ctx).If(when...).Then(ops...).Commit()
	if err != nil {
		return fmt.Errorf("etcd: write %s: %w", p.store.proposalKey(), err)
	}
	if !done.Succeeded {
		return otherwise
	}
	p.revision = done.Header.Revision
	return nil
}

// own is true while the proposal is this push's.
func (p *Push) own() []clientv3.Cmp {
	return []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(p.store.proposalKey()), "=", p.revision)}
}

// Follow has these members follow, and no others.
func (p *Push) Follow(ctx context.Context, members []string) error {
	p.Proposal.Follow = slices.Clone(members)
	return p.write(ctx, ErrPushLost, p.own())
}

// Commit makes the configuration the current one.
func (p *Push) Commit(ctx context.Context) error {
	text, err := json.Marshal(p.Proposal.Configuration)
	if err != nil {
		return err
	}
	return p.commit(ctx, ErrPushLost, p.own(), clientv3.OpPut(p.store.currentKey(), string(text)), clientv3.OpDelete(p.store.proposalKey()))
}

// End takes the proposal back.
func (p *Push) End(ctx context.Context) error {
	return p.commit(ctx, ErrPushLost, p.own(), clientv3.OpDelete(p.store.proposalKey()))
}
