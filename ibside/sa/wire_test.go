// SPDX-License-Identifier: Apache-2.0

package sa

import (
	"errors"
	"sync"
	"testing"
	"time"

	"causeway/ibside/ib"
)

// wire is a transport whose other end is the test.
type wire struct {
	sent chan sent    // by the client
	in   chan inbound // to it

	mu     sync.Mutex
	port   ib.PortState
	closed chan struct{}
	once   sync.Once
}

type sent struct {
	to  ib.LID
	mad []byte
	at  time.Time
}

type inbound struct {
	from ib.LID
	mad  []byte
	err  error
}

const smLID ib.LID = 1

func newWire() *wire {
	return &wire{
		sent: make(chan sent, 1000), in: make(chan inbound, 1000), closed: make(chan struct{}),
		port: ib.PortState{Active: true, GID: ib.GIDFromGUID(0xfe80<<48, 5), LID: 3, SMLID: smLID},
	}
}

func (w *wire) SendMAD(to ib.LID, _ ib.SL, mad []byte) error {
	w.sent <- sent{to, append([]byte(nil), mad...), time.Now()}
	return nil
}

func (w *wire) ReceiveMAD(mad []byte) (ib.LID, ib.SL, error) {
	select {
	case m := <-w.in:
		copy(mad, m.mad)
		return m.from, 0, m.err
	case <-w.closed:
		return 0, 0, errors.New("the wire is cut")
	}
}

func (w *wire) PortState() (ib.PortState, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.port, nil
}

func (w *wire) setPort(change func(*ib.PortState)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change(&w.port)
}

func (w *wire) Close() error {
	w.once.Do(func() { close(w.closed) })
	return nil
}

// newWireClient makes a client with short timeouts.
func newWireClient(t testing.TB, cfg Config) (*Client, *wire) {
	w := newWire()
	if cfg.FirstWait == 0 {
		cfg.FirstWait = 20 * time.Millisecond
	}
	c := NewClient(w, cfg)
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if s := c.Stats(); s.Received != s.Answers+s.Segments+s.Notices+s.Repeated+s.NoticesDropped+s.Late+s.Ignored+s.Lost {
			t.Errorf("not all that was received is accounted for: %+v", s)
		}
		if len(c.tries) != 0 {
			t.Errorf("%d tries are still outstanding", len(c.tries))
		}
	})
	return c, w
}

// next returns the next MAD that the client sends.
func (w *wire) next(t testing.TB) sent {
	t.Helper()
	select {
	case m := <-w.sent:
		return m
	case <-time.After(time.Minute):
		t.Fatal("the client sends nothing")
		return sent{}
	}
}

// reply makes an answer to a request.
func reply(to []byte, status uint16, record []byte) []byte {
	b := append([]byte(nil), to...)
	m, _ := ib.AsMAD(to)
	f := m.Fields()
	f.Status = status
	f.Method |= ib.MethodResponse
	if m.Method() == ib.MethodSet {
		f.Method = ib.MethodGetResp
	}
	ib.PutMAD(b, f)
	copy(b[ib.MADHdrLen+ib.SAHdrLen:], record)
	return b
}

// withHeader returns a MAD with another header.
func withHeader(mad []byte, change func(*ib.MADFields)) []byte {
	b := append([]byte(nil), mad...)
	m, _ := ib.AsMAD(b)
	f := m.Fields()
	change(&f)
	ib.PutMAD(b, f)
	return b
}

func tidOf(mad []byte) uint64 {
	m, _ := ib.AsMAD(mad)
	return m.TID()
}
