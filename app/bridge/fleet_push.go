// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"causeway/config"
	"causeway/fleet/etcd"
	"causeway/lcore/manage"
)

const (
	pushesEvery = 200 * time.Millisecond
	// followAgain is when a configuration that could not be followed is tried again: its error is logged each time.
	followAgain = 5 * time.Second
)

// Shared is what a bridge's fleet shared when it started, and where it is kept for a start without etcd.
type Shared struct {
	etcd.Configuration
	File string
}

// pushes has the bridge follow what "causeway push" writes to etcd. It depends on what is there, not on what it has seen
// happen: who is not told to have what is proposed has what is current, and so a proposal that is gone is undone.
type pushes struct {
	store   *etcd.Store
	name    string             // of the member
	file    string             // that the current one is kept in
	kept    etcd.Configuration // what is there
	current etcd.Configuration // the last that was
	inForce *configuration
	unready func(context.Context) string
	agrees  *agreement
	log     *slog.Logger

	follows atomic.Pointer[etcd.Configuration]
	seen    *etcd.Configurations
	says    etcd.Follower
	told    etcd.Follower // what etcd has of it
	tried   time.Time     // when it last followed, or tried to
}

// StartWith returns the configuration of a file with what its fleet shares. Without etcd that is what the bridge kept of it in
// a file, and without that, nothing.
func StartWith(ctx context.Context, cfg *config.Config, file string, log *slog.Logger) (*config.Config, Shared, error) {
	s := Shared{File: file}
	if !cfg.Fleet.Pushed {
		return cfg, s, nil
	}
	store, end, err := FleetStore(&cfg.Fleet)
	if err != nil {
		return nil, s, fmt.Errorf("bridge: [fleet]: %w", err)
	}
	defer end()
	const patience = 3 * time.Second // for etcd to elect
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	now, err := store.Configurations(ctx, nil)
	if err == nil && now.Current.Version > 0 {
		s.Configuration = now.Current
	} else {
		text, unread := os.ReadFile(file)
		if unread == nil {
			unread = json.Unmarshal(text, &s.Configuration)
		}
		if unread != nil && !errors.Is(unread, fs.ErrNotExist) {
			return nil, s, fmt.Errorf("bridge: %s is not what a bridge has kept of its fleet's configuration: %w; remove it, or have etcd tell: %w", file, unread, cmp.Or(err, errNothingPushed))
		}
		if err != nil || s.Version > 0 {
			log.Warn("fleet_push_kept", "version", s.Version, "file", file, "error", err)
		}
	}
	to, err := with(cfg, &s.Configuration)
	return to, s, err
}

var errNothingPushed = errors.New("there is nothing pushed")

// with returns a configuration with what its fleet shares in place of what it had.
func with(cfg *config.Config, c *etcd.Configuration) (*config.Config, error) {
	if c.Version == 0 {
		return cfg.WithoutShared()
	}
	return cfg.WithShared(config.SharedName(c.Version, cfg.Fleet.Name), c.Text)
}

// reloaded returns what a file that is read again means here.
func (p *pushes) reloaded(file *config.Config) (*config.Config, error) {
	if now := p.follows.Load(); now.Version > 0 {
		return with(file, now)
	}
	return file, nil
}

// run follows until ctx ends. Who has its configuration from its file says that it does not.
func (p *pushes) run(ctx context.Context) {
	tick := time.NewTicker(pushesEvery)
	defer tick.Stop()
	for {
		if !p.inForce.Config().Fleet.Pushed {
			if p.store.Follows(ctx, p.name, nil) == nil {
				return
			}
		} else {
			p.look(ctx)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// look does what etcd has for this member. Without etcd all stays as it is.
func (p *pushes) look(ctx context.Context) {
	asking, end := context.WithTimeout(ctx, compareEvery)
	defer end()
	now, err := p.store.Configurations(asking, p.seen)
	if err != nil {
		return
	}
	if now != p.seen { // etcd may have been emptied, and know nothing of this member
		p.seen, p.told = now, etcd.Follower{}
	}
	if now.Current.Version == 0 && p.current.Version > 0 { // etcd was emptied: the next look has what is put back, by whomever
		_ = p.store.PutBack(asking, &p.current)
		return
	}
	p.current = now.Current
	to := &now.Current
	if x := now.Proposal; x != nil {
		p.check(x)
		if slices.Contains(x.Follow, p.name) {
			to = &x.Configuration
		}
	}
	p.keep(&now.Current)
	p.follow(ctx, to)
	p.says.Unready, p.says.Differs = p.unready(ctx), p.agrees.why()
	if time.Since(p.tried) >= compareEvery { // until then it may be less ready than it looks
		p.says.Version = p.follows.Load().Version
	}
	if p.says != p.told && p.store.Follows(asking, p.name, &p.says) == nil {
		p.told = p.says
	}
}

// check finds out whether the bridge could have a proposal. Nothing is changed.
func (p *pushes) check(x *etcd.Proposal) {
	if p.says.Checked == x.Version {
		return
	}
	p.says.Checked, p.says.Refuses = x.Version, ""
	to, err := with(p.inForce.Config(), &x.Configuration)
	if err == nil {
		_, err = p.inForce.plan(to)
	}
	if err != nil {
		p.says.Refuses = strings.Join(ReloadReasons(err), "; ")
		p.log.Warn("fleet_push_refused", "version", x.Version, "by", x.By, "reason", p.says.Refuses)
	}
}

// follow has the bridge have a configuration, if it does not have it.
func (p *pushes) follow(ctx context.Context, to *etcd.Configuration) {
	was := p.follows.Load()
	if *was == *to {
		p.says.Tried, p.says.Failed = to.Version, ""
		return
	}
	if p.says.Tried == to.Version && p.says.Failed != "" && time.Since(p.tried) < followAgain {
		return
	}
	changes, err := p.inForce.edit(ctx, func(now *config.Config) (*config.Config, error) {
		cfg, err := with(now, to)
		if err == nil {
			p.follows.Store(to)
		}
		return cfg, err
	})
	p.tried, p.says.Tried = time.Now(), to.Version
	if err != nil {
		p.follows.Store(was)
		p.says.Failed = strings.Join(ReloadReasons(err), "; ")
		p.log.Error("fleet_push_failed", "version", to.Version, "by", to.By, "error", p.says.Failed)
		return
	}
	p.says.Failed = ""
	p.log.Info("fleet_push_followed", "version", to.Version, "by", to.By, "before", was.Version, "changes", len(changes))
	p.agrees.again(ctx)
}

// keep writes the current configuration to the bridge's file.
func (p *pushes) keep(c *etcd.Configuration) {
	if p.kept == *c {
		return
	}
	p.kept = *c
	text, err := json.Marshal(c)
	if err == nil {
		err = os.WriteFile(p.file+"~", text, 0o600) // Q_Keys are in it
	}
	if err == nil {
		err = os.Rename(p.file+"~", p.file)
	}
	if err != nil {
		p.log.Warn("fleet_push_unkept", "version", c.Version, "error", err)
	}
}

// whyUnready says why a bridge is not ready, whatever its part of the fleet's work.
func whyUnready(ctx context.Context, b *Bridge) string {
	if why := whyUnable(b); why != "" {
		return why
	}
	const most = 3
	if s := b.loop.Status(); !s.Ready && !s.Drained {
		return strings.Join(append([]string{fmt.Sprintf("it waits for %d joins, paths and P_Keys", s.Waiting)}, manage.Awaited(ctx, b, &s, most)...), "; ")
	}
	return b.Barred()
}
