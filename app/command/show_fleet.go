// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"causeway/app/bridge"
	"causeway/fleet/bfd"
	"causeway/fleet/etcd"
	"causeway/fleet/lease"
	"causeway/fleet/peers"
	fleet "causeway/fleet/shards"
	"causeway/lcore/frame"
)

// fleetMember is a target that may be one of a fleet.
type fleetMember interface {
	Fleet(ctx context.Context) (bridge.FleetStatus, error)
}

// noFleet is what is shown of a bridge that is in none.
const noFleet = "This bridge is in no fleet: [fleet] is not in its configuration."

// askFleet returns what the bridge knows of its fleet; false: it is in none.
func askFleet(ctx context.Context, c *Call) (s bridge.FleetStatus, is bool, err error) {
	b, ok := c.Env.Bridge.(fleetMember)
	if !ok {
		return s, false, nil
	}
	ctx, end := context.WithTimeout(ctx, time.Second)
	defer end()
	s, err = b.Fleet(ctx)
	return s, s.Name != "", err
}

func runFleet(ctx context.Context, c *Call) (Result, error) {
	part := Part{Name: "members", Columns: columns("member", "state", "weight", "host shards", "group shards", "GID?", "follows", "heard"), Empty: noFleet}
	s, is, err := askFleet(ctx, c)
	if err != nil || !is {
		return table(part), err
	}
	part.Empty = "Nothing has come from etcd yet."
	for _, m := range s.Members {
		hosts, groups := 0, 0
		if s.Assignment != nil {
			hosts, groups = s.Assignment.Load(m.Member)
		}
		name := m.Member
		if name == s.Member {
			name += " (this)"
		}
		part.Rows = append(part.Rows, []any{name, memberState(&m), m.Weight, hosts, groups, gidOrNil(s.GIDs[m.Member]), m.Epoch.Number, Age(m.Ago)})
	}
	part.Note = fmt.Sprintf("The fleet is %s, and its assignment number %v. This bridge has %d host and %d group shards open.", s.Name, s.Epoch, s.Hosts, s.Groups)
	part.Note = notes(part.Note, versionsOf(s.Configured))
	part.Note = notes(part.Note, passingOf(s.Assignment, s.PutOff))
	if s.Why != "" {
		part.Note = notes(part.Note, "It does no part of the work: "+s.Why+".")
	}
	if x, ok := c.Env.Bridge.(interface{ Yields() string }); ok && x.Yields() != "" {
		part.Note = notes(part.Note, "Beware: "+x.Yields()+".")
	}
	switch {
	case s.Unnamed:
		part.Note = notes(part.Note, "It waits for its name: the process that had it before was elsewhere, and may go on without etcd until the others have taken it out of the assignment.")
	case len(s.Waits) > 0:
		part.Note = notes(part.Note, fmt.Sprintf("It waits for %s, which may go on without etcd. If that machine is off for certain, say causeway fleet resign -off %[1]s.", s.Waits[0]))
	case s.Lease <= 0:
		part.Note = notes(part.Note, "It has no lease to forward (lease_ended): etcd did not answer in time.")
	case s.WithoutEtcd:
		part.Note = notes(part.Note, "It goes on without etcd, while all other members promise to take nothing.")
	}
	return Result{Parts: []Part{part, sessions(s.Sessions, s.Unheard)}}, nil
}

// sessions are a bridge's with the other members.
func sessions(all []peers.Session, unheard map[string]uint64) Part {
	p := Part{Name: "sessions", Columns: columns("member", "fabric", "state", "for", "there", "because", "others on Ethernet", "others on InfiniBand"),
		Empty: "No other member has told etcd yet where it is heard.",
		Note:  "How the members hear each other without etcd, by BFD. There is the state at the other end; others, how many members it hears that are not this one."}
	var why []string
	for _, name := range slices.Sorted(maps.Keys(unheard)) {
		if n := unheard[name]; n > 0 {
			why = append(why, fmt.Sprintf("%s %d", name, n))
		}
	}
	if len(why) > 0 {
		p.Note = notes(p.Note, "Messages that were not taken, or not sent: "+strings.Join(why, ", ")+".")
	}
	for _, x := range all {
		because := ""
		if x.State != bfd.Up {
			because = x.Diagnostic.String()
		}
		p.Rows = append(p.Rows, []any{x.Member, x.Way, x.State.String(), Age(time.Since(x.Since)), x.Remote.String(), because,
			x.Others[peers.Ethernet.String()], x.Others[peers.InfiniBand.String()]})
	}
	return p
}

