// SPDX-License-Identifier: Apache-2.0

// Package messages sends messages of bridges to each other by a port's QP1, whatever the port's kind (ibside.Messenger).
//
//	SendMessage ── the path is known? ── MAD ──▶ Transport ──▶ another bridge's QP1
//	                 └─ asked for in the background ──▶ subnet administrator
//	h ◀──────────────────────────────────── MAD ── Transport
//
// Paths are kept by GID. A path is asked for again when the subnet has changed, when nothing has come from there for a
// second, and each minute. So a bridge whose LID has changed is found again: by it nothing comes from the old LID.
package messages

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"causeway/ibside"
	"causeway/ibside/ib"
)

// Transport carries MADs of ib.ClassBridge between QP1 of one port and QP1 of others, without GRH. All methods may be
// called at the same time; ReceiveMAD by one goroutine. SendMAD does not wait for the network.
type Transport interface {
	SendMAD(to ib.LID, sl ib.SL, mad []byte) error
	// ReceiveMAD waits for the next MAD and writes it to mad, which has ib.MADLen bytes. An error ends the transport.
	ReceiveMAD(mad []byte) (from ib.LID, sl ib.SL, err error)
	Close() error
}

// Config is what a Messenger needs of its port. Its functions may be called from any goroutine.
type Config struct {
	// Open opens the transport. It is called when somebody wants messages, so that other bridges take nothing.
	Open func() (Transport, error)
	Path func(ctx context.Context, dgid ib.GID, pkey ib.PKey) (ibside.Path, error)
	// News returns how often the subnet has told of a change; see ibside.News.
	News func() uint64
}

// A Messenger implements ibside.Messenger. New makes it.
type Messenger struct {
	cfg   Config
	ctx   context.Context // ends with it
	stop  context.CancelFunc
	ended sync.WaitGroup

	mu        sync.Mutex
	transport Transport // nil: it is not open
	failed    error     // why the transport has ended
	closed    bool
	peers     map[ib.GID]*peer
	tid       uint32 // of the last message
}

// New makes a Messenger that receives nothing yet.
func New(c Config) *Messenger {
	m := &Messenger{cfg: c, peers: map[ib.GID]*peer{}}
	m.ctx, m.stop = context.WithCancel(context.Background())
	return m
}

var (
	errOpen   = errors.New("messages: they are received already")
	errClosed = errors.New("messages: the port is closed")
	errNot    = errors.New("messages: none are received here, so none can be sent")
	errFull   = errors.New("messages: too many bridges")
	errLong   = fmt.Errorf("messages: a message has at most %d bytes", ib.BridgeDataLen)
	errRouted = errors.New("the way is through a router, which no MAD of bridges takes")
)

// ReceiveMessages implements ibside.Messenger.
func (m *Messenger) ReceiveMessages(h func(from ib.LID, data []byte)) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.closed:
		return errClosed
	case m.transport != nil:
		return errOpen
	}
	t, err := m.cfg.Open()
	if err != nil {
		return fmt.Errorf("messages: %w", err)
	}
	m.transport = t
	m.ended.Go(func() { m.receive(t, h) })
	return nil
}

func (m *Messenger) receive(t Transport, h func(from ib.LID, data []byte)) {
	mad := make([]byte, ib.MADLen)
	for {
		from, _, err := t.ReceiveMAD(mad)
		if err != nil {
			m.mu.Lock()
			m.failed = fmt.Errorf("messages: %w", err)
			m.mu.Unlock()
			return
		}
		if x, ok := ib.AsBridgeMAD(mad); ok {
			m.heard(from, time.Now())
			h(from, x.Data())
		}
	}
}

// heard notes that something has come from a LID.
func (m *Messenger) heard(from ib.LID, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range m.peers {
		if p.known && from.Base(p.path.LMC) == p.path.LID.Base(p.path.LMC) {
			p.heard = now
		}
	}
}

// SendMessage implements ibside.Messenger.
func (m *Messenger) SendMessage(to ib.GID, data []byte) error {
	if len(data) > ib.BridgeDataLen {
		return errLong
	}
	mad := make([]byte, ib.MADLen)
	t, path, err := m.way(to, mad, data)
	if err != nil {
		return err
	}
	if err := t.SendMAD(path.LID, path.SL, mad); err != nil {
		return fmt.Errorf("messages: to %v: %w", to, err)
	}
	return nil
}

// way returns how a message gets to a GID, and writes its MAD. What of the path must be asked for it has asked.
func (m *Messenger) way(to ib.GID, mad, data []byte) (Transport, ibside.Path, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.closed:
		return nil, ibside.Path{}, errClosed
	case m.failed != nil:
		return nil, ibside.Path{}, m.failed
	case m.transport == nil:
		return nil, ibside.Path{}, errNot
	}
	now, news := time.Now(), m.cfg.News()
	p := m.peer(to, now)
	if p == nil {
		return nil, ibside.Path{}, errFull
	}
	if p.due(now, news) {
		p.asking, p.asked, p.news = true, now, news
		m.ended.Go(func() { m.ask(to, p) })
	}
	if !p.known {
		return nil, ibside.Path{}, fmt.Errorf("messages: to %v: %w", to, p.why)
	}
	m.tid++
	ib.PutBridgeMAD(mad, ib.BridgeMADFields{TID: uint64(m.tid), Data: data})
	return m.transport, p.path, nil
}

// askTimeout bounds one question. The port's client repeats it meanwhile.
const askTimeout = 5 * time.Second

// ask asks for a path. While the subnet administrator does not answer, the one that is known stays.
func (m *Messenger) ask(to ib.GID, p *peer) {
	ctx, cancel := context.WithTimeout(m.ctx, askTimeout)
	defer cancel()
	path, err := m.cfg.Path(ctx, to, 0)
	if err == nil && ibside.Routed(path.HopLimit) {
		err = fmt.Errorf("%w: %w", ibside.ErrNoPath, errRouted)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	p.answered(path, err)
}

// Close ends it; then h is called no more.
func (m *Messenger) Close() error {
	m.stop()
	m.mu.Lock()
	t, closed := m.transport, m.closed
	m.closed = true
	m.mu.Unlock()
	var err error
	if t != nil && !closed {
		err = t.Close()
	}
	m.ended.Wait()
	return err
}

var _ ibside.Messenger = (*Messenger)(nil)
