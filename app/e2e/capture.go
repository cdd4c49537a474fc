// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"
)

const (
	// captureKiB is tcpdump's buffer: its default of 2 MiB loses frames of a burst
	// when the emulated CPUs take all real ones.
	captureKiB = 16384
	// settle is how long a frame may take from a guest's completion to the file.
	settle = 300 * time.Millisecond
)

// Capture is a tcpdump that runs on an interface of the segment.
type Capture struct {
	File    string
	rig     *Rig
	tcpdump *process
}

// Capture writes the frames of an interface to a pcap file: tapA is all that
// guest A sends and receives, Port all that Causeway does. filter is tcpdump's;
// "" takes all. file "" chooses one in the rig's folder.
func (r *Rig) Capture(ctx context.Context, dev, file, filter string) (*Capture, error) {
	if file == "" {
		f, err := os.CreateTemp(r.dir, dev+"-*.pcap")
		if err != nil {
			return nil, err
		}
		f.Close()
		file = f.Name()
	}
	words := []string{"tcpdump", "-Z", "root", "-i", dev, "-w", file, "-s", "0", "-B", fmt.Sprint(captureKiB), "-U", "--immediate-mode"}
	if filter != "" {
		words = append(words, filter)
	}
	log, err := os.CreateTemp(r.dir, "tcpdump-*.log")
	if err != nil {
		return nil, err
	}
	log.Close()
	p, err := r.ns.launch("tcpdump", log.Name(), words...)
	if err != nil {
		return nil, err
	}
	c := &Capture{File: file, rig: r, tcpdump: p}
	r.add(c, func() { _ = p.stop(syscall.SIGINT) })
	err = p.await(ctx, func(output string) bool { return strings.Contains(output, "listening on") })
	return c, err
}

// Stop ends the capture after the last frames have come, and returns them. It
// is an error if the kernel dropped some.
func (c *Capture) Stop() ([]Frame, error) {
	time.Sleep(settle)
	c.rig.remove(c)
	if err := c.tcpdump.stop(syscall.SIGINT); err != nil {
		return nil, fmt.Errorf("tcpdump: %w: %s", err, c.tcpdump.output())
	}
	if !strings.Contains(c.tcpdump.output(), "\n0 packets dropped by kernel") {
		return nil, fmt.Errorf("tcpdump lost frames: %s", c.tcpdump.output())
	}
	return ReadPcap(c.File)
}
