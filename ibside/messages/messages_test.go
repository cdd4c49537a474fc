// SPDX-License-Identifier: Apache-2.0

package messages

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"causeway/ibside"
	"causeway/ibside/ib"
)

// rig is a Messenger with the test as its port, its subnet and its other bridges, on a fake clock.
type rig struct {
	*Messenger
	mu    sync.Mutex
	sent  []string // "LID data"
	asked int
	path  ibside.Path
	why   error
	takes time.Duration // an answer
	news  uint64
	in    chan inbound
	heard []string
}

type inbound struct {
	from ib.LID
	mad  []byte
}

var (
	other  = ib.GIDFromGUID(0xfe80<<48, 2)
	errCut = errors.New("the wire is cut")
)

func (r *rig) SendMAD(to ib.LID, sl ib.SL, mad []byte) error {
	x, ok := ib.AsBridgeMAD(mad)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sent = append(r.sent, fmt.Sprint(uint16(to), " ", sl, " ", string(x.Data()), " ", ok))
	return nil
}

func (r *rig) ReceiveMAD(mad []byte) (ib.LID, ib.SL, error) {
	x, open := <-r.in
	if !open {
		return 0, 0, errCut
	}
	copy(mad, x.mad)
	return x.from, 0, nil
}

func (r *rig) Close() error {
	close(r.in)
	return nil
}

func (r *rig) ask(ctx context.Context, dgid ib.GID, pkey ib.PKey) (ibside.Path, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked++
	path, why, takes := r.path, r.why, r.takes
	r.mu.Unlock()
	select {
	case <-time.After(takes):
	case <-ctx.Done():
		why = ctx.Err()
	}
	r.mu.Lock()
	if dgid != other || pkey != 0 {
		why = fmt.Errorf("asked for %v in %v", dgid, pkey)
	}
	return path, why
}

// run runs a test with a Messenger that knows no path yet.
func run(t *testing.T, test func(t *testing.T, r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{path: ibside.Path{LID: 7, SL: 2}, in: make(chan inbound)}
		r.Messenger = New(Config{
			Open: func() (Transport, error) { return r, nil }, Path: r.ask,
			News: func() uint64 { return r.news },
		})
		if err := r.SendMessage(other, nil); !errors.Is(err, errNot) {
			t.Errorf("before it is open: %v", err)
		}
		if err := r.ReceiveMessages(func(from ib.LID, data []byte) {
			r.heard = append(r.heard, fmt.Sprint(uint16(from), " ", string(data)))
		}); err != nil {
			t.Fatal(err)
		}
		test(t, r)
		if err := errors.Join(r.Messenger.Close(), r.Messenger.Close()); err != nil {
			t.Error(err)
		}
		if err := r.SendMessage(other, nil); !errors.Is(err, errClosed) {
			t.Errorf("after its end: %v", err)
		}
	})
}

// say sends a message, and lets some time pass.
func (r *rig) say(text string) error {
	defer func() {
		time.Sleep(50 * time.Millisecond)
		synctest.Wait()
	}()
	return r.SendMessage(other, []byte(text))
}

// hear has messages come from a LID for so long, while some are sent.
func (r *rig) hear(t *testing.T, from ib.LID, d time.Duration) {
	t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); {
		if from != 0 {
			r.in <- inbound{from, ib.PutBridgeMAD(make([]byte, ib.MADLen), ib.BridgeMADFields{Data: []byte("here")})}
		}
		if err := r.say("."); err != nil {
			t.Fatal(err)
		}
	}
}

func TestMessages(t *testing.T) {
	run(t, func(t *testing.T, r *rig) {
		if err := r.say("lost"); !errors.Is(err, ibside.ErrPathUnknown) {
			t.Errorf("without a path: %v", err)
		}
		full := strings.Repeat("x", ib.BridgeDataLen)
		for _, text := range []string{"first", "", full} {
			if err := r.say(text); err != nil {
				t.Errorf("%q: %v", text, err)
			}
		}
		if want := []string{"7 2 first true", "7 2  true", "7 2 " + full + " true"}; !slices.Equal(r.sent, want) {
			t.Errorf("sent %q", r.sent)
		}
		if err := r.say(full + "x"); !errors.Is(err, errLong) || r.asked != 1 {
			t.Errorf("217 bytes: %v; asked %d times", err, r.asked)
		}
		good := ib.PutBridgeMAD(make([]byte, ib.MADLen), ib.BridgeMADFields{Data: []byte("good")})
		for at, by := range map[int]byte{1: 1, 3: 1, 23: 0xf0, 38: 1} { // class, method, length, OUI
			bad := slices.Clone(good)
			bad[at] ^= by
			r.in <- inbound{9, bad}
		}
		r.in <- inbound{9, good}
		synctest.Wait()
		if !slices.Equal(r.heard, []string{"9 good"}) {
			t.Errorf("heard %q", r.heard)
		}
	})
}

