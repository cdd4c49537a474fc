// SPDX-License-Identifier: Apache-2.0

// Package demo runs the bridge with traffic on any Linux machine, without hardware:
//
//	namespace host1: 10.9.0.1, fd09::1 ─┐
//	                                    ├─ bridge br0 ─ veth ─ Causeway ─ software subnet ─┬─ echo:   10.9.0.7, fd09::7
//	namespace host2: 10.9.0.2, fd09::2 ─┘                                                  └─ listen: 10.9.0.8, fd09::8
//
// The hosts' ARP, ND, IGMP and UDP are the kernel's; their RoCE packets are made by package roce and sent over UDP
// sockets. The bridge is the one of "causeway run". Every message has a number, so that each is accounted for.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"causeway/app/bridge"
	"causeway/ibside/fabric"
)

// Options are the options of the demonstration.
type Options struct {
	Duration time.Duration // of the traffic
	Keep     bool          // until ctx ends, whatever Duration is
	Version  string        // of the program, for the page
	JSON     bool          // one JSON object at the end instead of table and summary
	Fabrics  int           // InfiniBand fabrics; 2: one of them is cut while the traffic runs
	PcapDir  string        // where to leave captures of both fabrics; "": nowhere
	Out      io.Writer
	Err      io.Writer

	screen *screen // of Out
}

// Run runs the demonstration and reports whether every message arrived and every packet is accounted for.
func Run(ctx context.Context, o Options) (ok bool, err error) {
	if os.Geteuid() != 0 {
		return false, errors.New("demo: must be root, to make network namespaces; use sudo")
	}
	tb, err := newTestbed(o.PcapDir, o.Fabrics)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, tb.close()) }()

	return tb.show(ctx, o)
}

// readyWithin is far more than the bridge needs.
const readyWithin = 10 * time.Second

// show runs the bridge, and traffic when it is ready. The bridge stops after the traffic, also when ctx ends, so that
// messages in flight still arrive.
func (tb *testbed) show(ctx context.Context, o Options) (ok bool, err error) {
	o.screen = &screen{out: o.Out}
	log, control := newLog(o)
	b, err := tb.build(log)
	if err != nil {
		return false, err
	}
	url, endPage, err := servePage(b, o, control)
	if err != nil {
		return false, errors.Join(err, b.Close())
	}
	defer func() { err = errors.Join(err, endPage()) }()
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	ended := make(chan error, 1)
	ready := make(chan struct{})
	go func() { ended <- b.Run(running, func() { close(ready) }) }()
	select {
	case <-ready:
	case err := <-ended:
		return false, errors.Join(err, b.Close())
	case <-ctx.Done():
		stop()
		return false, errors.Join(errors.New("demo: stopped before the bridge was ready"), <-ended, b.Close())
	case <-time.After(readyWithin):
		stop()
		return false, errors.Join(fmt.Errorf("demo: the bridge did not become ready within %v", readyWithin), <-ended, b.Close())
	}
	r, err := tb.traffic(ctx, b, o, url)
	stop()
	err = errors.Join(err, <-ended, b.Close())
	if err != nil {
		return false, err
	}
	r.take(b.Counters())
	r.Lost.ofBridge(b.Losses())
	return r.OK, r.write(o)
}

func logTo(o Options) io.Writer {
	switch {
	case o.Err == nil:
		return io.Discard
	case o.screen != nil && terminalOf(o.Out) != nil && terminalOf(o.Err) != nil:
		return o.screen
	}
	return o.Err
}

// traffic runs all flows for the duration, or until ctx ends, then waits for the messages in flight.
func (tb *testbed) traffic(ctx context.Context, b *bridge.Bridge, o Options, url string) (*result, error) {
	flows, err := tb.flows()
	if err != nil {
		return nil, err
	}
	sending, stop := context.WithCancel(ctx)
	if !o.Keep {
		sending, stop = context.WithTimeout(ctx, o.Duration)
	}
	defer stop()
	begin, before := time.Now(), tb.around()
	done := make(chan struct{})
	go func() {
		defer close(done)
		runFlows(sending, flows)
	}()
	show := newView(o, b, flows, begin)
	show.second = tb.second
	go tb.cutAndMend(sending, b, o.Duration)
	show.start(tb.notes, url)
	for running := true; running; {
		select {
		case <-done:
			running = false
		case <-time.After(show.every()):
			show.draw()
		}
	}
	show.end()
	return &result{Duration: time.Since(begin).Seconds(), Notes: tb.notes, Lost: tb.around().since(before), flows: flows, second: tb.second}, nil
}

// captures makes the directory of the captures and returns the files' paths.
func captures(dir string) (roce, ib string, err error) {
	if dir == "" {
		return "", "", nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", "", fmt.Errorf("demo: -pcap %s: the folder cannot be made: %w; name another", dir, reason(err))
	}
	return filepath.Join(dir, "roce.pcap"), filepath.Join(dir, "ib.pcap"), nil
}

// reason returns what is wrong with a file, and with which if it is another than the one that was named.
func reason(err error) error {
	var at *fs.PathError
	if errors.As(err, &at) {
		return fmt.Errorf("%s: %w", at.Path, at.Err)
	}
	return err
}

// node attaches an InfiniBand node to the software subnet.
func (tb *testbed) node(i int, role fabric.Role, groups ...fabric.GroupConfig) (*fabric.Node, error) {
	p, err := tb.subnet.Attach(fabric.PortConfig{Name: nodeNames[i], GUID: nodeGUID(i)})
	if err != nil {
		return nil, err
	}
	return fabric.StartNode(p, fabric.NodeConfig{Name: nodeNames[i], GUID: nodeGUID(i), Role: role, Groups: groups,
		OnMessage: func(_ *fabric.Node, r *fabric.Received) {
			if receive := tb.onListen.Load(); receive != nil && role == fabric.RoleListen {
				(*receive)(r)
			}
		}})
}
