// SPDX-License-Identifier: Apache-2.0

// Ibswitch is a software InfiniBand switch, for end-to-end tests: its ports are cables to the adapters of QEMU guests,
// and software nodes. It relays what a subnet manager, such as opensm in a guest, has told it to. README.md has the
// details.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"causeway/app/e2e/ibswitch/link"
	"causeway/app/e2e/ibswitch/node"
	"causeway/app/e2e/ibswitch/relay"
	"causeway/ibside/ib"
)

const exitUsage = 2

func main() {
	o, err := parseOptions(os.Args[1:], os.Stderr)
	if err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(os.Stderr, "ibswitch:", err)
		}
		os.Exit(exitUsage)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o, os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "ibswitch:", err)
		os.Exit(1)
	}
}

// lines writes whole lines of several goroutines.
type lines struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lines) print(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprintln(l.w, text)
}

// run runs the switch until the commands, or ctx, end.
func run(ctx context.Context, o options, commands io.Reader, out io.Writer) error {
	l := &lines{w: out}
	f, err := build(o, l)
	if err != nil {
		return err
	}
	f.start()
	l.print("ready")
	serve(ctx, commands, l, f)
	return f.close()
}

// fabric is the switch with what is at its ports.
type fabric struct {
	sw     *relay.Switch
	cables map[string]*link.Cable
	nodes  []*node.Node
}

func build(o options, l *lines) (*fabric, error) {
	f := &fabric{
		sw:     relay.New(relay.Config{GUID: o.guid, Description: o.description, Event: l.print}),
		cables: map[string]*link.Cable{},
	}
	for _, c := range o.cables {
		cable, err := link.NewCable(c.local, c.remote)
		if err != nil {
			return nil, fmt.Errorf("port %s: %w", c.name, err)
		}
		f.cables[c.name] = cable
		if err := f.sw.Add(c.name, cable); err != nil {
			return nil, err
		}
	}
	for i, c := range o.nodes {
		near, far := link.Pipe()
		if err := f.sw.Add(c.Name, near); err != nil {
			return nil, err
		}
		c.GUID = o.guid + ib.GUID(i+1)
		f.nodes = append(f.nodes, node.New(node.Config{NodeConfig: c, Event: l.print}, far))
	}
	return f, nil
}

func (f *fabric) start() {
	for _, n := range f.nodes {
		n.Start()
	}
	f.sw.Start()
}

// close stops the nodes while they can still leave their groups.
func (f *fabric) close() error {
	var ended sync.WaitGroup
	for _, n := range f.nodes {
		ended.Go(n.Close)
	}
	ended.Wait()
	return f.sw.Close()
}
