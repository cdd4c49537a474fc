// SPDX-License-Identifier: Apache-2.0

package shards

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// MaxMembers is how many bridges a fleet may have.
const MaxMembers = 64

// Nobody stands for the owner of a shard that has none.
const Nobody = -1

// Member is a bridge of a fleet.
type Member struct {
	Name string `json:"name"`
	// Weight is its part of the work beside the other members' weights. 0: it is drained, and owns nothing.
	Weight float64 `json:"weight"`
}

// ParseMember reads "NAME" or "NAME:WEIGHT".
func ParseMember(text string) (Member, error) {
	name, number, weighted := strings.Cut(text, ":")
	m := Member{Name: name, Weight: 1}
	if weighted {
		var err error
		if m.Weight, err = strconv.ParseFloat(number, 64); err != nil || m.check() != nil {
			return m, fmt.Errorf("shards: member %q: %q is no weight; write NAME:WEIGHT, as in a:2, with a weight from 0 to %d", text, number, maxWeight)
		}
	}
	if name == "" {
		return m, fmt.Errorf("shards: member %q has no name; write NAME or NAME:WEIGHT", text)
	}
	return m, nil
}

const maxWeight = 1000

func (m Member) check() error {
	if math.IsNaN(m.Weight) || m.Weight < 0 || m.Weight > maxWeight {
		return fmt.Errorf("shards: member %s has weight %v; it must be from 0 to %d", m.Name, m.Weight, maxWeight)
	}
	return nil
}

// Check reports what is wrong with the members of a fleet.
func Check(members []Member) error {
	if len(members) > MaxMembers {
		return fmt.Errorf("shards: there are %d members; a fleet has at most %d", len(members), MaxMembers)
	}
	for i, m := range members {
		if err := m.check(); err != nil {
			return err
		}
		if slices.ContainsFunc(members[:i], func(o Member) bool { return o.Name == m.Name }) {
			return fmt.Errorf("shards: two members are called %s; each needs a name of its own", m.Name)
		}
	}
	if !slices.ContainsFunc(members, func(m Member) bool { return m.Weight > 0 }) {
		return errors.New("shards: no member has a weight, so that nobody would own anything; give one a weight above 0")
	}
	return nil
}

// Assignment says who owns each shard, and who is to own it when its owner is gone: indices into Members, or Nobody.
type Assignment struct {
	Members   []Member
	Owner     [Count]int8
	Successor [Count]int8
	Passing   [Count]bool      // its owner has it until it can pass to its successor without a loss
	Pins      map[Shard]string // members that own these whenever they have a weight; not to be modified

	Unanimous bool // its members may go on by each other's promises, where the store is away
}

// Load counts a member's host and group shards.
func (a *Assignment) Load(name string) (hosts, groups int) {
	for s, o := range a.Owner {
		switch {
		case o == Nobody || a.Members[o].Name != name:
		case s < Hosts:
			hosts++
		default:
			groups++
		}
	}
	return hosts, groups
}

// name returns a member's name by its index; "" for Nobody.
func (a *Assignment) name(i int8) string {
	if i == Nobody {
		return ""
	}
	return a.Members[i].Name
}

// OwnerOf and SuccessorOf return names; "" for nobody.
func (a *Assignment) OwnerOf(s Shard) string     { return a.name(a.Owner[s]) }
func (a *Assignment) SuccessorOf(s Shard) string { return a.name(a.Successor[s]) }

// MeantFor returns the name of the member that is to have a shard: its successor while it passes, else its owner.
func (a *Assignment) MeantFor(s Shard) string {
	if a.Passing[s] {
		return a.SuccessorOf(s)
	}
	return a.OwnerOf(s)
}

// After returns a in two steps, of which this is the first: shards of members of a that another assignment gives to others are passing to
// their owners by a.
func (a *Assignment) After(before *Assignment) *Assignment {
	next := *a
	for s := range Shard(Count) {
		had := a.index(before.OwnerOf(s))
		if had != Nobody && a.Owner[s] != Nobody && had != a.Owner[s] {
			next.Owner[s], next.Successor[s], next.Passing[s] = had, a.Owner[s], true
		}
	}
	return &next
}

// Passed returns the assignment by which shards that were passing are their successors'.
func (a *Assignment) Passed(all []Shard) *Assignment {
	next := *a
	for _, s := range all {
		next.Owner[s], next.Passing[s] = a.Successor[s], false
	}
	successors := newPlanner(a.Members).successors(&next)
	for s := range successors {
		if !next.Passing[s] {
			next.Successor[s] = successors[s]
		}
	}
	return &next
}
