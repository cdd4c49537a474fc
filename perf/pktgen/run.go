// SPDX-License-Identifier: Apache-2.0

package pktgen

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Runner says how pktgen is run.
type Runner struct {
	Program string // "": pktgen, or app/pktgen, in PATH
	Port    string // memif:SOCKET[,role=client], af_packet:INTERFACE, or a PCI address
	CPUs    []int  // the first is for its display and script, the second sends and receives
	Huge    bool   // hugepages; without them ordinary memory
}

// Second is what pktgen counted since the beginning, at a time.
type Second struct {
	Second                     int
	Tx, Rx, TxErrors, RxMissed uint64
}

// Result is a run's counts.
type Result struct {
	Seconds []Second
}

// TxPPS is the median of the packets sent by second.
func (r Result) TxPPS() uint64 { return r.median(func(s Second) uint64 { return s.Tx }) }

// RxPPS is the same of those received.
func (r Result) RxPPS() uint64 { return r.median(func(s Second) uint64 { return s.Rx }) }

func (r Result) median(of func(Second) uint64) uint64 {
	var rates []uint64
	for i := 1; i < len(r.Seconds)-1; i++ { // the last one is of what was still on its way
		rates = append(rates, of(r.Seconds[i])-of(r.Seconds[i-1]))
	}
	if len(rates) == 0 {
		return 0
	}
	slices.Sort(rates)
	return rates[len(rates)/2]
}

// Arguments are those of the program's command line.
func (r Runner) Arguments(capture, lua string) ([]string, error) {
	device, err := deviceOf(r.Port)
	if err != nil {
		return nil, err
	}
	if len(r.CPUs) != 2 || r.CPUs[0] == r.CPUs[1] {
		return nil, fmt.Errorf("pktgen: CPUs %v; give two: one for display and script, one that sends", r.CPUs)
	}
	args := []string{"-l", fmt.Sprintf("%d,%d", r.CPUs[0], r.CPUs[1]), "--main-lcore", strconv.Itoa(r.CPUs[0]), "--proc-type", "primary",
		"--file-prefix", "causeway-pktgen", "-m", "512"}
	if !r.Huge {
		args = append(args, "--no-huge", "--no-shconf")
	}
	args = append(args, device...)
	return append(args, "--", "-N", "-T", "-j", "-m", fmt.Sprintf("%d.0", r.CPUs[1]), "-s", "0:"+capture, "-f", lua), nil
}

var pciAddress = regexp.MustCompile(`^[0-9a-fA-F]{4}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]$`)

// deviceOf are the EAL's arguments for a port.
func deviceOf(port string) ([]string, error) {
	kind, rest, _ := strings.Cut(port, ":")
	switch {
	case pciAddress.MatchString(port):
		return []string{"-a", port}, nil
	case kind == "memif" && rest != "":
		socket, options, more := strings.Cut(rest, ",")
		vdev := fmt.Sprintf("net_memif0,socket=%s,socket-abstract=no,bsize=8192", socket)
		if more {
			vdev += "," + options
		}
		return []string{"--no-pci", "--vdev", vdev}, nil
	case kind == "af_packet" && rest != "":
		return []string{"--no-pci", "--vdev", fmt.Sprintf("net_af_packet0,iface=%s,blocksz=65536,framesz=8192,framecnt=512", rest)}, nil
	}
	return nil, fmt.Errorf("pktgen: port %q; write it as memif:SOCKET[,role=client], af_packet:INTERFACE, or a PCI address", port)
}

// Lookup finds the program.
func (r Runner) Lookup() (string, error) {
	if r.Program != "" {
		return exec.LookPath(r.Program)
	}
	path, err := exec.LookPath("pktgen")
	if err != nil {
		return "", errors.New("pktgen: there is no pktgen in PATH; build Pktgen-DPDK 23.03 (it fits DPDK 22.11) and put it there, or name it")
	}
	return path, nil
}

// Run has pktgen send a capture by a script. It ends with ctx, and when pktgen takes much longer than it should.
func (r Runner) Run(ctx context.Context, capture, lua string, seconds int) (Result, error) {
	program, err := r.Lookup()
	if err != nil {
		return Result{}, err
	}
	args, err := r.Arguments(capture, lua)
	if err != nil {
		return Result{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(seconds+60)*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.WaitDelay = 5 * time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	failed := cmd.Run()
	result := Parse(out.String())
	if len(result.Seconds) < seconds { // its exit code says little
		return result, fmt.Errorf("pktgen: %d seconds counted of %d: %w; it said: %s", len(result.Seconds), seconds, errors.Join(failed, ctx.Err()), tail(out.String()))
	}
	return result, nil
}

var line = regexp.MustCompile(`CAUSEWAY second=(\d+) tx=(\d+) rx=(\d+) tx_errors=(\d+) rx_missed=(\d+)`)

// Parse finds the script's lines in what pktgen wrote, among all it draws.
func Parse(out string) Result {
	var r Result
	for _, m := range line.FindAllStringSubmatch(out, -1) {
		var v [5]uint64
		for i := range v {
			v[i], _ = strconv.ParseUint(m[i+1], 10, 64) // digits, by the pattern
		}
		r.Seconds = append(r.Seconds, Second{int(v[0]), v[1], v[2], v[3], v[4]})
	}
	return r
}

// tail is the end of a program's output, without what moves a cursor.
func tail(out string) string {
	out = regexp.MustCompile(`\x1b\[[0-9;?]*[A-Za-z]|\x1b[78]|\r`).ReplaceAllString(out, "")
	lines := strings.FieldsFunc(out, func(c rune) bool { return c == '\n' })
	return strings.Join(lines[max(0, len(lines)-5):], " / ")
}
