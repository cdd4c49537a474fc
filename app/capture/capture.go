// SPDX-License-Identifier: Apache-2.0

// Package capture writes what passes the bridge's two doors to one pcapng file: interface 0 is the Ethernet port,
// interface 1 the InfiniBand port, whose packets are ERF records as Wireshark reads them.
//
//	bridge ── sights ──▶ Write ──▶ file        a packet that died has its reason as comment
//
// A door gives messages, not packets: InfiniBand's headers are built anew from what the door tells. Its PSN and, of what
// was received, the Q_Key are not known, and zero.
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

// A Watcher shows packets: the house.
type Watcher interface {
	Watch(ctx context.Context, f lcore.Filter, snap int, see func(lcore.Sight) bool) (missed uint64, err error)
}

// Limits end a capture, the first that is reached. Zero is no limit.
type Limits struct {
	Packets  uint64
	Bytes    int64 // of the file, or of all files together
	Duration time.Duration
	Snap     int // bytes kept of a packet
}

// Result says what a capture holds.
type Result struct {
	Packets  [2]uint64             // at the Ethernet door, and at the InfiniBand door
	Dropped  map[lcore.Drop]uint64 // of these, those that died
	Bytes    int64                 // written
	Missed   uint64                // not captured: packets came faster than they were written
	Duration time.Duration
	Files    []string // of a ring, those that are left
}

// String is the result in one line.
func (r Result) String() string {
	died := uint64(0)
	for _, n := range r.Dropped {
		died += n
	}
	return fmt.Sprintf("%d packets of RoCE, %d of InfiniBand, %d of them dropped by the bridge, %d bytes in %v; missed %d",
		r.Packets[0], r.Packets[1], died, r.Bytes, r.Duration.Round(time.Millisecond), r.Missed)
}

// Write captures what f passes, until ctx ends or a limit is reached. Without drop or point in f it is what comes and what
// goes, at both doors; what came and died says so in a comment. With drop it is what died, as it was then.
func Write(ctx context.Context, h Watcher, f lcore.Filter, w io.Writer, l Limits) (Result, error) {
	return write(ctx, h, f, &single{w}, l)
}

// Interfaces of the file.
const (
	roceInterface = iota
	ibInterface
)

// patience is how long a packet is kept back, to see whether it dies.
const patience = 20 * time.Millisecond

// A writer is a capture on its way.
type writer struct {
	filter lcore.Filter
	limits Limits
	out    output

	mu      sync.Mutex
	ng      *pcapgo.NgWriter
	counted *counted
	kept    []*record
	byID    map[uint64]*record
	result  Result
	written uint64
	full    bool
	err     error
}

// A record is a packet that is kept back.
type record struct {
	lcore.Sight
	died lcore.Drop
}

func write(ctx context.Context, h Watcher, f lcore.Filter, out output, l Limits) (Result, error) {
	began := time.Now()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	if l.Duration > 0 {
		ctx, stop = context.WithTimeout(ctx, l.Duration)
		defer stop()
	}
	w := &writer{filter: f, limits: l, out: out, byID: map[uint64]*record{}, result: Result{Dropped: map[lcore.Drop]uint64{}}}
	if err := w.open(); err != nil {
		return Result{}, errors.Join(err, out.close())
	}
	var flushing sync.WaitGroup
	flushing.Go(func() { w.flushOften(ctx) })
	missed, err := h.Watch(ctx, f, l.Snap, w.see)
	stop()
	flushing.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.let(time.Time{})
	w.result.Missed = missed
	w.result.Duration = time.Since(began)
	err = errors.Join(err, w.err, w.finish(), out.close())
	w.result.Files = out.names()
	return w.result, err
}

// open begins the next file.
func (w *writer) open() error {
	to, err := w.out.next()
	if err != nil {
		return fmt.Errorf("capture: %w", err)
	}
	w.counted = &counted{w: to}
	section := pcapgo.NgSectionInfo{Hardware: runtime.GOARCH, OS: runtime.GOOS, Application: "causeway"}
	roce := pcapgo.NgInterface{Name: "roce", Description: "Ethernet port of the bridge", Filter: w.filter.String(),
		LinkType: layers.LinkTypeEthernet, SnapLength: uint32(max(w.limits.Snap, 0))}
	w.ng, err = pcapgo.NewNgWriterInterface(w.counted, roce, pcapgo.NgWriterOptions{SectionInfo: section})
	if err == nil {
		_, err = w.ng.AddInterface(pcapgo.NgInterface{Name: "ib", Description: "InfiniBand port of the bridge; headers as far as the port tells",
			Filter: w.filter.String(), LinkType: ib.LinkTypeERF})
	}
	if err == nil {
		err = w.ng.Flush()
	}
	return err
}