// TestPathAge: a path is asked for each minute while its bridge is heard, each second while it is not, and soon after news.
func TestPathAge(t *testing.T) {
	run(t, func(t *testing.T, r *rig) {
		r.path.LMC, r.path.LID = 1, 6
		_ = r.say("lost")
		r.hear(t, 7, 59*time.Second) // one of its LIDs
		if r.asked != 1 {
			t.Errorf("asked %d times within a minute", r.asked)
		}
		if r.hear(t, 7, 10*time.Second); r.asked != 2 {
			t.Errorf("asked %d times in more than a minute", r.asked)
		}
		r.news++
		if r.hear(t, 7, time.Second/2); r.asked != 3 {
			t.Errorf("asked %d times after news", r.asked)
		}
		if r.hear(t, 8, 10*time.Second); r.asked < 11 || r.asked > 14 {
			t.Errorf("asked %d times, the last 10 s of which nothing came from there", r.asked)
		}
	})
}

// TestLIDChanges: a bridge that has another LID is sent to there within two seconds, whatever else the subnet tells.
func TestLIDChanges(t *testing.T) {
	run(t, func(t *testing.T, r *rig) {
		_ = r.say("lost")
		r.hear(t, 7, 5*time.Second)
		r.mu.Lock()
		r.path.LID = 20
		r.mu.Unlock()
		r.hear(t, 20, 2*time.Second)
		if last := r.sent[len(r.sent)-1]; !strings.HasPrefix(last, "20 ") {
			t.Errorf("sent %q at last", last)
		}
		r.mu.Lock()
		asked := r.asked
		r.mu.Unlock()
		if r.hear(t, 20, 5*time.Second); r.asked != asked {
			t.Error("asked for what is heard again")
		}
	})
}

// TestNoPath: a bridge that is not there is asked for ever less often, until the subnet tells of a change; and one that is
// behind a router is none.
func TestNoPath(t *testing.T) {
	run(t, func(t *testing.T, r *rig) {
		r.why = fmt.Errorf("asked: %w", ibside.ErrNoPath)
		for range 60 * 20 {
			if err := r.say("lost"); err == nil {
				t.Fatal("sent without a path")
			}
		}
		if err := r.say("lost"); !errors.Is(err, ibside.ErrNoPath) || r.asked < 5 || r.asked > 8 {
			t.Errorf("asked %d times in a minute, %v", r.asked, err)
		}
		r.why, r.path.HopLimit, r.path.GRH = nil, 64, true
		r.news++
		_ = r.say("lost")
		if err := r.say("lost"); !errors.Is(err, errRouted) {
			t.Errorf("through a router: %v", err)
		}
		r.path.HopLimit, r.news = 0, r.news+1
		time.Sleep(time.Second)
		_ = r.say("lost")
		if err := r.say("comes"); err != nil || len(r.sent) != 1 {
			t.Errorf("sent %q: %v", r.sent, err)
		}
	})
}

// TestSilentAdministrator: while no answer comes, nothing waits, the old path is used, and one question is under way.
func TestSilentAdministrator(t *testing.T) {
	run(t, func(t *testing.T, r *rig) {
		_ = r.say("lost")
		r.mu.Lock()
		r.takes = time.Hour
		r.mu.Unlock()
		began := time.Now()
		r.hear(t, 0, 10*time.Second)
		if r.asked < 2 || r.asked > 4 || time.Since(began) > 11*time.Second {
			t.Errorf("asked %d times in %v", r.asked, time.Since(began))
		}
	})
}

// TestMostPeers: GIDs without end take no more than their room, and those that are not used any more make some.
func TestMostPeers(t *testing.T) {
	run(t, func(t *testing.T, r *rig) {
		for i := range mostPeers {
			_ = r.SendMessage(ib.GIDFromGUID(0xfe80<<48, ib.GUID(100+i)), nil)
		}
		if err := r.SendMessage(other, nil); !errors.Is(err, errFull) {
			t.Errorf("one more: %v", err)
		}
		time.Sleep(peerIdle)
		if err := r.SendMessage(other, nil); !errors.Is(err, ibside.ErrPathUnknown) || len(r.peers) != 1 {
			t.Errorf("a minute later: %v, %d peers", err, len(r.peers))
		}
	})
}

// TestTransportEnds: what ends the transport is the error of all messages from then on; and one that does not open is the
// error of ReceiveMessages.
func TestTransportEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &rig{in: make(chan inbound)}
		fails := errors.New("no right")
		open := fails
		m := New(Config{
			Open: func() (Transport, error) { return r, open }, Path: r.ask, News: func() uint64 { return 0 },
		})
		if err := m.ReceiveMessages(nil); !errors.Is(err, fails) {
			t.Errorf("opened: %v", err)
		}
		open = nil
		if err := m.ReceiveMessages(nil); err != nil {
			t.Error(err)
		}
		if err := m.ReceiveMessages(nil); !errors.Is(err, errOpen) {
			t.Errorf("twice: %v", err)
		}
		_ = r.Close()
		synctest.Wait()
		if err := m.SendMessage(other, nil); !errors.Is(err, errCut) {
			t.Errorf("after its end: %v", err)
		}
		r.in = make(chan inbound)
		if err := m.Close(); err != nil {
			t.Error(err)
		}
		if err := m.ReceiveMessages(nil); !errors.Is(err, errClosed) {
			t.Errorf("when it is closed: %v", err)
		}
	})
}
