// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"causeway/fleet/etcd"
)

// all has every member check what is pushed, and then follow it one by one; or nobody.
//
//	propose ─▶ each checks ─▶ the first follows and is ready ─▶ the second … ─▶ current
//	              │ one refuses      │ one fails, or turns unready
//	              ▼                  ▼
//	          withdrawn          the last one goes back ─▶ the one before … ─▶ withdrawn
func (p *pushing) all(ctx context.Context, text string) error {
	host, _ := os.Hostname() // "" is not wrong
	// What is proposed stays until it is withdrawn, also when the operator interrupts.
	lasting, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	push, err := p.store.Push(lasting, text, fmt.Sprintf("process %d of %s", os.Getpid(), host))
	if err != nil {
		return fmt.Errorf("push: nothing was changed: %w", err)
	}
	p.push = push
	if err = p.checked(ctx); err == nil {
		err = p.followed(ctx)
	}
	if err == nil {
		if err = push.Commit(lasting); err == nil {
			fmt.Fprintf(p.out, "Fleet %s has configuration %d.\n", p.cfg.Fleet.Name, push.Proposal.Version)
			return nil
		}
		if !errors.Is(err, etcd.ErrPushLost) {
			return fmt.Errorf("push: whether configuration %d is the fleet's is not known: %w; ask again by causeway push without a file", push.Proposal.Version, err)
		}
	}
	if errors.Is(err, etcd.ErrPushLost) {
		return fmt.Errorf("push: configuration %d is not the fleet's: %w", push.Proposal.Version, err)
	}
	back := p.back(lasting)
	return errors.Join(fmt.Errorf("push: configuration %d is not the fleet's: %w", push.Proposal.Version, err), back)
}

// checked waits for what all members say of it.
func (p *pushing) checked(ctx context.Context) error {
	fmt.Fprintf(p.out, "Configuration %d is checked by %s.\n", p.push.Proposal.Version, strings.Join(p.asked, ", "))
	silent := func(all map[string]etcd.Follower) (names []string) {
		for _, name := range p.asked {
			if all[name].Checked != p.push.Proposal.Version {
				names = append(names, name)
			}
		}
		return names
	}
	last, err := p.until(ctx, func(all map[string]etcd.Follower) (bool, error) { return len(silent(all)) == 0, nil })
	if errors.Is(err, errLate) {
		return fmt.Errorf("%s did not answer within %v; nothing was changed", strings.Join(silent(last), ", "), p.wait)
	}
	if err != nil {
		return err
	}
	var refusals []error
	for _, name := range p.asked {
		if why := last[name].Refuses; why != "" {
			refusals = append(refusals, fmt.Errorf("%s refuses it: %s", name, why))
		}
	}
	if len(refusals) > 0 {
		return fmt.Errorf("nothing was changed: %w", errors.Join(refusals...))
	}
	return nil
}

// followed has one member after another follow.
func (p *pushing) followed(ctx context.Context) error {
	for i, name := range p.asked {
		done := p.asked[:i+1]
		if err := p.push.Follow(ctx, done); err != nil {
			return err
		}
		last, err := p.until(ctx, func(all map[string]etcd.Follower) (bool, error) {
			for _, name := range done {
				if f := all[name]; f.Failed != "" && f.Tried == p.push.Proposal.Version {
					return false, fmt.Errorf("%s cannot follow it: %s", name, f.Failed)
				}
			}
			return p.pending(all, done) == "", nil
		})
		if errors.Is(err, errLate) {
			return fmt.Errorf("%s, for %v", p.pending(last, done), p.wait)
		}
		if err != nil {
			return err
		}
		fmt.Fprintf(p.out, "%s has it.\n", name)
	}
	return nil
}

// pending says who of the members that are to follow is not where it should be; "": all are. One that differs from most is
// where it should be as long as most have not followed.
func (p *pushing) pending(all map[string]etcd.Follower, done []string) string {
	most := 2*len(done) > len(p.asked)+p.others
	for _, name := range done {
		switch f := all[name]; {
		case f.Version != p.push.Proposal.Version:
			return name + " does not follow"
		case f.Unready != "" && !p.before[name]:
			return name + " is not ready: " + f.Unready
		case f.Differs != "" && most:
			return name + " does no part: " + f.Differs
		}
	}
	return ""
}

// back has those that followed go back, the last one first.
func (p *pushing) back(ctx context.Context) error {
	follow := p.push.Proposal.Follow
	for len(follow) > 0 {
		name := follow[len(follow)-1]
		follow = follow[:len(follow)-1]
		if err := p.push.Follow(ctx, follow); err != nil {
			return err
		}
		last, err := p.until(ctx, func(all map[string]etcd.Follower) (bool, error) {
			return all[name].Version == p.push.Before.Version, nil
		})
		switch {
		case err == nil:
			fmt.Fprintf(p.out, "%s has gone back to configuration %d.\n", name, p.push.Before.Version)
		case errors.Is(err, errLate):
			fmt.Fprintf(p.out, "%s has not gone back within %v, and does when it can: %s\n", name, p.wait, last[name].Failed)
		default:
			return err
		}
	}
	return p.push.End(ctx)
}

// errLate says that a time is over.
var errLate = errors.New("it takes too long")

// until asks what members say until done, or for as long as one may take. It returns what they said last.
func (p *pushing) until(ctx context.Context, done func(map[string]etcd.Follower) (bool, error)) (last map[string]etcd.Follower, err error) {
	for end := time.Now().Add(p.wait); ; {
		asking, cancel := answers(ctx)
		last, err = p.store.Followers(asking)
		cancel()
		switch {
		case ctx.Err() != nil:
			return last, errInterrupted
		case err != nil:
			return last, err
		}
		if ok, err := done(last); ok || err != nil {
			return last, err
		}
		if time.Now().After(end) {
			return last, errLate
		}
		if pause(ctx, 100*time.Millisecond) != nil {
			return last, errInterrupted
		}
	}
}
