// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"causeway/fleet/lease"
)

// Published is what a member has published.
type Published struct {
	Text  string
	Since int64 // etcd's revision when the member began to: what was published earlier has a lower one
	Ended bool  // the member's last record says so, or it has none
}

func (s *Store) sharedKey(name string) string { return s.prefix + "shared/" + name }

// Publish keeps a text of a member for the others. It writes nothing when that text is kept already.
func (s *Store) Publish(ctx context.Context, member, text string) error {
	key := s.sharedKey(member)
	_, err := s.client.Txn(ctx).If(clientv3.Compare(clientv3.Value(key), "=", text)).Else(clientv3.OpPut(key, text)).Commit()
	if err != nil {
		return fmt.Errorf("etcd: write %s: %w", key, err)
	}
	return nil
}

// Published returns what all members have published, by their names.
func (s *Store) Published(ctx context.Context) (map[string]Published, error) {
	texts, records := clientv3.OpGet(s.sharedKey(""), clientv3.WithPrefix()), clientv3.OpGet(s.memberKey(""), clientv3.WithPrefix())
	got, err := s.getAll(ctx, texts, records)
	if err != nil {
		return nil, err
	}
	out := map[string]Published{}
	for _, kv := range got[0].GetResponseRange().Kvs {
		out[strings.TrimPrefix(string(kv.Key), s.sharedKey(""))] = Published{string(kv.Value), kv.ModRevision, true}
	}
	for _, kv := range got[1].GetResponseRange().Kvs {
		var r lease.Record
		if err := json.Unmarshal(kv.Value, &r); err != nil {
			return nil, fmt.Errorf("etcd: %s was not written by a fleet of this version: %w", kv.Key, err)
		}
		if p, there := out[r.Member]; there {
			p.Ended = r.Ended
			out[r.Member] = p
		}
	}
	return out, nil
}

// Founded returns when the fleet was founded here, Unix time in nanoseconds: when the first member asked, by its clock.
func (s *Store) Founded(ctx context.Context) (uint64, error) {
	key := s.prefix + "founded"
	put := clientv3.OpPut(key, strconv.FormatInt(time.Now().UnixNano(), 10))
	got, err := s.client.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(key), "=", 0)).Then(put, clientv3.OpGet(key)).Else(clientv3.OpGet(key)).Commit()
	if err != nil {
		return 0, fmt.Errorf("etcd: write %s: %w", key, err)
	}
	last := got.Responses[len(got.Responses)-1].GetResponseRange().Kvs
	founded, err := strconv.ParseUint(string(last[0].Value), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("etcd: %s was not written by a fleet: %w", key, err)
	}
	return founded, nil
}
