// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"causeway/ibside/multipath"
)

// severalPorts is a target that may have several InfiniBand ports.
type severalPorts interface {
	Fabrics() []multipath.Report // nil: one port
	PreferPort(name string) error
}

func (e *Env) fabrics() []multipath.Report {
	if b, ok := e.Bridge.(severalPorts); ok {
		return b.Fabrics()
	}
	return nil
}

func runFabrics(_ context.Context, c *Call) (Result, error) {
	part := Part{Name: "fabrics", Columns: columns("port", "fabric", "state", "SM", "groups", "active", "missing", "nodes", "active nodes"),
		Empty: "There is one InfiniBand port: [ib]; see show ports. Several are written as [[ib]], once for each."}
	for _, f := range c.Env.fabrics() {
		part.Rows = append(part.Rows, []any{f.Name, f.Fabric, upDown(f.Down == ""), answers(&f), f.Groups, f.ActiveGroups, f.Missing, f.Nodes, f.ActiveNodes})
		if f.Preferred {
			part.Note = notes(part.Note, f.Name+" is preferred.")
		}
		if f.Down != "" {
			part.Note = notes(part.Note, fmt.Sprintf("%s is down: %s.", f.Name, f.Down))
		}
	}
	return table(part), nil
}

// answers tells about the subnet manager; "": a port that is down cannot know.
func answers(f *multipath.Report) string {
	switch {
	case f.Down != "":
		return ""
	case f.SMSilent:
		return "silent"
	}
	return "answers"
}

// fabricsPart is what show ports shows of several InfiniBand ports; false: there is one.
func fabricsPart(e *Env) (Part, bool) {
	part := Part{Name: "infiniband ports", Columns: columns("port", "lost", "sent", "full", "received", "standby", "duplicates", "strangers"),
		Note: "lost: by the port itself, lately. full: the port took no more. standby, duplicates: dropped (standby_port, duplicate). strangers: to queue pairs that are none of hosts (proxy_qp_unknown)."}
	all := e.fabrics()
	for _, f := range all {
		n := &f.Counters
		part.Rows = append(part.Rows, []any{f.Name, Share(f.Loss), n.Sent, n.Full, n.Received, n.Standby, n.Duplicate, n.Stranger})
	}
	return part, len(all) > 0
}

var portKind = Kind{Form: "PORT", About: "the name of an InfiniBand port, or none", Parse: func(s string) (any, error) { return s, nil },
	Known: func(_ context.Context, e *Env) (words []string) {
		for _, f := range e.fabrics() {
			words = append(words, f.Name)
		}
		return append(words, "none")
	}}

func preferPort(_ context.Context, c *Call) (Result, error) {
	b, ok := c.Env.Bridge.(severalPorts)
	if !ok {
		return Result{}, notAvailable("several InfiniBand ports")
	}
	name := c.Value("port")
	if name == "none" && !slices.ContainsFunc(b.Fabrics(), func(f multipath.Report) bool { return f.Name == name }) {
		name = ""
	}
	if len(b.Fabrics()) == 0 {
		return Result{}, errors.New("there is one InfiniBand port: several are written as [[ib]], once for each")
	}
	if err := b.PreferPort(name); err != nil {
		return Result{}, err
	}
	c.changed("port prefer", "port", c.Value("port"))
	if name == "" {
		return text("No port is preferred; everything stays where it is."), nil
	}
	return text("What " + name + " reaches goes by it; after a failure it does so again when the port has been good for [fabrics] hold_down."), nil
}
