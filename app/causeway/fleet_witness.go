// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"sync/atomic"

	"causeway/config"
)

// startWitness starts a process beside the bridge, if that is one of a fleet: it tells the fleet as soon as the bridge has
// died, of whatever, so that others carry on for it without waiting for its lease to run out. It learns that by a pipe, which
// the kernel closes with the bridge. end ends it, when the bridge has said itself that it ends.
func startWitness(file string, cfg *config.Config, log *slog.Logger) (end func(), err error) {
	if cfg.Fleet.Name == "" {
		return func() {}, nil
	}
	c := exec.Command("/proc/self/exe", "fleet", "resign", "-wait", "-c", file)
	c.Args[0] = os.Args[0]
	c.Stdout, c.Stderr = os.Stderr, os.Stderr
	alive, err := c.StdinPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("start the process that tells the fleet %s if this one dies: %w", cfg.Fleet.Name, err)
	}
	log.Info("fleet_witness", "pid", c.Process.Pid)
	var dismissed atomic.Bool
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := c.Wait(); !dismissed.Load() {
			log.Warn("fleet_witness_ended", "error", err, "note", "if this bridge dies, others carry on only when its lease has run out")
		}
	}()
	return func() {
		dismissed.Store(true)
		alive.Close()
		<-ended // it has said why it failed
	}, nil
}
