// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"

	"causeway/lcore/frame"
	"causeway/perf/pktgen"
)

// pktgenCommand writes profiles for Pktgen-DPDK, or runs one.
func pktgenCommand(args []string) error {
	fs := newFlags("pktgen", "[OPTIONS]", `Writes captures of our generator's frames and Lua scripts that have Pktgen-DPDK send them; with -port, runs it.
Hosts are 10.9.0.1 and on, nodes 10.10.0.1 and on, by IPv6 fd09:: and fd0a::; QPNs are 0x456 and 0x123.`)
	out := fs.String("out", filepath.Join(os.TempDir(), "causeway-perf-pktgen"), "`folder` for captures and scripts")
	name := fs.String("profile", "", "only this one (default: all; with -port ipv4-64)")
	mac := fs.String("mac", "02:00:00:00:00:02", "the bridge's `MAC` address")
	rate := fs.Float64("rate", 100, "per cent of the port's speed")
	seconds := fs.Int("seconds", 10, "how long to send")
	port := fs.String("port", "", "run pktgen on this `port`: memif:SOCKET[,role=client], af_packet:INTERFACE, or a PCI address")
	program := fs.String("program", "", "the `program` (default: pktgen in PATH)")
	huge := fs.Bool("huge", false, "use hugepages")
	if err := parseFlags(fs, args, 0, 0); err != nil {
		return err
	}
	bridge, err := frame.ParseMAC(*mac)
	if err != nil {
		return fmt.Errorf("causeway-perf: -mac: %w", err)
	}
	profiles := pktgen.Profiles()
	if *name == "" && *port != "" {
		*name = "ipv4-64"
	}
	if *name != "" {
		p, err := pktgen.Find(*name)
		if err != nil {
			return err
		}
		profiles = []pktgen.Profile{p}
	}
	var capture, lua string
	for _, p := range profiles {
		p.Traffic.Bridge = bridge
		if capture, lua, err = p.Write(*out, pktgen.Script{Rate: *rate, Seconds: *seconds}); err != nil {
			return err
		}
		fmt.Printf("%s  %s\n", capture, lua)
	}
	if *port == "" {
		return nil
	}
	r := pktgen.Runner{Program: *program, Port: *port, CPUs: []int{0, runtime.NumCPU() - 1}, Huge: *huge}
	return runPktgen(r, capture, lua, *seconds)
}

func runPktgen(r pktgen.Runner, capture, lua string, seconds int) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	result, err := r.Run(ctx, capture, lua, seconds)
	for _, s := range result.Seconds {
		fmt.Printf("second %3d: sent %12d, received %12d, send errors %d, missed %d\n", s.Second, s.Tx, s.Rx, s.TxErrors, s.RxMissed)
	}
	if err != nil {
		return err
	}
	fmt.Printf("sent %.3f Mpps, received %.3f Mpps (medians by second)\n", float64(result.TxPPS())/1e6, float64(result.RxPPS())/1e6)
	return nil
}
