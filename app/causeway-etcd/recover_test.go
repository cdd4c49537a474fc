// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	etcd "go.etcd.io/etcd/client/v3"
)

// TestRecover follows docs/etcd.md: a voter that is dead for good is replaced, the majority is lost and comes back, and
// all data is restored of a snapshot.
func TestRecover(t *testing.T) {
	t.Parallel()
	r := newRig(t, false, "[raft]\nheartbeat = \"100ms\"\nelection = \"500ms\"\n") // nothing here is about times
	var keys []string
	for i := range 10 {
		keys = append(keys, fmt.Sprint("key ", i))
		r.put(keys[i])
	}
	r.replaced(keys)
	r.majority(keys)
	r.restored(keys)
}

// replaced loses the last voter with its data, and replaces it.
func (r *rig) replaced(keys []string) {
	t := r.t
	const dead = 2
	r.await("a leader and two followers", func() bool {
		said := r.tool(exitOK, 0, "-members")
		return strings.Count(said, "follower") == 2 && strings.Count(said, "leader") == 1
	})
	if said := r.tool(exitFailed, 0, "-replace", names[dead]); !strings.Contains(said, "it lives") {
		t.Errorf("-replace of one that lives prints %s", said)
	}
	r.voters[dead].signal(syscall.SIGKILL)
	r.voters[dead].wait()
	if err := os.RemoveAll(r.data(dead)); err != nil {
		t.Fatal(err)
	}
	if said := r.tool(exitFailed, 0, "-members"); !strings.Contains(said, "voter-c does not answer") {
		t.Errorf("-members prints\n%s", said)
	}
	r.start(dead)
	if code := r.voters[dead].wait(); code != exitFailed || !strings.Contains(r.voters[dead].stderr.String(), "-replace voter-c") {
		t.Errorf("without its data it ends with exit code %d and says\n%v", code, &r.voters[dead].stderr)
	}
	r.moved(dead)
	r.tool(exitOK, 0, "-replace", names[dead])
	begun := time.Now()
	r.start(dead)
	r.voters[dead].awaitLine("voter_ready")
	r.awaitKeys(dead, len(keys))
	t.Logf("replaced: it has the data after %v", time.Since(begun).Round(time.Millisecond))
	r.tool(exitOK, dead, "-members")
}

// moved gives a voter another peer URL, in all files.
func (r *rig) moved(i int) {
	c, err := load(r.file(i))
	if err != nil {
		r.t.Fatal(err)
	}
	at := "http://" + loopback() + ":" + freePorts(r.t, 1)[0]
	for i := range names {
		text, err := os.ReadFile(r.file(i))
		if err != nil {
			r.t.Fatal(err)
		}
		r.write(i, strings.ReplaceAll(string(text), c.self().Peer, at))
	}
}

// majority loses two of three voters: nothing is written, the third answers about the past, and ends when it is to; then
// all are there again.
func (r *rig) majority(keys []string) {
	t := r.t
	for _, i := range []int{1, 2} {
		r.voters[i].signal(syscall.SIGKILL)
		r.voters[i].wait()
	}
	r.await("no leader", func() bool { return strings.Contains(r.tool(exitFailed, 0, "-members"), "no majority") })
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := r.Put(ctx, "lost", ""); err == nil {
		t.Error("one of three voters has taken a write")
	}
	r.has(r.client(r.clients[0]), keys, etcd.WithSerializable())
	t.Logf("without a majority it ended within %v", r.voters[0].end().Round(time.Millisecond))
	r.start(0)
	r.listens(0)
	t.Logf("before it was ready it ended within %v", r.voters[0].end().Round(time.Millisecond))
	for i := range names {
		r.start(i)
	}
	for i := range names {
		r.voters[i].awaitLine("voter_ready")
	}
	r.put("again")
	r.has(r.Client, keys)
}

// listens waits until a voter listens for the others.
func (r *rig) listens(i int) {
	c, err := load(r.file(i))
	if err != nil {
		r.t.Fatal(err)
	}
	r.await(names[i]+" listens", func() bool {
		conn, err := net.Dial("tcp", c.peerListen[0].Host)
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
}

// await waits for something.
func (r *rig) await(what string, so func() bool) {
	r.t.Helper()
	for deadline := time.Now().Add(within); !so(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			r.t.Fatalf("%s: not within %v", what, within)
		}
	}
}

// restored goes back to a snapshot.
func (r *rig) restored(keys []string) {
	t := r.t
	snapshot := filepath.Join(r.dir, "snapshot.db")
	revision := r.put("kept")
	t.Log(strings.TrimSpace(r.tool(exitOK, 1, "-save", snapshot)))
	r.put("undone")
	if said := r.tool(exitFailed, 1, "-save", snapshot); !strings.Contains(said, "there is such a file already") {
		t.Errorf("-save prints %s", said)
	}
	if said := r.tool(exitFailed, 1, "-restore", snapshot); !strings.Contains(said, "is not empty") {
		t.Errorf("-restore of one that lives prints %s", said)
	}
	for _, p := range r.voters {
		p.signal(syscall.SIGTERM)
	}
	for i := range names {
		if code := r.voters[i].wait(); code != exitOK {
			t.Errorf("after SIGTERM: exit code %d; its output:\n%v", code, &r.voters[i].stderr)
		}
		if err := os.Rename(filepath.Join(r.data(i), "member"), filepath.Join(r.dir, names[i]+"-before")); err != nil {
			t.Fatal(err)
		}
	}
	r.damaged(snapshot)
	for i := range names {
		r.tool(exitOK, i, "-restore", snapshot)
		r.start(i)
	}
	for i := range names {
		r.voters[i].awaitLine("voter_ready")
	}
	r.has(r.Client, append(keys, "kept"))
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	got, err := r.Get(ctx, "undone")
	if err != nil || len(got.Kvs) != 0 || got.Header.Revision <= revision+1 {
		t.Errorf("what came after the snapshot: %v, %v", got, err)
	}
	if w := <-r.Watch(ctx, "kept", etcd.WithRev(revision)); !errors.Is(w.Err(), rpctypes.ErrCompacted) {
		t.Errorf("a client that follows changes from before goes on: %v", w.Err())
	}
}

// damaged checks that a snapshot that is not whole, or was changed, is not restored, and that nothing is left of it.
func (r *rig) damaged(snapshot string) {
	t := r.t
	whole, err := os.ReadFile(snapshot)
	if err != nil {
		t.Fatal(err)
	}
	changed := append([]byte{}, whole...)
	changed[len(changed)/2] ^= 1
	bad := filepath.Join(r.dir, "bad.db")
	for _, text := range [][]byte{whole[:len(whole)-4096], changed, nil, whole[:len(whole)-1]} {
		if err := os.WriteFile(bad, text, 0o600); err != nil {
			t.Fatal(err)
		}
		r.tool(exitFailed, 0, "-restore", bad)
		if left, err := os.ReadDir(r.data(0)); err != nil || len(left) > 0 {
			t.Errorf("of %d bytes is left %v, %v", len(text), left, err)
		}
	}
}