// finish ends a file.
func (w *writer) finish() error {
	var errs []error
	for i, n := range w.result.Packets {
		errs = append(errs, w.ng.WriteInterfaceStats(i, pcapgo.NgInterfaceStatistics{
			LastUpdate: time.Now(), PacketsReceived: n, PacketsDropped: w.result.Missed,
		}))
	}
	errs = append(errs, w.ng.Flush())
	w.result.Bytes += w.counted.n
	w.counted.n = 0
	return errors.Join(errs...)
}

// see takes a sight; false when the capture is over.
func (w *writer) see(s lcore.Sight) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.full || w.err != nil {
		return false
	}
	chosen := w.filter.Point != 0 || w.filter.Drop != 0 || w.filter.AnyDrop
	r := &record{Sight: s, died: s.Drop}
	switch {
	case chosen, s.Point == lcore.Sent, s.Point == lcore.Own:
	case s.Point == lcore.Received:
		w.byID[s.Packet] = r
	case s.Point == lcore.Dropped:
		if came, ok := w.byID[s.Packet]; ok && s.Packet != 0 {
			came.died = s.Drop
			return true
		}
	default: // on its way inside: it has been seen already
		return true
	}
	w.kept = append(w.kept, r)
	w.let(s.Time.Add(-patience))
	return !w.full && w.err == nil
}

// flushOften writes what has been kept back for long enough, while nothing comes.
func (w *writer) flushOften(ctx context.Context) {
	tick := time.NewTicker(patience)
	defer tick.Stop()
	for {
		select {
		case now := <-tick.C:
			w.mu.Lock()
			w.let(now.Add(-2 * patience))
			if w.err == nil {
				w.err = w.ng.Flush()
			}
			w.mu.Unlock()
		case <-ctx.Done():
			return
		}
	}
}

// let writes what came before a time; all, when it is zero.
func (w *writer) let(before time.Time) {
	i := 0
	for ; i < len(w.kept) && !w.full && w.err == nil; i++ {
		r := w.kept[i]
		if !before.IsZero() && !r.Time.Before(before) {
			break
		}
		if w.byID[r.Packet] == r {
			delete(w.byID, r.Packet)
		}
		w.err = w.put(r)
	}
	w.kept = w.kept[i:]
}

// put writes one packet.
func (w *writer) put(r *record) error {
	info := gopacket.CaptureInfo{Timestamp: r.Time, CaptureLength: len(r.Data), Length: max(r.Len, len(r.Data)), InterfaceIndex: roceInterface}
	data := r.Data
	if r.Door == lcore.IBDoor {
		info.InterfaceIndex = ibInterface
		data, info.Length = erf(&r.Sight)
		info.CaptureLength = len(data)
	}
	if err := w.ng.WritePacketWithOptions(info, data, options(r)); err != nil {
		return fmt.Errorf("capture: %w", err)
	}
	w.result.Packets[info.InterfaceIndex]++
	if r.died != 0 {
		w.result.Dropped[r.died]++
	}
	w.written++
	return w.limit()
}

// limit looks whether that was the last packet, or the last of this file.
func (w *writer) limit() error {
	size := w.counted.n + w.result.Bytes // what lies in the buffer comes later
	w.full = w.limits.Packets > 0 && w.written >= w.limits.Packets || w.limits.Bytes > 0 && size >= w.limits.Bytes
	if w.full || w.out.room(w.counted.n) {
		return nil
	}
	if err := w.finish(); err != nil {
		return err
	}
	return w.open()
}

// options are the packet's number, its way through the interface, and what became of it.
func options(r *record) pcapgo.NgPacketOptions {
	flags := pcapgo.NgEpbFlags{Direction: pcapgo.NgEpbFlagDirectionInbound}
	if r.Point == lcore.Sent || r.Point == lcore.Own {
		flags.Direction = pcapgo.NgEpbFlagDirectionOutbound
	}
	o := pcapgo.NgPacketOptions{Flags: &flags, PacketID: &r.Packet}
	switch {
	case r.died != 0:
		o.Comments = []string{fmt.Sprintf("dropped, %v: %s", r.died, r.died.Sentence())}
	case r.Point != lcore.Received && r.Point != lcore.Sent:
		o.Comments = []string{r.Point.String()}
	}
	return o
}

// counted counts what is written.
type counted struct {
	w io.Writer
	n int64
}

// Write implements io.Writer.
func (c *counted) Write(b []byte) (int, error) {
	n, err := c.w.Write(b)
	c.n += int64(n)
	return n, err
}
