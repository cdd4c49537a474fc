// SPDX-License-Identifier: Apache-2.0

package pktgen

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"time"
)

// Runner is how pktgen is run.
type Runner struct {
	Program string // "": pktgen in PATH
	Port    string // memif:SOCKET[,role=client], af_packet:INTERFACE, or a PCI address
	CPUs    []int  // the first runs display and script, the second sends and receives; of one CPU both run on it
	Huge    bool   // use hugepages
	Longest int    // bytes of the longest frame, which the interface must be able to send
	// Sending is called with pktgen's process when its script begins; may be nil.
	Sending func(pid int)
}

// Second is what pktgen has counted since the beginning.
type Second struct {
	Second   int           `json:"second"`
	At       time.Duration `json:"at_ns"` // when its line was read, after the first line
	Tx       uint64        `json:"sent"`
	Rx       uint64        `json:"received"`
	TxErrors uint64        `json:"send_errors"`
	RxMissed uint64        `json:"missed"`
}

// memoryMiB is the memory that pktgen 23.03 needs: five pools of 24576 mbufs of 10 KiB, a pool for the capture, and
// some more.
const memoryMiB = 1792

// Arguments returns pktgen's command line.
func (r Runner) Arguments(capture, lua string) ([]string, error) {
	device, err := deviceOf(r.Port)
	if err != nil {
		return nil, err
	}
	cores, sender, err := r.cores()
	if err != nil {
		return nil, err
	}
	args := append(cores, "--main-lcore", fmt.Sprint(r.CPUs[0]), "--proc-type", "primary", "--file-prefix", "causeway-pktgen", "-m", fmt.Sprint(memoryMiB))
	if r.Huge {
		args = append(args, "--in-memory")
	} else {
		args = append(args, "--no-huge", "--no-shconf")
	}
	args = append(args, device...)
	// -j: frames longer than 1514 bytes, with an MTU of 9216. -P: promiscuous mode, since frames go to the hosts' MAC
	// addresses.
	return append(args, "--", "-N", "-j", "-P", "-m", fmt.Sprintf("%d.0", sender), "-s", "0:"+capture, "-f", lua), nil
}

// cores are the EAL's arguments, and the lcore that sends. Pktgen's timer runs on the CPU with the number of the main
// lcore, so that one must not be mapped to another.
func (r Runner) cores() (args []string, sender int, err error) {
	switch {
	case len(r.CPUs) == 1:
		own := r.CPUs[0]
		sender = own + 1
		return []string{"--lcores", fmt.Sprintf("%d@%d,%d@%d", own, own, sender, own)}, sender, nil
	case len(r.CPUs) != 2 || r.CPUs[0] == r.CPUs[1]:
		return nil, 0, fmt.Errorf("pktgen: CPUs %v; use two: one for display and script, one that sends; or one for both", r.CPUs)
	}
	return []string{"-l", fmt.Sprintf("%d,%d", r.CPUs[0], r.CPUs[1])}, r.CPUs[1], nil
}

// lookup finds the program.
func (r Runner) lookup() (string, error) {
	if r.Program != "" {
		path, err := exec.LookPath(r.Program)
		if err != nil {
			return "", fmt.Errorf("pktgen: %w", err)
		}
		return path, nil
	}
	path, err := exec.LookPath("pktgen")
	if err != nil {
		return "", errors.New("pktgen: there is no pktgen in PATH; build Pktgen-DPDK 23.03 (it fits DPDK 22.11) with Lua and put it there, or name it")
	}
	return path, nil
}

// Run makes pktgen send a capture with a script that takes that many seconds. It ends pktgen with ctx, or when pktgen
// takes much too long. Files that it needs are written to the script's folder.
func (r Runner) Run(ctx context.Context, capture, lua string, seconds int) (Result, error) {
	program, err := r.lookup()
	if err != nil {
		return Result{}, err
	}
	args, err := r.Arguments(capture, lua)
	if err != nil {
		return Result{}, err
	}
	if err := r.ready(); err != nil {
		return Result{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(seconds)*2*time.Second+time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	if cmd.Env, err = r.environment(filepath.Dir(lua)); err != nil {
		return Result{}, err
	}
	cmd.WaitDelay = 5 * time.Second
	var out transcript
	cmd.Stdout, cmd.Stderr = &out, &out
	out.begin = func() {
		timerYields(cmd.Process.Pid)
		if r.Sending != nil {
			r.Sending(cmd.Process.Pid)
		}
	}
	failed := cmd.Run()
	result := out.result()
	switch problem := out.problem(); {
	case ctx.Err() != nil:
		return result, fmt.Errorf("pktgen: ended after %d of %d seconds: %w", max(0, len(result.Seconds)-1), seconds, ctx.Err())
	case problem != "":
		return result, fmt.Errorf("pktgen: %s", r.explain(problem))
	case len(result.Seconds) < seconds+2: // its exit code means little
		return result, fmt.Errorf("pktgen: ended after %d of %d seconds: %s; its last line: %s",
			max(0, len(result.Seconds)-1), seconds, state(failed), out.last())
	}
	return result, nil
}

func state(failed error) string {
	if failed == nil {
		return "exit status 0"
	}
	return failed.Error()
}
