// SPDX-License-Identifier: Apache-2.0

package etcd_test

import (
	"bytes"
	"context"
	"reflect"
	"sync"
	"testing"
	"time"

	"causeway/fleet/etcd"
	"causeway/fleet/peers"
)

var _ peers.Store = (*etcd.Store)(nil)

// TestSecret: all members of a fleet get one secret, whoever asks first; another fleet has another.
func TestSecret(t *testing.T) {
	c := dial(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var got [8][]byte
	var asking sync.WaitGroup
	for i := range got {
		asking.Go(func() {
			var err error
			if got[i], err = etcd.New(c, "test").Secret(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	asking.Wait()
	for i, s := range got {
		if len(s) != peers.SecretLen || !bytes.Equal(s, got[0]) || bytes.Equal(s, make([]byte, peers.SecretLen)) {
			t.Errorf("%d: %x and %x", i, s, got[0])
		}
	}
	if other, err := etcd.New(c, "other").Secret(ctx); err != nil || bytes.Equal(other, got[0]) {
		t.Errorf("another fleet has %x, %v", other, err)
	}
	if _, err := c.Put(ctx, "/causeway/test/secret", `"c2hvcnQ="`); err != nil {
		t.Fatal(err)
	}
	if s, err := etcd.New(c, "test").Secret(ctx); err == nil {
		t.Errorf("a secret of %d bytes is taken", len(s))
	}
}

// TestPeers: each change comes with all records that there are, and a record is removed only by who has written it last.
func TestPeers(t *testing.T) {
	c := dial(t)
	s := etcd.New(c, "test")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	record := func(process uint64, address peers.Address) peers.Record {
		return peers.Record{Process: process, Addresses: map[string]peers.Address{"ethernet": address}}
	}
	do := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	do(s.PutPeer(ctx, "a", record(1, "x")))
	came := make(chan map[string]peers.Record, 10)
	go func() { _ = s.WatchPeers(ctx, func(all map[string]peers.Record) { came <- all }) }() // it ends with ctx
	want := func(all map[string]peers.Record) {
		t.Helper()
		select {
		case got := <-came:
			if !reflect.DeepEqual(got, all) {
				t.Errorf("%v and not %v", got, all)
			}
		case <-ctx.Done():
			t.Fatalf("%v does not come", all)
		}
	}
	want(map[string]peers.Record{"a": record(1, "x")})
	do(s.PutPeer(ctx, "b", record(2, "y")))
	want(map[string]peers.Record{"a": record(1, "x"), "b": record(2, "y")})
	moved := peers.Record{Process: 3, Addresses: map[string]peers.Address{"infiniband": "z"}}
	do(s.PutPeer(ctx, "b", moved))
	want(map[string]peers.Record{"a": record(1, "x"), "b": moved})
	do(s.RemovePeer(ctx, "b", record(2, "y"))) // of the process before: it changes nothing
	do(etcd.New(c, "other").PutPeer(ctx, "c", record(4, "w")))
	do(s.RemovePeer(ctx, "b", moved))
	want(map[string]peers.Record{"a": record(1, "x")})
	if _, err := c.Put(ctx, "/causeway/test/peers/c", "{"); err != nil {
		t.Fatal(err)
	}
	if err := s.WatchPeers(ctx, func(map[string]peers.Record) {}); err == nil {
		t.Error("what is no record is taken")
	}
}
