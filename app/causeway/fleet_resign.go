// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"causeway/app/bridge"
	"causeway/config"
	"causeway/fleet/right"
	"causeway/fleet/whereabouts"
)

// fleetResignation says for a bridge that was killed that it has ended.
type fleetResignation struct {
	file  string
	waits bool // until its parent, which is the bridge, has ended: it is the bridge's witness
}

func resignFlags(fs *flag.FlagSet) *fleetResignation {
	r := &fleetResignation{}
	fs.StringVar(&r.file, "c", "", "resign: the configuration `FILE` of the bridge that has ended")
	fs.BoolVar(&r.waits, "wait", false, "resign: begin when the process that started this one, the bridge, has ended; run starts it so")
	return r
}

func (r *fleetResignation) check() error {
	if r.file == "" {
		return errors.New("name the bridge's file; say -c /etc/causeway/bridge.toml")
	}
	return nil
}

// run does so, if it is certain that the bridge has ended, and has not said so itself.
func (r *fleetResignation) run(out io.Writer) error {
	cfg, err := config.Load(r.file)
	if err != nil || cfg.Fleet.Name == "" {
		return err
	}
	store, end, err := bridge.FleetStore(&cfg.Fleet)
	if err != nil {
		return err
	}
	defer end()
	parent := ""
	if r.waits {
		if parent, err = outlive(os.Stdin); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), max(cfg.Fleet.Right, time.Second))
	defer cancel()
	last, found, err := store.Record(ctx, cfg.Name)
	if err != nil || !found || last.Ended || r.waits && last.Where != parent {
		return err
	}
	ended, err := r.ended(ctx, last.Where)
	switch {
	case err != nil:
		return fmt.Errorf("whether %s has ended is not known here: %w; its shares have others when its right has run out", cfg.Name, err)
	case !ended:
		return fmt.Errorf("%s runs; stop it first", cfg.Name)
	}
	if err := right.End(ctx, store, last); err != nil {
		return err
	}
	fmt.Fprintf(out, "%s has ended; the fleet %s knows.\n", cfg.Name, cfg.Fleet.Name)
	return nil
}

// outlive returns where the parent was, when it has closed its end of a pipe. What ends the parent may be sent to this process,
// too, which is then needed.
func outlive(pipe io.Reader) (parent string, err error) {
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE)
	if parent, err = whereabouts.Of(os.Getppid()); err != nil {
		return "", err
	}
	_, err = io.Copy(io.Discard, pipe)
	return parent, err
}

// ended reports whether the process that was there has ended. A parent that has closed the pipe is just about to.
func (r *fleetResignation) ended(ctx context.Context, where string) (bool, error) {
	for {
		ended, err := whereabouts.Ended(where)
		if ended || err != nil || !r.waits {
			return ended, err
		}
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			return false, nil
		}
	}
}
