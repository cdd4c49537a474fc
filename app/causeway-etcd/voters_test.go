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
// than one; three times as much on a machine that others use, too.
const (
	elected = 3 * time.Second
	moved   = 3 * 250 * time.Millisecond
)

// TestVoters has three voters with TLS lose their leader, by SIGKILL and by SIGTERM, while a client writes.
func TestVoters(t *testing.T) {
	r := newRig(t, true)
	w := r.writes()
	w.more(20)

	killed := r.leader()
	r.voters[killed].signal(syscall.SIGKILL)
	r.voters[killed].wait()
	w.more(20)
	took := w.longest()
	t.Logf("the leader was killed: the longest write took %v", took.Round(time.Millisecond))
	if took > elected {
		t.Errorf("the leader was killed: a write took %v, more than %v", took, elected)
	}
	r.start(killed)
	r.voters[killed].awaitLine("voter_ready")
	r.awaitKeys(killed, len(w.acknowledged()))

	ended := r.leader()
	took = r.voters[ended].end()
	if log := r.voters[ended].stderr.String(); !strings.Contains(log, "msg=leader_moved") || !strings.Contains(log, "msg=voter_stopped") {
		t.Errorf("the leader was ended, and says\n%s", log)
	}
	w.more(20)
	longest := w.longest()
	t.Logf("the leader was ended, in %v: the longest write took %v", took.Round(time.Millisecond), longest.Round(time.Millisecond))
	if longest > moved {
		t.Errorf("the leader was ended: a write took %v, more than %v", longest, moved)
	}
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
	r.t.Cleanup(w.end)
	return w
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

// longest returns how long the slowest write since the last call took.
func (w *writer) longest() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	d := w.slowest
	w.slowest = 0
	return d
}

func (w *writer) end() {
	select {
	case <-w.stopped:
	case w.stop <- struct{}{}:
		<-w.stopped
	}
}
