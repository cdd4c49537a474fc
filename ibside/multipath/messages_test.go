// SPDX-License-Identifier: Apache-2.0

package multipath

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"causeway/ibside"
	"causeway/ibside/fabricport"
	"causeway/ibside/ib"
)

// heardTexts is what a port has heard.
type heardTexts struct {
	mu  sync.Mutex
	all map[string]int
}

func listen(t *testing.T, p ibside.Messenger) *heardTexts {
	t.Helper()
	h := &heardTexts{all: map[string]int{}}
	if err := p.ReceiveMessages(func(_ ib.LID, data []byte) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.all[string(data)]++
	}); err != nil {
		t.Fatal(err)
	}
	return h
}

func (h *heardTexts) has(text string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.all[text] > 0
}

// saidUntil sends a text until it is heard.
func saidUntil(t *testing.T, by ibside.Messenger, to ib.GID, text string, h *heardTexts) {
	t.Helper()
	var err error
	for end := time.Now().Add(20 * time.Second); !h.has(text); time.Sleep(10 * time.Millisecond) {
		if err = by.SendMessage(to, []byte(text)); time.Now().After(end) {
			t.Fatalf("%s is not heard: %v", text, err)
		}
	}
}

// TestMessages: a bridge on two fabrics hears others on both, and they hear it; also when it has lost one.
func TestMessages(t *testing.T) {
	r := newRig(t, Rule{})
	if err := r.port.SendMessage(group, nil); err == nil {
		t.Error("a message is sent by ports that are not asked for any")
	}
	at := listen(t, r.port)
	var others []ibside.OpenPort
	for i, f := range r.fabrics {
		p, err := fabricport.Open(fabricport.Config{
			Subnet: f, Name: fmt.Sprint("other", i), PKey: pkeys[i], Pool: r.pool, Workers: 1, Log: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		others = append(others, p)
		there := listen(t, p.(ibside.Messenger))
		saidUntil(t, r.port, p.Own().GIDs[0], fmt.Sprint("to ", i), there)
		saidUntil(t, p.(ibside.Messenger), r.ports[i].Own().GIDs[0], fmt.Sprint("from ", i), at)
	}
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		err := r.port.SendMessage(ib.GIDFromGUID(0xfe80<<48, 0xabc), nil)
		if errors.Is(err, ibside.ErrNoPath) {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("to nobody: %v", err)
		}
	}
	for _, p := range others {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestListOfTheOther: a bridge that comes waits three seconds for those that are there, and they find it though one of their fabrics is silent.
func TestListOfTheOther(t *testing.T) {
	r := newRig(t, Rule{})
	silence(t, r.fabrics[0])
	const another = 77
	if err := r.port.Announce(t.Context(), ibside.Bridge{Instance: another}); err == nil {
		t.Error("a subnet administrator that is silent has a record")
	}
	began := time.Now()
	all, err := r.port.Bridges(t.Context())
	if took := time.Since(began); err == nil || took > 3*time.Second {
		t.Errorf("%v after %v", err, took)
	}
	if !slices.ContainsFunc(all, func(b ibside.Bridge) bool { return b.Instance == another }) {
		t.Errorf("the other fabric's list is not there: %+v", all)
	}
}
