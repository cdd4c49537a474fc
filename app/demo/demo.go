// SPDX-License-Identifier: Apache-2.0

// Package demo shows the bridge at work on any Linux machine:
//
//	namespace host1: 10.9.0.1, fd09::1 ─┐
//	                                    ├─ bridge br0 ─ veth ─ Causeway ─ software subnet ─┬─ echo:   10.9.0.7, fd09::7
//	namespace host2: 10.9.0.2, fd09::2 ─┘                                                  └─ listen: 10.9.0.8, fd09::8
//
// The hosts' ARP, ND, IGMP and UDP are the kernel's; their RoCE is made by package roce, from UDP sockets. The
// bridge is the one that "causeway run" runs. Every message says who it is, so that each is accounted for.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"causeway/app/house"
	"causeway/ibside/fabric"
)

// Options says how to show it.
type Options struct {
	Duration time.Duration // of the traffic
	JSON     bool          // one JSON object at the end instead of table and summary
	PcapDir  string        // where to leave captures of both fabrics; "": nowhere
	Out      io.Writer
	Err      io.Writer
}

// Run shows it and reports whether every message that was due arrived and every packet is accounted for.
func Run(ctx context.Context, o Options) (ok bool, err error) {
	if os.Geteuid() != 0 {
		return false, errors.New("demo: it makes network namespaces, for which it must be root; use sudo")
	}
	w, err := newWorld(o.PcapDir)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, w.close()) }()

	return w.show(ctx, o)
}

// readyWithin is far more than the bridge needs.
const readyWithin = 10 * time.Second

// show runs the bridge, and the traffic when it is ready. The bridge outlives the traffic, also when ctx ends: what
// is on its way then still arrives.
func (w *world) show(ctx context.Context, o Options) (ok bool, err error) {
	h, err := w.build(slog.New(slog.NewTextHandler(logTo(o), &slog.HandlerOptions{Level: slog.LevelWarn})))
	if err != nil {
		return false, err
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	ended := make(chan error, 1)
	ready := make(chan struct{})
	go func() { ended <- h.Run(running, func() { close(ready) }) }()
	select {
	case <-ready:
	case err := <-ended:
		return false, errors.Join(err, h.Close())
	case <-ctx.Done():
		stop()
		return false, errors.Join(errors.New("demo: stopped before the bridge was ready"), <-ended, h.Close())
	case <-time.After(readyWithin):
		stop()
		return false, errors.Join(fmt.Errorf("demo: the bridge did not become ready within %v", readyWithin), <-ended, h.Close())
	}
	r, err := w.traffic(ctx, h, o)
	stop()
	err = errors.Join(err, <-ended, h.Close())
	if err != nil {
		return false, err
	}
	r.take(h.Counters())
	return r.OK, r.write(o)
}

func logTo(o Options) io.Writer {
	if o.Err == nil {
		return io.Discard
	}
	return o.Err
}

// traffic has all flows run for the duration, then waits for what is on its way.
func (w *world) traffic(ctx context.Context, h *house.House, o Options) (*result, error) {
	flows, err := w.flows()
	if err != nil {
		return nil, err
	}
	sending, stop := context.WithTimeout(ctx, o.Duration)
	defer stop()
	begin := time.Now()
	done := make(chan struct{})
	go func() {
		defer close(done)
		runFlows(sending, flows)
	}()
	show := newView(o, h, flows, begin)
	show.start(w.notes)
	for running := true; running; {
		select {
		case <-done:
			running = false
		case <-time.After(show.every()):
			show.draw()
		}
	}
	show.end()
	return &result{Duration: time.Since(begin).Seconds(), Notes: w.notes, flows: flows}, nil
}

// captures opens where the captures go.
func captures(dir string) (roce, ib string, err error) {
	if dir == "" {
		return "", "", nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", "", fmt.Errorf("demo: %w", err)
	}
	return filepath.Join(dir, "roce.pcap"), filepath.Join(dir, "ib.pcap"), nil
}

// node makes an IB node of the software subnet.
func (w *world) node(i int, role fabric.Role, groups ...fabric.GroupConfig) (*fabric.Node, error) {
	p, err := w.subnet.Attach(fabric.PortConfig{Name: nodeNames[i], GUID: nodeGUID(i)})
	if err != nil {
		return nil, err
	}
	return fabric.StartNode(p, fabric.NodeConfig{Name: nodeNames[i], GUID: nodeGUID(i), Role: role, Groups: groups,
		OnMessage: func(_ *fabric.Node, r *fabric.Received) {
			if heard := w.onListen.Load(); heard != nil && role == fabric.RoleListen {
				(*heard)(r)
			}
		}})
}
