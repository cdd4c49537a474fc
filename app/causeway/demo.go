// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"os/signal"
	"syscall"
	"time"

	"causeway/app/demo"
)

// runDemo is "causeway demo".
func runDemo(args []string, stdout, stderr io.Writer) int {
	fs := newFlags("demo", `Runs the bridge with traffic on any Linux machine, as root: two RoCE hosts in network namespaces, a software
InfiniBand subnet with two nodes, and unicast and multicast in both directions. Exits with 0 only when every message
arrived and every packet is accounted for. Meanwhile the bridge's page, metrics and status are at the address that it
prints, on this machine only.

With -fleet, three bridges in processes of their own do the work as one fleet, with three voters (etcd) and
three RoCE hosts. One bridge is killed and started again, and another one drained, and it says what was lost until the
others carried on. Exits with 0 only when nothing came twice, out of order or damaged, and every packet is accounted
for.`)
	duration := fs.Duration("duration", 20*time.Second, "the `TIME` that the traffic runs")
	keep := fs.Bool("keep", false, "go on until Ctrl-C, whatever -duration is, to look at the page")
	asJSON := fs.Bool("json", false, "end with one JSON object instead of table and summary")
	fabrics := fs.Int("fabrics", 1, "the `NUMBER` of InfiniBand fabrics: with 2, one is cut for a third of the time while the other takes over")
	fleet := fs.Bool("fleet", false, "run three bridges as one fleet, and kill one; needs etcd in PATH")
	pcap := fs.String("pcap", "", "leave captures of both fabrics in `DIR`, for Wireshark")
	if code, done := parse(fs, args, stdout, stderr); done {
		return code
	}
	switch {
	case fs.NArg() > 0:
		return misused(fs, stderr, fmt.Sprintf("demo takes no arguments, and %q is one", fs.Arg(0)))
	case *fabrics < 1 || *fabrics > demo.MostFabrics:
		return misused(fs, stderr, fmt.Sprintf("-fabrics %d: write 1 or 2", *fabrics))
	case *fleet && (*keep || *fabrics > 1 || *pcap != ""):
		return misused(fs, stderr, "-fleet goes without -keep, -fabrics and -pcap")
	case *duration <= 0:
		return misused(fs, stderr, fmt.Sprintf("-duration %v: write a time above 0, such as 20s", *duration))
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal kills it
	run := demo.Run
	if *fleet {
		run = demo.RunFleet
	}
	ok, err := run(ctx, demo.Options{Duration: *duration, Keep: *keep, Version: ownVersion(), JSON: *asJSON, Fabrics: *fabrics, PcapDir: *pcap, Out: stdout, Err: stderr})
	if err != nil {
		fmt.Fprintln(stderr, err)
		return exitFailed
	}
	if !ok {
		return exitFailed
	}
	return exitOK
}
