// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"causeway/config"
	"causeway/fleet/etcd"
)

const (
	compareEvery = time.Second
	// largestShared is what of a configuration is published in full, in bytes; etcd takes 1.5 MiB.
	largestShared = 1 << 20
)

// agreement says whether the bridge's configuration is that of its fleet: of most of its members, and of as many, that which
// was there first. A member with another one does no part.
type agreement struct {
	store   *etcd.Store
	inForce func() *config.Config
	name    string
	silent  func(context.Context) (map[string]bool, error) // members whose lease has run out
	founded *atomic.Uint64                                 // when the fleet was; 0: etcd has not told yet
	differs atomic.Pointer[string]                         // why; nil: it was not compared yet
}

// why returns why the bridge can do no part; "": it can.
func (a *agreement) why() string {
	if why := a.differs.Load(); why != nil {
		return *why
	}
	return "its configuration was not compared with that of the others yet"
}

// run compares until ctx ends. Without etcd all stays as it was.
func (a *agreement) run(ctx context.Context) {
	tick := time.NewTicker(compareEvery)
	defer tick.Stop()
	for {
		a.again(ctx)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// again compares now.
func (a *agreement) again(ctx context.Context) {
	if why, err := a.compare(ctx); err == nil {
		a.differs.Store(&why)
	}
}

// compare publishes the bridge's configuration, and compares it with the others'.
func (a *agreement) compare(ctx context.Context) (why string, err error) {
	ctx, end := context.WithTimeout(ctx, compareEvery)
	defer end()
	founded, err := a.store.Founded(ctx) // anew where etcd was emptied
	if err != nil {
		return "", err
	}
	a.founded.Store(founded)
	own := published(a.inForce().Shared())
	if err = a.store.Publish(ctx, a.name, own); err != nil {
		return "", err
	}
	all, err := a.store.Published(ctx)
	if err != nil {
		return "", err
	}
	silent, err := a.silent(ctx)
	if err != nil {
		return "", err
	}
	maps.DeleteFunc(all, func(name string, p etcd.Published) bool { return name != a.name && (p.Ended || silent[name]) })
	return disagreement(a.name, all), nil
}

// disagreement says in what a member's configuration differs from its fleet's; "": in nothing.
func disagreement(name string, all map[string]etcd.Published) string {
	members := map[string]int{}
	for _, p := range all {
		members[p.Text]++
	}
	first := slices.MinFunc(slices.Collect(maps.Values(all)), func(x, y etcd.Published) int {
		return cmp.Or(cmp.Compare(members[y.Text], members[x.Text]), cmp.Compare(x.Since, y.Since))
	})
	own := all[name].Text
	if own == first.Text {
		return ""
	}
	var theirs []string
	for other, p := range all {
		if p.Text == first.Text {
			theirs = append(theirs, other)
		}
	}
	slices.Sort(theirs)
	return fmt.Sprintf("its configuration is not that of %s: %s", strings.Join(theirs, ", "), config.SharedDiff(strings.Split(own, "\n"), strings.Split(first.Text, "\n")))
}

// published is the text of what is shared; of a long one a line a table.
func published(lines []string) string {
	if text := strings.Join(lines, "\n"); len(text) <= largestShared {
		return text
	}
	of := map[string][]string{}
	for _, line := range lines {
		table, _, _ := strings.Cut(line, " ")
		of[table] = append(of[table], line)
	}
	var short []string
	for _, table := range slices.Sorted(maps.Keys(of)) {
		short = append(short, fmt.Sprintf("%s = %d lines, SHA-256 %x", table, len(of[table]), sha256.Sum256([]byte(strings.Join(of[table], "\n")))))
	}
	return strings.Join(short, "\n")
}
