// SPDX-License-Identifier: Apache-2.0

package shards

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// ParseShard reads a shard as String writes it.
func ParseShard(text string) (Shard, error) {
	kind, number, _ := strings.Cut(text, "/")
	n, err := strconv.ParseUint(number, 10, 16)
	switch {
	case err == nil && kind == "host" && n < Hosts:
		return Shard(n), nil
	case err == nil && kind == "group" && n < Groups:
		return Hosts + Shard(n), nil
	}
	return 0, fmt.Errorf("shards: %q is no shard; write host/0 to host/%d or group/0 to group/%d", text, Hosts-1, Groups-1)
}

// Pin returns the assignment in which a shard is a member's whenever that one has a weight, whatever its part is.
func (a *Assignment) Pin(s Shard, member string) (*Assignment, error) {
	if err := a.has(member); err != nil {
		return nil, err
	}
	next := *a
	next.Pins = maps.Clone(a.Pins)
	if next.Pins == nil {
		next.Pins = map[Shard]string{}
	}
	next.Pins[s] = member
	return Plan(a.Members, &next), nil
}

// Unpin returns the assignment in which a shard is divided as others are. It stays where it is if it can.
func (a *Assignment) Unpin(s Shard) (*Assignment, error) {
	if a.Pins[s] == "" {
		return nil, fmt.Errorf("shards: %v is not pinned", s)
	}
	next := *a
	next.Pins = maps.Clone(a.Pins)
	delete(next.Pins, s)
	return Plan(a.Members, &next), nil
}

// Move returns the assignment in which a shard is a member's until the work is divided anew. The member that has it gets one
// of the other's in its place if parts ask for that.
func (a *Assignment) Move(s Shard, member string) (*Assignment, error) {
	if err := a.has(member); err != nil {
		return nil, err
	}
	if pin := a.Pins[s]; pin != "" {
		return nil, fmt.Errorf("shards: %v is pinned to %s; unpin it first", s, pin)
	}
	if a.MeantFor(s) == member {
		return nil, fmt.Errorf("shards: %v is %s's already", s, member)
	}
	next := *a
	next.Owner[s], next.Passing[s] = a.index(member), false
	return plan(a.Members, &next, map[Shard]bool{s: true}), nil
}

// has reports whether a member can be given a shard.
func (a *Assignment) has(member string) error {
	if a.index(member) != Nobody {
		return nil
	}
	var names []string
	for _, m := range a.Members {
		names = append(names, m.Name)
	}
	return fmt.Errorf("shards: the fleet has no member %s that is alive; there are %s", member, strings.Join(names, ", "))
}

// index returns a member's; Nobody if there is none of that name.
func (a *Assignment) index(name string) int8 {
	return int8(slices.IndexFunc(a.Members, func(m Member) bool { return m.Name == name }))
}
