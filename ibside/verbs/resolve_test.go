// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"testing"
	"time"
)

// TestAnswerStale changes the port after a try has succeeded and before its answer: the worker must not get the handle.
// There is no worker: an answer that reaches it crashes.
func TestAnswerStale(t *testing.T) {
	d := &resolver{}
	w := &worker{failing: map[ahPeer]bool{}}
	made := try{gen: d.gidGen.Load()}
	w.answering.Lock() // as portChanged's retryFailed does
	answered := make(chan bool)
	go func() { answered <- d.answer(w, askedAH{}, made) }()
	time.Sleep(20 * time.Millisecond)
	d.gidGen.Add(1)
	w.answering.Unlock()
	if <-answered {
		t.Error("the worker was answered with a handle from before the change")
	}
	if len(w.failed) != 0 || len(w.failing) != 0 {
		t.Errorf("failed %v, failing %v: a stale handle is no failure", w.failed, w.failing)
	}
}
