// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"causeway/app/bridge"
	"causeway/app/bridge/link"
	"causeway/app/logs"
	"causeway/config"
	"causeway/dpdk"
	"causeway/lcore/manage"
	"causeway/lcore/pgm"
)

// A Target is the bridge that commands read and change. A *bridge.Bridge is one. Commands that need more than this,
// such as capture, find out by type assertion whether the target can do it.
type Target interface {
	CounterSource
	Status() manage.Status
	Link() link.State
	InfiniBandDown() string
	Limits() []bridge.Limit
	WorkerCPUs() []int
	Ports() (ethernet, infiniband bridge.Port)
	Memory() bridge.Memory
	Lost() [2]map[string]uint64
	LostByDevice() map[string]uint64
	Services() (requests, connects map[string]uint64)
	PGM() (t pgm.Totals, enabled bool)
	Streams() []pgm.Stream
	Rules() []dpdk.Rule
	manage.Lists
}

// Logs is what commands may read and change of the bridge's log.
type Logs interface {
	SetLevel(string) error
	Level() string
	Recent(n int) []string
	Follow(n int) *logs.Follower
	Suppressed() uint64
	Unwritten() uint64
}

// Env is the bridge and its surroundings. All sessions share one.
type Env struct {
	Bridge  Target
	Log     *slog.Logger // commands that change something are logged
	Logs    Logs         // nil: not available
	Began   time.Time
	Version string
	Config  *config.Config // as at the start; only for a target that does not report its own
	// Load reads the configuration file again; nil: there is none.
	Load func() (*config.Config, error)
	// Stop ends the bridge as a signal does; nil: it cannot.
	Stop func()

	Sampler *Sampler
	hosts   hostShares

	changing sync.Mutex // one change of the configuration at a time

	mu   sync.Mutex
	base *baseline // taken by "clear counters"
}

// notAvailable is the error of a command whose part this target lacks.
func notAvailable(what string) error { return fmt.Errorf("%s: not available in this bridge", what) }

// config returns the configuration in force.
func (e *Env) config() *config.Config {
	if b, ok := e.Bridge.(interface{ Config() *config.Config }); ok {
		return b.Config()
	}
	return e.Config
}

// changed logs a change and its user.
func (c *Call) changed(what string, args ...any) {
	if c.Env.Log != nil {
		c.Env.Log.Info("console_command", append([]any{"user", c.User, "command", what}, args...)...)
	}
}

// knownMost is how many values completion offers at most.
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