// versionsOf says which members have which pushed configuration.
func versionsOf(all map[string]etcd.Follower) string {
	versions := map[uint64][]string{}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		versions[all[name].Version] = append(versions[all[name].Version], name)
	}
	var parts []string
	for _, v := range slices.Sorted(maps.Keys(versions)) {
		parts = append(parts, fmt.Sprintf("version %d by %s", v, strings.Join(versions[v], ", ")))
	}
	if len(parts) == 0 {
		return ""
	}
	return "Of the configuration in etcd (causeway push), members last had " + strings.Join(parts, ", and ") + "."
}

// passingOf says which members have shards that wait to pass.
func passingOf(a *fleet.Assignment, putOff uint64) string {
	ways := map[string]int{}
	for x := range fleet.Shard(fleet.Count) {
		if a != nil && a.Passing[x] {
			ways[a.OwnerOf(x)+" to "+a.SuccessorOf(x)]++
		}
	}
	var parts []string
	for _, way := range slices.Sorted(maps.Keys(ways)) {
		parts = append(parts, fmt.Sprintf("%d from %s", ways[way], way))
	}
	switch {
	case len(parts) == 0:
		return ""
	case putOff == 0:
		return "Shards pass: " + strings.Join(parts, ", ") + "."
	}
	return fmt.Sprintf("Shards pass when they can without a loss: %s. This bridge has put that off %d times; \"fleet pass\" does not wait.", strings.Join(parts, ", "), putOff)
}

func memberState(m *lease.Seen) string {
	switch {
	case m.Ended:
		return "left"
	case m.Silent:
		return "silent"
	case m.Weight == 0:
		return "drained"
	}
	return "takes part"
}

// hostOwners returns a function that returns which of the fleet's bridges has a station; nil: it is not known, or there is no
// fleet.
func hostOwners(ctx context.Context, c *Call) func(frame.MAC) any {
	s, is, err := askFleet(ctx, c)
	return func(mac frame.MAC) any {
		if err != nil || !is || s.Assignment == nil || mac.IsZero() {
			return nil
		}
		return s.Assignment.OwnerOf(fleet.OfHost(mac))
	}
}

func runShards(ctx context.Context, c *Call) (Result, error) {
	part := Part{Name: "shards", Columns: columns("shard", "MAC", "owner", "successor", "here", "pinned to"), Empty: noFleet}
	s, is, err := askFleet(ctx, c)
	if err != nil || !is {
		return table(part), err
	}
	part.Empty = "There is no assignment yet."
	if s.Assignment == nil {
		return table(part), nil
	}
	for x := range fleet.Shard(fleet.Count) {
		if x >= fleet.Hosts && s.Assignment.Pins[x] == "" {
			continue
		}
		here := ""
		mac := any("")
		if x < fleet.Hosts {
			mac = s.MACOf(x)
		}
		if s.Forwards(x) {
			here = "open"
		}
		successor := s.Assignment.SuccessorOf(x)
		if s.Assignment.Passing[x] {
			successor += " (passing)"
		}
		part.Rows = append(part.Rows, []any{x.String(), mac, s.Assignment.OwnerOf(x), successor, here, s.Assignment.Pins[x]})
	}
	part.Note = "Host shards, and what is pinned of group shards; of the others show fleet has the numbers. MAC is that by which the hosts of a shard reach InfiniBand nodes."
	return table(part), nil
}
