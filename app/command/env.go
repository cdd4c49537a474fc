// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"causeway/app/house"
	"causeway/config"
	"causeway/dpdk"
	"causeway/lcore"
	"causeway/lcore/manage"
	"causeway/lcore/pgm"
)

// A Bridge is what commands need of the bridge. A *house.House is one.
type Bridge interface {
	Status() manage.Status
	Counters() lcore.Counters
	Workers() []lcore.Counters
	LCores() []uint
	Ethernet() (s dpdk.Stats, up bool)
	Ports() (ethernet, infiniband house.Port)
	Memory() house.Memory
	Groups() map[netip.Addr]lcore.GroupCounters
	Lost() [2]map[string]uint64
	Services() (requests, connects map[string]uint64)
	PGM() (t pgm.Totals, watched bool)
	Streams() []pgm.Stream
	Rules() []dpdk.Rule
	ListHosts(context.Context, manage.Query) (manage.List[manage.HostEntry], error)
	ListNeighbours(context.Context, manage.Query) (manage.List[manage.HostEntry], error)
	ListStandIns(context.Context, manage.Query) (manage.List[manage.StandInEntry], error)
	ListNodes(context.Context, manage.Query) (manage.List[manage.NodeEntry], error)
	ListGroups(context.Context, manage.Query) (manage.List[manage.GroupEntry], error)
	ListRequests(context.Context, manage.Query) (manage.List[manage.RequestEntry], error)
	ForgetHost(context.Context, netip.Addr) (bool, error)
}

// A Logs is the bridge's log, as far as commands may touch it.
type Logs interface {
	SetLevel(string) error
	Level() string
	Recent(n int) []string
	Suppressed() uint64
}

// Env is the bridge and what surrounds it. All sessions share one.
type Env struct {
	Bridge  Bridge
	Log     *slog.Logger // commands that change something are logged
	Logs    Logs         // nil: the log cannot be asked
	Began   time.Time
	Version string
	Config  *config.Config // as it was at the start, where the bridge does not tell
	// Load reads the configuration file anew; nil: there is none.
	Load func() (*config.Config, error)
	// Stop ends the bridge as a signal does; nil: it cannot.
	Stop func()

	Sampler *Sampler
	hosts   hostShares

	changing sync.Mutex // one change of the configuration at a time

	mu   sync.Mutex
	base *baseline // what "clear counters" has noted
}

// noAnswer says of a piece that this bridge lacks that it is not there.
func noAnswer(what string) error { return fmt.Errorf("%s: not available in this bridge", what) }

// config returns the configuration in force.
func (e *Env) config() *config.Config {
	if b, ok := e.Bridge.(interface{ Config() *config.Config }); ok {
		return b.Config()
	}
	return e.Config
}

// changed logs who has changed what.
func (c *Call) changed(what string, args ...any) {
	if c.Env.Log != nil {
		c.Env.Log.Info("console_command", append([]any{"user", c.User, "command", what}, args...)...)
	}
}

// knownMost bounds how many values completion offers.
const knownMost = 50

func knownHosts(ctx context.Context, e *Env) (words []string) {
	list, err := e.Bridge.ListHosts(ctx, manage.Query{Limit: knownMost})
	if err != nil {
		return nil
	}
	for _, h := range list.Entries {
		words = append(words, h.IP.String())
	}
	return words
}

func knownGroups(ctx context.Context, e *Env) (words []string) {
	list, err := e.Bridge.ListGroups(ctx, manage.Query{Limit: knownMost})
	if err != nil {
		return nil
	}
	for _, g := range list.Entries {
		if n := len(words); n == 0 || words[n-1] != g.IP.String() {
			words = append(words, g.IP.String())
		}
	}
	return words
}
