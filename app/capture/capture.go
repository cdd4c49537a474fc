// SPDX-License-Identifier: Apache-2.0

// Package capture writes the packets of the bridge's ports to one pcapng file: interface 0 is the Ethernet port,
// interface 1 the InfiniBand port, whose packets are ERF records, which Wireshark reads. Of several ports each has an
// interface of its own, named after it.
//
//	bridge ── mirrored packets ──▶ Write ──▶ file        a dropped packet has the reason as its comment
//
// An InfiniBand port has messages, not packets: their headers are rebuilt from the message's metadata. The PSN and, of
// received messages, the Q_Key are unknown, and written as zero.
package capture

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"causeway/ibside/ib"
	"causeway/lcore"
)

// A Mirror copies packets at the points of their way through the bridge. A *bridge.Bridge is one.
type Mirror interface {
	Mirror(ctx context.Context, f lcore.Filter, snap int, see func(lcore.MirroredPacket) bool) (missed uint64, err error)
}

// Limits end a capture when the first is reached. Zero is no limit.
type Limits struct {
	Packets  uint64
	Bytes    int64
	Duration time.Duration
	Snap     int // bytes kept of a packet
}

// A Result is the contents of a capture.
type Result struct {
	Packets  [2]uint64             // at the Ethernet port, and at the InfiniBand port
	Dropped  map[lcore.Drop]uint64 // those dropped by the bridge
	Bytes    int64                 // written
	Missed   uint64                // not captured: packets came faster than they were written
	Duration time.Duration
}

// String returns the result in one line.
func (r Result) String() string {
	dropped := uint64(0)
	for _, n := range r.Dropped {
		dropped += n
	}
	return fmt.Sprintf("%d packets of RoCE, %d of InfiniBand, %d of them dropped by the bridge, %d bytes in %v; missed %d",
		r.Packets[0], r.Packets[1], dropped, r.Bytes, r.Duration.Round(time.Millisecond), r.Missed)
}

// Write captures the packets that f passes, until ctx ends or a limit is reached. Without drop or point in f these are
// the packets received and sent at both ports; received packets that were dropped have a comment. With drop they are
// the dropped packets, as they were then.
func Write(ctx context.Context, m Mirror, f lcore.Filter, out io.Writer, l Limits) (Result, error) {
	began := time.Now()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	if l.Duration > 0 {
		ctx, stop = context.WithTimeout(ctx, l.Duration)
		defer stop()
	}
	w := &writer{filter: f, limits: l, counted: &countingWriter{w: out}, byID: map[uint64]*record{}, ports: map[string]int{}, result: Result{Dropped: map[lcore.Drop]uint64{}}}
	if err := w.open(); err != nil {
		return Result{}, err
	}
	var flushing sync.WaitGroup
	flushing.Go(func() { w.flushPeriodically(ctx) })
	missed, err := m.Mirror(ctx, f, l.Snap, w.see)
	stop()
	flushing.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.release(time.Time{})
	w.result.Missed = missed
	w.result.Duration = time.Since(began)
	err = errors.Join(err, w.err, w.finish())
	return w.result, err
}

// Interfaces of the file.
const (
	roceInterface = iota
	ibInterface
)

// deferTime is how long a received packet is kept, to know whether it is dropped.
const deferTime = 20 * time.Millisecond

// A writer writes one capture.
type writer struct {
	filter lcore.Filter
	limits Limits

	mu      sync.Mutex
	ng      *pcapgo.NgWriter
	counted *countingWriter
	pending []*record
	byID    map[uint64]*record
	result  Result
	ports   map[string]int // the interfaces of several ports, by name
	packets []uint64       // by interface
	written uint64
	full    bool
	err     error
}

// A record is a packet to be written.
type record struct {
	lcore.MirroredPacket
	drop lcore.Drop
}

// open begins the file.
func (w *writer) open() error {
	section := pcapgo.NgSectionInfo{Hardware: runtime.GOARCH, OS: runtime.GOOS, Application: "causeway"}
	var err error
	w.ng, err = pcapgo.NewNgWriterInterface(w.counted, w.describe(roceInterface, ""), pcapgo.NgWriterOptions{SectionInfo: section})
	if err == nil {
		_, err = w.ng.AddInterface(w.describe(ibInterface, ""))
	}
	w.packets = make([]uint64, ibInterface+1)
	if err == nil {
		err = w.ng.Flush()
	}
	return err
}

// describe describes the interface of a side, or of one of its several ports.
func (w *writer) describe(side int, port string) pcapgo.NgInterface {
	x := pcapgo.NgInterface{Name: "roce", Description: "Ethernet port of the bridge", Filter: w.filter.String(), LinkType: layers.LinkTypeEthernet,
		SnapLength: uint32(max(w.limits.Snap, 0))}
	if side == ibInterface {
		x.Name, x.Description, x.LinkType, x.SnapLength = "ib", "InfiniBand port of the bridge; headers as far as they are known", ib.LinkTypeERF, 0
	}
	if port != "" {
		x.Name += " " + port
	}
	return x
}

