// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"causeway/ibside/ib"
)

const (
	captureBacklog = 8192
	captureSnapLen = 65535
)

// capture writes each packet that the switch receives to a pcap file of ERF records, in its own goroutine: a slow disk
// loses records, not packets.
type capture struct {
	file    io.Closer // nil: the caller owns the writer
	buf     *bufio.Writer
	pcap    *pcapgo.Writer
	backlog chan captured
	stopped chan struct{}
	mu      sync.RWMutex // guards put against close
	closed  bool
	lost    atomic.Uint64
	err     error // of the first write that failed
}

type captured struct {
	at     time.Time
	packet []byte
}

// newCapture writes to w, or to a new file at path; with neither it returns nil.
func newCapture(w io.Writer, path string) (*capture, error) {
	c := &capture{backlog: make(chan captured, captureBacklog), stopped: make(chan struct{})}
	switch {
	case w != nil && path != "":
		return nil, fmt.Errorf("fabric: capture: a writer and the file %s; choose one", path)
	case path != "":
		f, err := os.Create(path)
		if err != nil {
			return nil, fmt.Errorf("fabric: capture: %w", err)
		}
		c.file, w = f, f
	case w == nil:
		return nil, nil
	}
	c.buf = bufio.NewWriter(w)
	c.pcap = pcapgo.NewWriterNanos(c.buf)
	if err := c.pcap.WriteFileHeader(captureSnapLen, layers.LinkType(ib.LinkTypeERF)); err != nil {
		return nil, fmt.Errorf("fabric: capture: %w", err)
	}
	go c.run()
	return c, nil
}

func (c *capture) put(packet []byte) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.closed {
		return
	}
	select {
	case c.backlog <- captured{time.Now(), packet}:
	default:
		c.lost.Add(1)
	}
}

func (c *capture) run() {
	defer close(c.stopped)
	var record []byte
	for p := range c.backlog {
		record = ib.AppendERF(record[:0], p.at, p.packet)
		info := gopacket.CaptureInfo{Timestamp: p.at, CaptureLength: len(record), Length: len(record)}
		if c.err != nil {
			c.lost.Add(1)
		} else {
			c.err = c.pcap.WritePacket(info, record)
		}
		if len(c.backlog) == 0 && c.err == nil {
			c.err = c.buf.Flush() // a reader of the growing file sees the last packet
		}
	}
}

// close writes the backlog and closes the file.
func (c *capture) close() error {
	c.mu.Lock()
	if !c.closed {
		c.closed = true
		close(c.backlog)
	}
	c.mu.Unlock()
	<-c.stopped
	if c.file != nil {
		if err := c.file.Close(); c.err == nil {
			c.err = err
		}
	}
	if c.err != nil {
		return fmt.Errorf("fabric: capture: %w", c.err)
	}
	return nil
}
