// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"causeway/lcore/frame"
	"causeway/perf/pktgen"
)

// pktgenOptions are the options of pktgen.
type pktgenOptions struct {
	out, profile, mac, bridge, port, program, metrics, json string
	rate, pps                                               float64
	seconds                                                 int
	huge                                                    bool
}

const pktgenHelp = `Writes captures of the generator's frames, Lua scripts that have Pktgen-DPDK send them, and configurations of a bridge and
a software subnet with these hosts and nodes. With -port, runs pktgen, which must be in PATH:

    causeway-perf pktgen -out DIR
    causeway run -c DIR/ipv4-64.toml
    causeway-perf pktgen -out DIR -port memif:DIR/memif.sock -metrics http://` + pktgen.MetricsAddress + `/metrics

Pktgen receives the echoes of the subnet's nodes. Hosts are 10.9.0.1 and up, nodes 10.10.0.1 and up, with IPv6 in fd09::/64
and fd0a::/64; their QPNs are 0x456 and 0x123.`

// pktgenCommand writes profiles for Pktgen-DPDK, and runs one.
func pktgenCommand(args []string) error {
	fs := newFlags("pktgen", "[OPTIONS]", pktgenHelp)
	var o pktgenOptions
	fs.StringVar(&o.out, "out", filepath.Join(os.TempDir(), "causeway-perf-pktgen"), "`DIR` for the files")
	fs.StringVar(&o.profile, "profile", "", "`NAME` of the profile (default: all; with -port ipv4-64)")
	fs.StringVar(&o.mac, "mac", "02:00:00:00:00:02", "`MAC` address of the bridge")
	fs.StringVar(&o.bridge, "bridge", "", "`PORT` of the bridge in its configuration (default: the server of a memif in DIR)")
	fs.Float64Var(&o.rate, "rate", 100, "`PERCENT` of the port's speed")
	fs.Float64Var(&o.pps, "pps", 0, "packets a second (`PPS`) instead of -rate")
	fs.IntVar(&o.seconds, "seconds", 10, "`SECONDS` to send")
	fs.StringVar(&o.port, "port", "", "run pktgen on this `PORT`: memif:SOCKET[,role=client], af_packet:INTERFACE, or a PCI address")
	fs.StringVar(&o.metrics, "metrics", "", "`URL` of the bridge's metrics, to print what the bridge counted, too")
	fs.StringVar(&o.json, "json", "", "write the result to this `FILE`, as JSON")
	fs.StringVar(&o.program, "program", "", "the pktgen `PROGRAM` (default: pktgen in PATH)")
	fs.BoolVar(&o.huge, "huge", false, "use hugepages")
	if err := parseFlags(fs, args, 0, 0); err != nil {
		return err
	}
	if o.profile == "" && o.port != "" {
		o.profile = "ipv4-64"
	}
	files, err := o.write()
	if err != nil || o.port == "" {
		return err
	}
	return o.run(files)
}

// write writes the profiles and returns the files of the last one.
func (o *pktgenOptions) write() (files pktgen.Files, err error) {
	bridge, err := frame.ParseMAC(o.mac)
	if err != nil {
		return files, fmt.Errorf("causeway-perf: -mac: %w", err)
	}
	if o.out, err = filepath.Abs(o.out); err != nil {
		return files, err
	}
	if o.bridge == "" {
		o.bridge = fmt.Sprintf("memif:%s,role=server,mac=%v", filepath.Join(o.out, "memif.sock"), bridge)
	}
	profiles := pktgen.Profiles()
	if o.profile != "" {
		p, err := pktgen.Find(o.profile)
		if err != nil {
			return files, err
		}
		profiles = []pktgen.Profile{p}
	}
	for _, p := range profiles {
		p.Traffic.Bridge = bridge
		if files, err = p.Write(o.out, pktgen.Script{Rate: o.rate, PPS: o.pps, Seconds: o.seconds}, o.bridge); err != nil {
			return files, err
		}
		if o.port == "" {
			fmt.Printf("%s  %s  %s\n", files.Capture, files.Script, files.Bridge)
		}
	}
	return files, nil
}

func (o *pktgenOptions) run(files pktgen.Files) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var before *pktgen.DUT
	var err error
	if o.metrics != "" {
		if before, err = pktgen.ReadDUT(ctx, o.metrics); err != nil {
			return err
		}
	}
	r := pktgen.Runner{Program: o.program, Port: o.port, CPUs: []int{0, runtime.NumCPU() - 1}, Huge: o.huge, Longest: files.Longest}
	result, err := r.Run(ctx, files.Capture, files.Script, o.seconds)
	if err != nil {
		return err
	}
	result.Profile, result.Port, result.FrameBytes = o.profile, o.port, files.FrameBytes
	if before != nil {
		time.Sleep(time.Second) // the bridge updates its metrics periodically
		after, err := pktgen.ReadDUT(ctx, o.metrics)
		if err != nil {
			return err
		}
		result.DUT = after.Since(before)
	}
	if err := errors.Join(result.Write(os.Stdout), o.writeJSON(result)); err != nil {
		return err
	}
	return result.Kept(o.pps)
}

func (o *pktgenOptions) writeJSON(result pktgen.Result) error {
	if o.json == "" {
		return nil
	}
	text, err := json.MarshalIndent(result, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(o.json, append(text, '\n'), 0o644)
}
