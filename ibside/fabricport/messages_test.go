// SPDX-License-Identifier: Apache-2.0

package fabricport

import (
	"errors"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"causeway/dpdk"
	"causeway/ibside"
	"causeway/ibside/fabric"
	"causeway/ibside/ib"
)

// A station is a bridge's port, and what it has heard.
type station struct {
	*Port
	mu    sync.Mutex
	heard map[string]ib.LID
}

func openStation(t *testing.T, c Config) *station {
	t.Helper()
	c.Workers, c.Log = 1, slog.New(slog.DiscardHandler)
	p, err := Open(c)
	if err != nil {
		t.Fatal(err)
	}
	s := &station{Port: p.(*Port), heard: map[string]ib.LID{}}
	if err := s.ReceiveMessages(func(from ib.LID, data []byte) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.heard[string(data)] = from
	}); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *station) has(text string) (ib.LID, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	lid, ok := s.heard[text]
	return lid, ok
}

// converse has each of two stations send a text until both have heard the other's, and checks from where.
func converse(t *testing.T, a, b *station, text string) {
	t.Helper()
	await(t, "messages both ways: "+text, func() bool {
		errA := a.SendMessage(b.Own().GIDs[0], []byte(text))
		errB := b.SendMessage(a.Own().GIDs[0], []byte(text))
		for _, err := range []error{errA, errB} {
			if err != nil && !errors.Is(err, ibside.ErrPathUnknown) && !errors.Is(err, ibside.ErrNoPath) {
				t.Logf("not sent: %v", err) // the subnet is not there yet
			}
		}
		time.Sleep(10 * time.Millisecond)
		fromB, atA := a.has(text)
		fromA, atB := b.has(text)
		if atA && atB && (fromA != a.Own().LID || fromB != b.Own().LID) {
			t.Errorf("heard from LIDs %v and %v, which are %v and %v", fromA, fromB, a.Own().LID, b.Own().LID)
		}
		return atA && atB
	})
}

func closeStations(t *testing.T, pool *dpdk.Mempool, all ...*station) {
	t.Helper()
	for _, s := range all {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if err := s.SendMessage(s.Own().GIDs[0], nil); err == nil {
			t.Error("a closed port sends")
		}
		c := s.counters()
		if c.Received != c.Delivered+c.Management+c.Drops.Sum() || c.Posted != c.Sent+c.SendDrops.Sum() {
			t.Errorf("the counters: %+v", c)
		}
	}
	if n := pool.InUse(); n != 0 {
		t.Errorf("%d mbufs are in use", n)
	}
}

// TestMessages: two bridges on one subnet hear each other, and not another bridge's ports that do not ask for messages.
func TestMessages(t *testing.T) {
	pool := newPool(t, testMbufs, testRoom, PrivSize)
	f, err := fabric.New(fabric.Config{})
	if err != nil {
		t.Fatal(err)
	}
	a, b := openStation(t, Config{Subnet: f, Name: "a", Pool: pool}), openStation(t, Config{Subnet: f, Name: "b", Pool: pool})
	converse(t, a, b, "hello")
	p, err := Open(Config{Subnet: f, Name: "c", Pool: pool, Workers: 1, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	c := p.(*Port)
	await(t, "a path to a port without messages", func() bool { return a.SendMessage(c.Own().GIDs[0], nil) == nil })
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	converse(t, a, b, "still there")
	closeStations(t, pool, a, b)
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}

// TestMessagesAfterAnotherSubnet: the subnet ends, and another one takes its place, which gives both ports other LIDs. They
// hear each other again.
func TestMessagesAfterAnotherSubnet(t *testing.T) {
	x := &far{socket: filepath.Join(t.TempDir(), "subnet.sock"), pool: newPool(t, testMbufs, testRoom, PrivSize)}
	x.start(t, 0)
	a, b := openStation(t, Config{File: x.socket, Name: "a", Pool: x.pool}), openStation(t, Config{File: x.socket, Name: "b", Pool: x.pool})
	converse(t, a, b, "before")
	was := a.Own().LID
	if err := x.subnet.Close(); err != nil {
		t.Fatal(err)
	}
	await(t, "both ports down", func() bool { return a.Info().Down != "" && b.Info().Down != "" })
	x.start(t, 5)
	await(t, "both ports up", func() bool { return a.Info().Down == "" && b.Info().Down == "" })
	began := time.Now()
	converse(t, a, b, "afterwards")
	t.Logf("heard again %v after the subnet's start; LID %v, and before %v", time.Since(began).Round(time.Millisecond), a.Own().LID, was)
	if a.Own().LID == was {
		t.Error("the port has the LID that it had: nothing was tested")
	}
	closeStations(t, x.pool, a, b)
	if err := x.subnet.Close(); err != nil {
		t.Error(err)
	}
}
