// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"fmt"

	fleet "causeway/fleet/shards"
)

// fleetShardKind is a shard of a fleet's work.
var fleetShardKind = Kind{Form: "SHARD", About: "a shard, such as host/5 or group/17; show shards has them", Parse: func(s string) (any, error) { return fleet.ParseShard(s) }}

var shardAndMember = []Arg{{Name: "shard", Kind: fleetShardKind, Needed: true, Help: "the shard"}, {Name: "member", Kind: textKind("MEMBER", "the [bridge] name of a member, as show fleet has it"), Needed: true, Help: "who is to own it"}}

// fleetOperator is a target of a fleet that can be told what to do.
type fleetOperator interface {
	DrainFleet(context.Context) error
	PassShards(context.Context) error
	ResumeFleet(context.Context) error
	SetFleetWeight(float64) error
	ChangeShards(context.Context, func(*fleet.Assignment) (*fleet.Assignment, error)) error
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
		"Other members have this bridge's shards. What nodes send to its proxy QPs still crosses. \"fleet resume\" undoes this.")
}

func passShards(ctx context.Context, c *Call) (Result, error) {
	return operate(c, "fleet pass", func(b fleetOperator) error { return b.PassShards(ctx) }, "The shards are the other members'.")
}

func resumeFleet(ctx context.Context, c *Call) (Result, error) {
	return operate(c, "fleet resume", func(b fleetOperator) error { return b.ResumeFleet(ctx) }, "The bridge takes part again; its shards come to it within a lease.")
}

func weighFleet(_ context.Context, c *Call) (Result, error) {
	weight := value(c, "weight", uint64(0))
	return operate(c, "fleet weight", func(b fleetOperator) error { return b.SetFleetWeight(float64(weight)) },
		fmt.Sprintf("The bridge has the weight %d until it ends.", weight))
}

// changeShard has the fleet divide one shard in another way.
func changeShard(ctx context.Context, c *Call, what string, change func(*fleet.Assignment, fleet.Shard) (*fleet.Assignment, error), then string) (Result, error) {
	s := value(c, "shard", fleet.Shard(0))
	return operate(c, what, func(b fleetOperator) error {
		return b.ChangeShards(ctx, func(a *fleet.Assignment) (*fleet.Assignment, error) { return change(a, s) })
	}, fmt.Sprintf(then, s))
}

func moveShard(ctx context.Context, c *Call) (Result, error) {
	member := value(c, "member", "")
	return changeShard(ctx, c, "fleet move", func(a *fleet.Assignment, s fleet.Shard) (*fleet.Assignment, error) { return a.Move(s, member) },
		"%v is "+member+"'s until the work is divided anew.")
}

func pinShard(ctx context.Context, c *Call) (Result, error) {
	member := value(c, "member", "")
	return changeShard(ctx, c, "fleet pin", func(a *fleet.Assignment, s fleet.Shard) (*fleet.Assignment, error) { return a.Pin(s, member) },
		"%v is "+member+"'s whenever that one takes part.")
}

func unpinShard(ctx context.Context, c *Call) (Result, error) {
	return changeShard(ctx, c, "fleet unpin", func(a *fleet.Assignment, s fleet.Shard) (*fleet.Assignment, error) { return a.Unpin(s) },
		"%v is divided as others are.")
}
