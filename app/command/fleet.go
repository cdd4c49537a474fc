// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"fmt"

	fleet "causeway/fleet/shares"
)

// fleetShareKind is a share of a fleet's work.
var fleetShareKind = Kind{Form: "SHARE", About: "a share, such as host/5 or group/17; show shares has them", Parse: func(s string) (any, error) { return fleet.ParseShare(s) }}

var shareAndMember = []Arg{{Name: "share", Kind: fleetShareKind, Needed: true, Help: "the share"}, {Name: "member", Kind: textKind("MEMBER", "the [bridge] name of a member, as show fleet has it"), Needed: true, Help: "who is to own it"}}

// fleetOperator is a target of a fleet that can be told what to do.
type fleetOperator interface {
	DrainFleet(context.Context) error
	PassShares(context.Context) error
	ResumeFleet(context.Context) error
	SetFleetWeight(float64) error
	ChangeShares(context.Context, func(*fleet.Assignment) (*fleet.Assignment, error)) error
}

// operate has the bridge do something in its fleet.
func operate(c *Call, what string, do func(fleetOperator) error, then string) (Result, error) {
	b, ok := c.Env.Bridge.(fleetOperator)
	if !ok {
		return Result{}, notAvailable(what)
	}
	if err := do(b); err != nil {
		return Result{}, err
	}
	c.changed(what)
	return text(then), nil
}

func drainFleet(ctx context.Context, c *Call) (Result, error) {
	return operate(c, "fleet drain", func(b fleetOperator) error { return b.DrainFleet(ctx) },
		"Other members have this bridge's shares. What nodes send to its proxy QPs still crosses. \"fleet resume\" undoes this.")
}

func passShares(ctx context.Context, c *Call) (Result, error) {
	return operate(c, "fleet pass", func(b fleetOperator) error { return b.PassShares(ctx) }, "The shares are the other members'.")
}

func resumeFleet(ctx context.Context, c *Call) (Result, error) {
	return operate(c, "fleet resume", func(b fleetOperator) error { return b.ResumeFleet(ctx) }, "The bridge takes part again; its shares come to it within a right.")
}

func weighFleet(_ context.Context, c *Call) (Result, error) {
	weight := value(c, "weight", uint64(0))
	return operate(c, "fleet weight", func(b fleetOperator) error { return b.SetFleetWeight(float64(weight)) },
		fmt.Sprintf("The bridge has the weight %d until it ends.", weight))
}

// changeShare has the fleet divide one share in another way.
func changeShare(ctx context.Context, c *Call, what string, change func(*fleet.Assignment, fleet.Share) (*fleet.Assignment, error), then string) (Result, error) {
	s := value(c, "share", fleet.Share(0))
	return operate(c, what, func(b fleetOperator) error {
		return b.ChangeShares(ctx, func(a *fleet.Assignment) (*fleet.Assignment, error) { return change(a, s) })
	}, fmt.Sprintf(then, s))
}

func moveShare(ctx context.Context, c *Call) (Result, error) {
	member := value(c, "member", "")
	return changeShare(ctx, c, "fleet move", func(a *fleet.Assignment, s fleet.Share) (*fleet.Assignment, error) { return a.Move(s, member) },
		"%v is "+member+"'s until the work is divided anew.")
}

func pinShare(ctx context.Context, c *Call) (Result, error) {
	member := value(c, "member", "")
	return changeShare(ctx, c, "fleet pin", func(a *fleet.Assignment, s fleet.Share) (*fleet.Assignment, error) { return a.Pin(s, member) },
		"%v is "+member+"'s whenever that one takes part.")
}

func unpinShare(ctx context.Context, c *Call) (Result, error) {
	return changeShare(ctx, c, "fleet unpin", func(a *fleet.Assignment, s fleet.Share) (*fleet.Assignment, error) { return a.Unpin(s) },
		"%v is divided as others are.")
}
