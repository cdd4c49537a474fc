// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"causeway/app/bridge"
	"causeway/config"
	"causeway/fleet/etcd"
)

// pushing is a push, or a question after the last one.
type pushing struct {
	cfg    *config.Config // of one member
	store  *etcd.Store
	wait   time.Duration // for a member to do what it is asked
	out    io.Writer
	push   *etcd.Push
	asked  []string        // members that take what is pushed
	others int             // members that do not
	before map[string]bool // those that were not ready before
}

// runPush is "causeway push".
func runPush(args []string, stdout, stderr io.Writer) int {
	fs := newFlags("push", `Gives all bridges of a fleet that have [fleet] configuration = "etcd" another configuration: SHARED, a file with keys that all
have the same, such as [policy], [[host]] and [[group]]. Each bridge checks it with its own file first, and when one refuses,
nothing is changed. Then they follow one by one, in the order of their names. When one fails, does not answer or turns unready,
those before it go back. When all have it, it is the fleet's, and bridges that come later have it, too. Without SHARED, it shows
which bridge has which version. Exits with 0 when all bridges have it, else with 1, and says who and why.`)
	file := fs.String("c", "", "the configuration `FILE` of one of the bridges, for its [fleet] and to check SHARED with")
	text := fs.Bool("text", false, "print the configuration that the fleet has")
	wait := fs.Duration("wait", 30*time.Second, "the `TIME` that a bridge may take to follow and be ready")
	if code, done := parse(fs, args, stdout, stderr); done {
		return code
	}
	if *file == "" || fs.NArg() > 1 || *text && fs.NArg() > 0 {
		return misused(fs, stderr, "name a bridge's file with -c, and one file to push, or -text, or none")
	}
	if *wait <= 0 {
		return misused(fs, stderr, fmt.Sprintf("-wait %v: write a time above 0, such as 30s", *wait))
	}
	if err := (&pushing{wait: *wait, out: stdout}).run(*file, fs.Arg(0), *text); err != nil {
		fmt.Fprintln(stderr, err)
		return exitFailed
	}
	return exitOK
}

func (p *pushing) run(file, shared string, text bool) (err error) {
	if p.cfg, err = config.Load(file); err != nil {
		return err
	}
	if p.cfg.Fleet.Name == "" {
		return fmt.Errorf("push: %s is of a bridge in no fleet; write [fleet] in it, or name the file of one that is", file)
	}
	store, end, err := bridge.FleetStore(&p.cfg.Fleet)
	if err != nil {
		return fmt.Errorf("push: %w", err)
	}
	defer end()
	p.store = store
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal kills a push that does not go back
	if shared == "" {
		return p.show(ctx, text)
	}
	data, err := os.ReadFile(shared)
	if err != nil {
		return fmt.Errorf("push: %s: %w", shared, cause(err))
	}
	if _, err := p.cfg.WithShared(shared, string(data)); err != nil {
		return err
	}
	if err := p.members(ctx); err != nil {
		return err
	}
	return p.all(ctx, string(data))
}

// answers bounds how long etcd may take.
func answers(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, 5*time.Second)
}

// show prints what there is.
func (p *pushing) show(ctx context.Context, text bool) error {
	ctx, end := answers(ctx)
	defer end()
	now, err := p.store.Configurations(ctx, nil)
	if err != nil {
		return fmt.Errorf("push: %w", err)
	}
	if text {
		fmt.Fprint(p.out, now.Current.Text)
		return nil
	}
	followers, err := p.store.Followers(ctx)
	if err != nil {
		return fmt.Errorf("push: %w", err)
	}
	switch {
	case now.Current.Version == 0:
		fmt.Fprintf(p.out, "Nothing was pushed to fleet %s: each bridge has its file.\n", p.cfg.Fleet.Name)
	default:
		fmt.Fprintf(p.out, "Fleet %s has configuration %d, which %s pushed.\n", p.cfg.Fleet.Name, now.Current.Version, now.Current.By)
	}
	if x := now.Proposal; x != nil {
		fmt.Fprintf(p.out, "%s pushes configuration %d now.\n", x.By, x.Version)
	}
	t := tabwriter.NewWriter(p.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "MEMBER\tLAST HAD\tNOTE")
	for _, name := range slices.Sorted(maps.Keys(followers)) {
		f := followers[name]
		fmt.Fprintf(t, "%s\t%d\t%s\n", name, f.Version, strings.Join(slices.DeleteFunc([]string{f.Failed, f.Unready, f.Differs}, func(s string) bool { return s == "" }), "; "))
	}
	return t.Flush()
}

// members finds out who is there: whose record is renewed.
func (p *pushing) members(ctx context.Context) error {
	ctx, end := answers(ctx)
	defer end()
	first, err := p.store.Records(ctx)
	if err != nil {
		return fmt.Errorf("push: %w", err)
	}
	if err := pause(ctx, max(p.cfg.Fleet.Lease, time.Second)); err != nil {
		return err
	}
	second, err := p.store.Records(ctx)
	if err != nil {
		return fmt.Errorf("push: %w", err)
	}
	followers, err := p.store.Followers(ctx)
	if err != nil {
		return fmt.Errorf("push: %w", err)
	}
	p.before = map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(second)) {
		f, takes := followers[name]
		switch is := second[name]; {
		case is.Ended || is.Process == first[name].Process && is.Renewals == first[name].Renewals:
		case !takes:
			p.others++
			fmt.Fprintf(p.out, "%s has its configuration from its file, and is not asked: write configuration = \"etcd\" in its [fleet].\n", name)
		default:
			p.asked = append(p.asked, name)
			p.before[name] = f.Unready != ""
		}
	}
	if len(p.asked) == 0 {
		return fmt.Errorf("push: no bridge of fleet %s is there that has [fleet] configuration = \"etcd\"; nothing was changed", p.cfg.Fleet.Name)
	}
	return nil
}

// errInterrupted ends a push that its operator has interrupted.
var errInterrupted = errors.New("it was interrupted")

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return fmt.Errorf("push: %w", errInterrupted)
	}
}
