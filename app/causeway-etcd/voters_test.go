// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	etcd "go.etcd.io/etcd/client/v3"
)

// What a change of leader may take: without the leader's help two elections and a client's attempt, and with it less
// than one; three times as much on a machine that others use, too. Where even this process, which has nothing to do, was
// kept waiting for more than the voters' heartbeats, they elect one leader after the other, and no time is judged.
const (
	elected = 3 * time.Second
	moved   = 3 * 250 * time.Millisecond
	stalled = 50 * time.Millisecond
)

// TestVoters has three voters with TLS lose their leader, by SIGKILL and by SIGTERM, while a client writes.
func TestVoters(t *testing.T) {
	t.Parallel()
	r := newRig(t, true, "")
	w := r.writes()
	w.more(20)

	w.judge("all are well", moved)
	killed := r.leader()
	r.voters[killed].signal(syscall.SIGKILL)
	r.voters[killed].wait()
	w.more(20)
	w.judge("the leader was killed", elected)
	r.start(killed)
	r.voters[killed].awaitLine("voter_ready")
	r.awaitKeys(killed, len(w.acknowledged()))

	ended := r.leader()
	took := r.voters[ended].end()
	if log := r.voters[ended].stderr.String(); !strings.Contains(log, "msg=leader_moved") || !strings.Contains(log, "msg=voter_stopped") {
		t.Errorf("the leader was ended, and says\n%s", log)
	}
	w.more(20)
	t.Logf("the leader ended within %v", took.Round(time.Millisecond))
	w.judge("the leader was ended", moved)
	w.end()
	r.start(ended)
	r.voters[ended].awaitLine("voter_ready")
	r.awaitKeys(ended, len(w.keys))
	r.has(r.Client, w.keys)
	r.withoutCertificate()
}

// withoutCertificate checks that nobody without a certificate is a client or a voter.
func (r *rig) withoutCertificate() {
	t := r.t
	for i := range names {
		c, err := load(r.file(i))
		if err != nil {
			t.Fatal(err)
		}
		for _, at := range []string{c.clientListen[0].Host, c.peerListen[0].Host} {
			if !refused(at, r.secure.RootCAs) {
				t.Errorf("%s serves whoever has no certificate", at)
			}
		}
	}
	bare := *r
	bare.secure = &tls.Config{RootCAs: r.secure.RootCAs}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := bare.client(r.clients...).Get(ctx, "", etcd.WithPrefix()); err == nil {
		t.Error("a client without a certificate was answered")
	}
}

// A writer writes one key after the other.
type writer struct {
	r       *rig
	stop    chan struct{}
	stopped chan struct{}

	mu      sync.Mutex
	keys    []string // acknowledged
	slowest time.Duration
	stall   time.Duration // of this process
}

// writes starts a writer.
func (r *rig) writes() *writer {
	w := &writer{r: r, stop: make(chan struct{}), stopped: make(chan struct{})}
	go func() {
		defer close(w.stopped)
		last := int64(0)
		for i := 0; ; i++ {
			select {
			case <-w.stop:
				return
			case <-time.After(5 * time.Millisecond):
			}
			key := fmt.Sprintf("key %06d", i)
			took, revision, err := r.tryPut(key)
			if err != nil {
				r.t.Errorf("%s is not written: %v", key, err)
				return
			}
			if revision <= last {
				r.t.Errorf("%s has revision %d after %d", key, revision, last)
			}
			last = revision
			w.mu.Lock()
			w.keys, w.slowest = append(w.keys, key), max(w.slowest, took)
			w.mu.Unlock()
		}
	}()
	go w.watch()
	r.t.Cleanup(w.end)
	return w
}

// watch measures how much longer than it asked for this process sleeps.
func (w *writer) watch() {
	const nap = 5 * time.Millisecond
	for begun := time.Now(); ; begun = time.Now() {
		select {
		case <-w.stopped:
			return
		case <-time.After(nap):
		}
		w.mu.Lock()
		w.stall = max(w.stall, time.Since(begun)-nap)
		w.mu.Unlock()
	}
}

// more waits until so many more keys are written.
func (w *writer) more(n int) {
	w.r.t.Helper()
	for have := len(w.acknowledged()); len(w.acknowledged()) < have+n; time.Sleep(5 * time.Millisecond) {
		select {
		case <-w.stopped:
			w.r.t.FailNow()
		default:
		}
	}
}

func (w *writer) acknowledged() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.keys)
}

// judge checks how long the slowest write since the last call took.
func (w *writer) judge(what string, most time.Duration) {
	w.r.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.r.t.Logf("%s: the longest write took %v; this process was kept waiting for %v", what, w.slowest.Round(time.Millisecond), w.stall.Round(time.Millisecond))
	if w.slowest > most && w.stall <= stalled {
		w.r.t.Errorf("%s: a write took %v, more than %v", what, w.slowest, most)
	}
	w.slowest, w.stall = 0, 0
}

func (w *writer) end() {
	select {
	case <-w.stopped:
	case w.stop <- struct{}{}:
		<-w.stopped
	}
}