// interfaceOf returns the interface of one of several ports, which is added when its first packet comes.
func (w *writer) interfaceOf(side int, port string) (n int, err error) {
	if port == "" {
		return side, nil
	}
	x := w.describe(side, port)
	n, there := w.ports[x.Name]
	if there {
		return n, nil
	}
	if n, err = w.ng.AddInterface(x); err == nil {
		w.ports[x.Name] = n
		w.packets = append(w.packets, 0)
	}
	return n, err
}

// finish completes the file with its statistics.
func (w *writer) finish() error {
	var errs []error
	for i, n := range w.packets {
		errs = append(errs, w.ng.WriteInterfaceStats(i, pcapgo.NgInterfaceStatistics{
			LastUpdate: time.Now(), PacketsReceived: n, PacketsDropped: w.result.Missed,
		}))
	}
	errs = append(errs, w.ng.Flush())
	w.result.Bytes = w.counted.n
	return errors.Join(errs...)
}

// see takes a mirrored packet. It returns false when the capture is over.
func (w *writer) see(s lcore.MirroredPacket) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.full || w.err != nil {
		return false
	}
	chosen := w.filter.Point != 0 || w.filter.Drop != 0 || w.filter.AnyDrop
	r := &record{MirroredPacket: s, drop: s.Drop}
	switch {
	case chosen, s.Point == lcore.Sent, s.Point == lcore.Own:
	case s.Point == lcore.Received:
		w.byID[s.Packet] = r
	case s.Point == lcore.Dropped:
		if received, ok := w.byID[s.Packet]; ok && s.Packet != 0 {
			received.drop = s.Drop
			return true
		}
	default: // inside the bridge: its reception was recorded already
		return true
	}
	w.pending = append(w.pending, r)
	w.release(s.Time.Add(-deferTime))
	return !w.full && w.err == nil
}

// flushPeriodically writes packets that were kept long enough, also while no further packets arrive.
func (w *writer) flushPeriodically(ctx context.Context) {
	tick := time.NewTicker(deferTime)
	defer tick.Stop()
	for {
		select {
		case now := <-tick.C:
			w.mu.Lock()
			w.release(now.Add(-2 * deferTime))
			if w.err == nil {
				w.err = w.ng.Flush()
			}
			w.mu.Unlock()
		case <-ctx.Done():
			return
		}
	}
}

// release writes the packets from before a time; all packets when it is zero.
func (w *writer) release(before time.Time) {
	i := 0
	for ; i < len(w.pending) && !w.full && w.err == nil; i++ {
		r := w.pending[i]
		if !before.IsZero() && !r.Time.Before(before) {
			break
		}
		if w.byID[r.Packet] == r {
			delete(w.byID, r.Packet)
		}
		w.err = w.put(r)
	}
	w.pending = w.pending[i:]
}

// put writes a packet.
func (w *writer) put(r *record) error {
	info := gopacket.CaptureInfo{Timestamp: r.Time, CaptureLength: len(r.Data), Length: max(r.Len, len(r.Data))}
	data, side, port := r.Data, roceInterface, r.PortName
	if r.Side == lcore.IBSide {
		side, port = ibInterface, r.IB.Ports
		data, info.Length = erf(&r.MirroredPacket)
		info.CaptureLength = len(data)
	}
	var err error
	if info.InterfaceIndex, err = w.interfaceOf(side, port); err != nil {
		return fmt.Errorf("capture: %w", err)
	}
	if err := w.ng.WritePacketWithOptions(info, data, options(r)); err != nil {
		return fmt.Errorf("capture: %w", err)
	}
	w.result.Packets[side]++
	w.packets[info.InterfaceIndex]++
	if r.drop != 0 {
		w.result.Dropped[r.drop]++
	}
	w.written++
	w.limit()
	return nil
}

// limit sets full when a limit is reached.
func (w *writer) limit() {
	size := w.counted.n // without what is still buffered
	w.full = w.limits.Packets > 0 && w.written >= w.limits.Packets || w.limits.Bytes > 0 && size >= w.limits.Bytes
}

// options returns the packet's number, its direction at the interface, and a comment.
func options(r *record) pcapgo.NgPacketOptions {
	flags := pcapgo.NgEpbFlags{Direction: pcapgo.NgEpbFlagDirectionInbound}
	if r.Point == lcore.Sent || r.Point == lcore.Own {
		flags.Direction = pcapgo.NgEpbFlagDirectionOutbound
	}
	o := pcapgo.NgPacketOptions{Flags: &flags, PacketID: &r.Packet}
	switch {
	case r.drop != 0:
		o.Comments = []string{fmt.Sprintf("dropped, %v: %s", r.drop, r.drop.Sentence())}
	case r.Point != lcore.Received && r.Point != lcore.Sent:
		o.Comments = []string{r.Point.String()}
	}
	return o
}

// A countingWriter counts the bytes written.
type countingWriter struct {
	w io.Writer
	n int64
}

// Write implements io.Writer.
func (c *countingWriter) Write(b []byte) (int, error) {
	n, err := c.w.Write(b)
	c.n += int64(n)
	return n, err
}
