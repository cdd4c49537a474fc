// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"causeway/app/bridge"
	"causeway/config"
	"causeway/fleet/lease"
	"causeway/fleet/shards"
)

// fleetRehearsal is a member that forwards nothing: it shows what a bridge in its place would do.
type fleetRehearsal struct {
	config.Fleet
	name string
}

func rehearsalFlags(fs *flag.FlagSet) *fleetRehearsal {
	r := &fleetRehearsal{}
	several(fs, &r.Etcd, "etcd", "rehearse: a server of the fleet's etcd, by its `URL`; several times", func(url string) (string, error) { return url, nil })
	fs.StringVar(&r.Fleet.Name, "fleet", "rehearsal", "rehearse: the fleet's `NAME`, which no fleet of bridges has")
	fs.StringVar(&r.name, "name", "", "rehearse: this member's `NAME`")
	fs.Float64Var(&r.Weight, "weight", 1, "rehearse: this member's `WEIGHT`")
	fs.DurationVar(&r.Lease, "lease", lease.DefaultLease, "rehearse: how long a lease lasts, a `TIME` that all members have")
	fs.StringVar(&r.CA, "ca", "", "rehearse: the `FILE` with the certificate of the authority for etcd's servers")
	fs.StringVar(&r.Cert, "cert", "", "rehearse: the `FILE` with this member's certificate")
	fs.StringVar(&r.Key, "key", "", "rehearse: the `FILE` with its key")
	return r
}

// check reports what is wrong with the flags.
func (r *fleetRehearsal) check() error {
	if r.name == "" {
		return errors.New("a member needs a name; say -name NAME")
	}
	var wrong error
	r.Check(func(_, format string, args ...any) {
		if wrong == nil {
			wrong = fmt.Errorf(format, args...)
		}
	})
	if wrong != nil {
		return wrong
	}
	return shards.Check([]shards.Member{{Name: r.name, Weight: max(r.Weight, 1)}})
}

// run takes part until SIGINT or SIGTERM, and resigns.
func (r *fleetRehearsal) run(asJSON bool, in io.Reader, out io.Writer) error {
	store, end, err := bridge.FleetStore(&r.Fleet)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	m, err := lease.New(lease.Config{Name: r.name, Weight: r.Weight, Process: rand.Uint64(), Store: store,
		Gate: &shownGate{out: out, json: asJSON}, Lease: r.Lease})
	if err != nil {
		return errors.Join(err, end())
	}
	go obey(ctx, m, in, out)
	return errors.Join(m.Run(ctx), end())
}

// obey reads new weights, a line each.
func obey(ctx context.Context, m *lease.Member, in io.Reader, out io.Writer) {
	for lines := bufio.NewScanner(in); lines.Scan(); {
		word, number, _ := strings.Cut(strings.TrimSpace(lines.Text()), " ")
		w, err := strconv.ParseFloat(number, 64)
		if word != "weight" || err != nil || shards.Check([]shards.Member{{Name: "x", Weight: max(w, 1)}}) != nil || w < 0 {
			fmt.Fprintf(out, "%q is not understood; say weight NUMBER, 0 to be drained\n", lines.Text())
			continue
		}
		m.SetWeight(ctx, w)
	}
}

// shownGate tells what a bridge would be told.
type shownGate struct {
	out      io.Writer
	json     bool
	mu       sync.Mutex
	deadline time.Time
	leaving  []shards.Shard
}

// gateEvent is a line of JSON. Times are of the machine's monotonic clock, in nanoseconds.
type gateEvent struct {
	At     int64          `json:"at"`
	Event  string         `json:"event"` // open, close, until
	Until  int64          `json:"until,omitempty"`
	Shards []shards.Shard `json:"shards,omitempty"`
}

// Open implements lease.Gate.
func (g *shownGate) Open(all []shards.Shard, _ lease.Forwarded) { g.show("open", all) }

// Close implements lease.Gate.
func (g *shownGate) Close(all []shards.Shard) { g.show("close", all) }

// Leave implements lease.Gate.
func (g *shownGate) Leave(all []shards.Shard) bool {
	g.leaving = all
	return true
}

// Stay implements lease.Gate.
func (g *shownGate) Stay(all []shards.Shard, _ []string) {
	g.leaving = slices.DeleteFunc(slices.Clone(g.leaving), func(s shards.Shard) bool { return slices.Contains(all, s) })
}

// Left implements lease.Gate. Nothing is forwarded in a rehearsal, so nothing was forwarded.
func (g *shownGate) Left([]string) lease.Forwarded {
	g.Close(g.leaving)
	return lease.Forwarded{}
}

// Hold implements lease.Gate.
func (g *shownGate) Hold([]shards.Shard) bool { return true }

// Attract implements lease.Gate.
func (g *shownGate) Attract([]shards.Shard) {}

// Drop implements lease.Gate.
func (g *shownGate) Drop([]shards.Shard) {}

// Until implements lease.Gate. A lease that ran out before it was renewed is told.
func (g *shownGate) Until(deadline time.Time) {
	now := time.Now()
	if late := now.Sub(g.deadline); !g.json && !g.deadline.IsZero() && late > 0 {
		fmt.Fprintf(g.out, "%s nothing was forwarded for %v: no lease\n", now.Format("15:04:05.000"), late.Round(time.Millisecond))
	}
	g.deadline = deadline
	if g.json {
		g.write(gateEvent{At: monotonic(), Event: "until", Until: monotonic() + int64(time.Until(deadline))})
	}
}

func (g *shownGate) show(event string, all []shards.Shard) {
	if g.json {
		g.write(gateEvent{At: monotonic(), Event: event, Shards: all})
		return
	}
	hosts := 0
	for _, s := range all {
		if s < shards.Hosts {
			hosts++
		}
	}
	fmt.Fprintf(g.out, "%s %-5s %d host shards, %d group shards\n", time.Now().Format("15:04:05.000"), event, hosts, len(all)-hosts)
}

func (g *shownGate) write(e gateEvent) {
	g.mu.Lock()
	defer g.mu.Unlock()
	_ = json.NewEncoder(g.out).Encode(e) // a closed output ends nothing
}

// monotonic reads the clock that all processes of a machine share.
func monotonic() int64 {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) // there is one
	return t.Nano()
}
