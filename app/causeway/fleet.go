// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"causeway/fleet/shards"
	"causeway/ibside/ib"
	"causeway/lcore/frame"
)

// runFleet is "causeway fleet".
func runFleet(args []string, stdout, stderr io.Writer) int {
	fs := newFlags("fleet", `plan shows how a fleet of bridges would divide the work, and what moves when some of them go. Hosts on RoCE are divided by
their MAC addresses into 64 host shards, multicast from InfiniBand by MGID into 4096 group shards; each is one bridge's. It
asks and changes no bridge. rehearse is a member of a fleet that forwards nothing: started on each machine, it shows which
shards a bridge there would have, and when, while you end, stop and cut off others, or etcd's servers. Without bridges it
proves the fleet's etcd, its network and the time that leases last. It reads new weights from its input ("weight 0"). resign
tells the fleet that a bridge of this machine was killed, so that others carry on for it at once. A bridge of a fleet has it
wait beside itself, and systemd's unit runs it when all of the bridge's processes are gone. It does nothing for a bridge that
runs, or is in no fleet. With -off it says so for a bridge of a machine that is off, which others wait for where bridges may go
on without etcd (without_etcd): two bridges forward the same if it is not off.`)
	plan, rehearsal, resignation := planFlags(fs), rehearsalFlags(fs), resignFlags(fs)
	asJSON := fs.Bool("json", false, "print JSON: one object, or one a line")
	if code, done := parse(fs, args, stdout, stderr); done {
		return code
	}
	var do func() error
	var wrong error
	switch what := strings.Join(fs.Args(), " "); what {
	case "plan":
		var report *planReport
		report, wrong = plan.plan()
		do = func() error { return report.write(*asJSON, stdout) }
	case "rehearse":
		wrong = rehearsal.check()
		do = func() error { return rehearsal.run(*asJSON, os.Stdin, stdout) }
	case "resign":
		wrong = resignation.check()
		do = func() error { return resignation.run(stdout) }
	default:
		wrong = fmt.Errorf("%q is nothing of a fleet; say plan, rehearse or resign", what)
	}
	if wrong != nil {
		return misused(fs, stderr, strings.TrimPrefix(wrong.Error(), "shards: "))
	}
	if err := do(); err != nil {
		fmt.Fprintln(stderr, "causeway fleet:", err)
		return exitFailed
	}
	return exitOK
}

// fleetPlan is what "causeway fleet plan" was asked.
type fleetPlan struct {
	members []shards.Member
	gone    []string
	hosts   []frame.MAC
	groups  []ib.GID
}

func planFlags(fs *flag.FlagSet) *fleetPlan {
	p := &fleetPlan{}
	several(fs, &p.members, "member", "plan: a bridge, `NAME` or NAME:WEIGHT; several times", shards.ParseMember)
	several(fs, &p.gone, "gone", "plan: a bridge, by its `NAME`, that dies or is drained; several times, in the order in which they go",
		func(name string) (string, error) { return name, nil })
	several(fs, &p.hosts, "host", "plan: also whose shard the host with this `MAC` address is; several times", frame.ParseMAC)
	several(fs, &p.groups, "group", "plan: also whose shard the group with this `MGID` is; several times", ib.ParseGID)
	return p
}

// several has a flag that may be given more than once.
func several[T any](fs *flag.FlagSet, to *[]T, name, usage string, read func(string) (T, error)) {
	fs.Func(name, usage, func(text string) error {
		x, err := read(text)
		*to = append(*to, x)
		return err
	})
}

// planReport is what is printed.
type planReport struct {
	Members []planMember `json:"members"`
	Keys    []planKey    `json:"keys,omitempty"`
	Moved   int          `json:"moved"` // shards that were taken from bridges that stayed
	gone    bool         // some went
}

type planMember struct {
	shards.Member
	Hosts      int            `json:"host_shards"`
	Groups     int            `json:"group_shards"`
	Successors map[string]int `json:"successors"` // how many of its shards each gets if it goes
}

type planKey struct {
	Key       string `json:"key"`
	Shard     string `json:"shard"`
	Owner     string `json:"owner"`
	Successor string `json:"successor"`
}

// plan divides the work among all members, and again after each that goes.
func (p *fleetPlan) plan() (*planReport, error) {
	if err := shards.Check(p.members); err != nil {
		return nil, err
	}
	a, r := shards.Plan(p.members, nil), &planReport{gone: len(p.gone) > 0}
	for _, name := range p.gone {
		left, err := without(a.Members, name)
		if err != nil {
			return nil, err
		}
		before := a
		a = shards.Plan(left, before)
		for s := range shards.Shard(shards.Count) {
			if was := before.OwnerOf(s); was != name && was != a.OwnerOf(s) {
				r.Moved++
			}
		}
	}
	for _, m := range a.Members {
		r.Members = append(r.Members, planned(a, m))
	}
	for _, m := range p.hosts {
		r.Keys = append(r.Keys, shardOf(a, m, shards.OfHost(m)))
	}
	for _, g := range p.groups {
		r.Keys = append(r.Keys, shardOf(a, g, shards.OfGroup(g)))
	}
	return r, nil
}

func without(members []shards.Member, name string) (left []shards.Member, err error) {
	for _, m := range members {
		if m.Name != name {
			left = append(left, m)
		}
	}
	if len(left) == len(members) {
		return nil, fmt.Errorf("%s cannot go: there is no -member %s", name, name)
	}
	return left, shards.Check(left)
}

func planned(a *shards.Assignment, m shards.Member) planMember {
	x := planMember{Member: m, Successors: map[string]int{}}
	x.Hosts, x.Groups = a.Load(m.Name)
	for s := range shards.Shard(shards.Count) {
		if successor := a.SuccessorOf(s); successor != "" && a.OwnerOf(s) == m.Name {
			x.Successors[successor]++
		}
	}
	return x
}

func shardOf(a *shards.Assignment, key fmt.Stringer, s shards.Shard) planKey {
	return planKey{key.String(), s.String(), a.OwnerOf(s), a.SuccessorOf(s)}
}

func (r *planReport) write(asJSON bool, w io.Writer) error {
	if asJSON {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(r)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "MEMBER\tWEIGHT\tHOST SHARDS\tGROUP SHARDS\tSUCCESSORS")
	for _, m := range r.Members {
		var successors []string
		for _, o := range r.Members {
			if n := m.Successors[o.Name]; n > 0 {
				successors = append(successors, fmt.Sprintf("%s %d", o.Name, n))
			}
		}
		fmt.Fprintf(t, "%s\t%v\t%d\t%d\t%s\n", m.Name, m.Weight, m.Hosts, m.Groups, strings.Join(successors, ", "))
	}
	if len(r.Keys) > 0 {
		fmt.Fprintln(t, "\nOF\tSHARD\tOWNER\tSUCCESSOR")
	}
	for _, k := range r.Keys {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", k.Key, k.Shard, k.Owner, k.Successor)
	}
	if r.gone {
		fmt.Fprintf(t, "\nOf the bridges that stayed, %d shards moved.\n", r.Moved)
	}
	return t.Flush()
}
