// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"causeway/fleet/peers"
)

func (s *Store) peerKey(name string) string { return s.prefix + "peers/" + name }

// Secret implements peers.Store. The first member that asks makes it at random. Whoever can read etcd knows it.
func (s *Store) Secret(ctx context.Context) ([]byte, error) {
	key := s.prefix + "secret"
	secret := make([]byte, peers.SecretLen)
	_, _ = rand.Read(secret) // it never fails
	text, err := json.Marshal(secret)
	if err != nil {
		return nil, err
	}
	put, get := clientv3.OpPut(key, string(text)), clientv3.OpGet(key)
	got, err := s.client.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(key), "=", 0)).Then(put).Else(get).Commit()
	switch {
	case err != nil:
		return nil, fmt.Errorf("etcd: write %s: %w", key, err)
	case got.Succeeded:
		return secret, nil
	}
	if err := unmarshal(got.Responses[0].GetResponseRange().Kvs[0], &secret); err != nil {
		return nil, err
	}
	if len(secret) != peers.SecretLen {
		return nil, fmt.Errorf("etcd: %s has %d bytes, and not %d; remove it while no bridge runs", key, len(secret), peers.SecretLen)
	}
	return secret, nil
}

// PutPeer implements peers.Store.
func (s *Store) PutPeer(ctx context.Context, member string, r peers.Record) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if _, err := s.client.Put(ctx, s.peerKey(member), string(text)); err != nil {
		return fmt.Errorf("etcd: write %s: %w", s.peerKey(member), err)
	}
	return nil
}

// RemovePeer implements peers.Store.
func (s *Store) RemovePeer(ctx context.Context, member string, r peers.Record) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	key := s.peerKey(member)
	if _, err := s.client.Txn(ctx).If(clientv3.Compare(clientv3.Value(key), "=", string(text))).Then(clientv3.OpDelete(key)).Commit(); err != nil {
		return fmt.Errorf("etcd: remove %s: %w", key, err)
	}
	return nil
}

// WatchPeers implements peers.Store.
func (s *Store) WatchPeers(ctx context.Context, f func(all map[string]peers.Record)) error {
	all := map[string]peers.Record{}
	change := func(kv *mvccpb.KeyValue, removed bool) (is bool, err error) {
		name, is := strings.CutPrefix(string(kv.Key), s.peerKey(""))
		switch {
		case !is:
		case removed:
			delete(all, name)
		default:
			var r peers.Record
			err = unmarshal(kv, &r)
			all[name] = r
		}
		return is, err
	}
	return s.watch(ctx, func(kvs []*mvccpb.KeyValue) error {
		for _, kv := range kvs {
			if _, err := change(kv, false); err != nil {
				return err
			}
		}
		f(maps.Clone(all))
		return nil
	}, func(e *mvccpb.Event) error {
		is, err := change(e.Kv, e.Type == mvccpb.DELETE)
		if is && err == nil {
			f(maps.Clone(all))
		}
		return err
	})
}
