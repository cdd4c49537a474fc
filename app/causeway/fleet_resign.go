// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
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
	"causeway/fleet/etcd"
	"causeway/fleet/lease"
	"causeway/fleet/whereabouts"
)

// fleetResignation says for a bridge that was killed that it has ended.
type fleetResignation struct {
	file  string
	off   string // the member for which an operator says so; "": the file's
	waits bool   // until its parent, which is the bridge, has ended: it is the bridge's witness
}

func resignFlags(fs *flag.FlagSet) *fleetResignation {
	r := &fleetResignation{}
	fs.StringVar(&r.file, "c", "", "resign: the configuration `FILE` of the bridge that has ended")
	fs.StringVar(&r.off, "off", "", "resign: the bridge that has ended is the one called `NAME`, and you know that: its machine is off, or was made anew")
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
		stop := warm(store, cfg.Name)
		parent, err = outlive(os.Stdin)
		if stop(); err != nil {
			return err
		}
	}
	patience := max(cfg.Fleet.Lease, time.Second)
	if r.off != "" {
		patience *= 3 // for one lease it looks whether the other renews
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	name := cmp.Or(r.off, cfg.Name)
	last, found, err := store.Record(ctx, name)
	switch {
	case err == nil && !found && r.off != "":
		return fmt.Errorf("the fleet %s has never had a member %s; show fleet has their names", cfg.Fleet.Name, name)
	case err != nil || !found || last.Ended || r.waits && last.Where != parent:
		return err
	}
	ended, err := r.ended(ctx, last.Where)
	if err != nil && r.off != "" {
		ended, err = isSilent(ctx, store, last, cfg.Fleet.Lease)
	}
	switch {
	case err != nil:
		return fmt.Errorf("whether %s has ended is not known here: %w; its shards have others when its lease has run out. "+
			"If its machine is off for certain, say -off %s", name, err, name)
	case !ended:
		return fmt.Errorf("%s runs; stop it first", name)
	}
	if err := lease.End(ctx, store, last); err != nil {
		return err
	}
	fmt.Fprintf(out, "%s has ended; the fleet %s knows.\n", name, cfg.Fleet.Name)
	return nil
}

// isSilent reports whether a member renews nothing for as long as a lease lasts. One that etcd does not hear may run all the
// same: that is the operator's to know.
func isSilent(ctx context.Context, store *etcd.Store, last lease.Record, lasts time.Duration) (bool, error) {
	select {
	case <-time.After(lasts):
	case <-ctx.Done():
		return false, ctx.Err()
	}
	now, _, err := store.Record(ctx, last.Member)
	return now.Process == last.Process && now.Renewals == last.Renewals, err
}

// warmEvery is how often a witness reads what it will have to read in a hurry.
const warmEvery = 10 * time.Second

// warm keeps the connection to etcd, and in memory what the process needs for it, until it is ended: opening and paging it in is half
// of what others would wait for.
func warm(store *etcd.Store, member string) (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		for ctx.Err() == nil {
			_, _, _ = store.Record(ctx, member) // what fails is tried again
			select {
			case <-time.After(warmEvery):
			case <-ctx.Done():
			}
		}
	}()
	return cancel
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
