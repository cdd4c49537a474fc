// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"time"

	"causeway/app/bridge"
	"causeway/config"
	"causeway/fleet/right"
	"causeway/fleet/whereabouts"
)

// fleetResignation says for a bridge that was killed that it has ended.
type fleetResignation struct{ file string }

func resignFlags(fs *flag.FlagSet) *fleetResignation {
	r := &fleetResignation{}
	fs.StringVar(&r.file, "c", "", "resign: the configuration `FILE` of the bridge that has ended")
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
	ctx, cancel := context.WithTimeout(context.Background(), max(cfg.Fleet.Right, time.Second))
	defer cancel()
	last, found, err := store.Record(ctx, cfg.Name)
	if err != nil || !found || last.Ended {
		return err
	}
	ended, err := whereabouts.Ended(last.Where)
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
