// SPDX-License-Identifier: Apache-2.0

package link

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	headOfQueueLifetime = 2 * time.Second // as in guest/shca/cable.c
	maxFrame            = 1 << 16
)

// Cable is an end of a cable to QEMU's -netdev dgram: a datagram is an Ethernet frame. Its socket is connected, so that
// a slow guest holds the writer up, as credits do.
type Cable struct {
	conn     *net.UnixConn
	remote   string
	port     Port
	lifetime time.Duration // of a packet that waits for the guest

	up       atomic.Bool
	present  atomic.Bool
	epoch    atomic.Uint32
	requests chan func(*training)
	announce chan struct{} // one token: a training frame is to be sent
	closed   chan struct{}
	once     sync.Once
	trained  sync.WaitGroup
	ended    sync.WaitGroup

	writing   sync.Mutex
	frame     []byte
	connected bool
	connects  atomic.Uint64
}

// NewCable makes a cable's end at a path, for QEMU at another, which need not be there yet.
func NewCable(local, remote string) (*Cable, error) {
	if err := os.Remove(local); err != nil && !errors.Is(err, os.ErrNotExist) { // of a switch before
		return nil, err
	}
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: local, Net: "unixgram"})
	if err != nil {
		return nil, fmt.Errorf("cable: %w", err)
	}
	c := &Cable{
		conn: conn, remote: remote, lifetime: headOfQueueLifetime, requests: make(chan func(*training)), announce: make(chan struct{}, 1),
		closed: make(chan struct{}), frame: make([]byte, maxFrame),
	}
	c.present.Store(true)
	return c, nil
}

// Start begins to train.
func (c *Cable) Start(p Port) {
	c.port = p
	c.trained.Go(c.train)
	c.ended.Go(c.announcer)
	c.ended.Go(c.read)
}

// Connects counts how often the cable has found QEMU: more than once when that was restarted.
func (c *Cable) Connects() uint64 { return c.connects.Load() }

// Retrain makes the link go down and come up again, at both ends.
func (c *Cable) Retrain() { c.request((*training).retrain) }

// Plug pulls the cable, or puts it in again. The other end notices at once.
func (c *Cable) Plug(in bool) {
	c.request(func(t *training) {
		t.present = in
		t.settle(time.Now())
	})
}

// request has the training's goroutine do something.
func (c *Cable) request(f func(*training)) {
	select {
	case c.requests <- f:
	case <-c.closed:
	}
}

// train owns the state of the training.
func (c *Cable) train() {
	t := &training{present: true, epoch: uint8(rand.Uint32()), changed: func(up bool) {
		c.up.Store(up)
		c.port.LinkChanged(up)
	}}
	tick := time.NewTicker(trainingInterval)
	defer tick.Stop()
	for {
		c.publish(t)
		select {
		case <-tick.C:
			t.settle(time.Now())
			c.send()
		case f := <-c.requests:
			before := *t
			f(t)
			if before.present != t.present || before.epoch != t.epoch {
				c.publish(t)
				c.send()
			}
		case <-c.closed:
			t.present = false
			t.settle(time.Now())
			c.publish(t)
			return
		}
	}
}

func (c *Cable) publish(t *training) {
	c.present.Store(t.present)
	c.epoch.Store(uint32(t.epoch))
}

// send has a training frame sent.
func (c *Cable) send() {
	select {
	case c.announce <- struct{}{}:
	default: // it will have the newest state
	}
}

// announcer writes training frames: in turn with packets, for they wait for the guest, too.
func (c *Cable) announcer() {
	for {
		select {
		case <-c.announce:
			_ = c.write(kindTraining, nil) // the next is due soon
		case <-c.closed:
			return
		}
	}
}

// Send writes a packet.
func (c *Cable) Send(packet []byte) error {
	if !c.up.Load() {
		return ErrDown
	}
	return c.write(kindPacket, packet)
}

func (c *Cable) write(kind uint8, packet []byte) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	if !c.connected && c.connect() != nil {
		return ErrDown
	}
	if kind == kindTraining {
		putTraining(c.frame, c.present.Load(), uint8(c.epoch.Load()))
	} else {
		putHeader(c.frame, kind, len(packet))
	}
	n := frameHeaderLen + copy(c.frame[frameHeaderLen:], packet)
	if err := c.conn.SetWriteDeadline(time.Now().Add(c.lifetime)); err != nil {
		return ErrDown
	}
	_, err := c.conn.Write(c.frame[:n])
	switch {
	case err == nil:
		return nil
	case errors.Is(err, os.ErrDeadlineExceeded):
		return ErrLifetime
	}
	c.connected = false
	return ErrDown
}

// connect connects the socket, which keeps its own path, to QEMU's.
func (c *Cable) connect() error {
	raw, err := c.conn.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) { failed = syscall.Connect(int(fd), &syscall.SockaddrUnix{Name: c.remote}) })
	if err = errors.Join(err, failed); err != nil {
		return err
	}
	c.connected = true
	c.connects.Add(1)
	return nil
}

// read passes packets to the port, and training frames to train.
func (c *Cable) read() {
	b := make([]byte, maxFrame)
	for {
		n, err := c.conn.Read(b)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // of the socket's other end that went away
			continue
		}
		switch kind, packet := parseFrame(b[:n]); kind {
		case kindTraining:
			present, epoch := b[framePresent] != 0, b[frameEpoch]
			c.request(func(t *training) {
				if t.heard(time.Now(), present, epoch) {
					c.send()
				}
			})
		case kindPacket:
			c.port.Receive(slices.Clone(packet)) // the port knows whether the link is up
		}
	}
}

// Close takes the link down, and tells the other end.
func (c *Cable) Close() error {
	c.once.Do(func() { close(c.closed) })
	c.trained.Wait()
	_ = c.write(kindTraining, nil) // which says that this end is not there
	err := c.conn.Close()
	c.ended.Wait()
	return err
}
