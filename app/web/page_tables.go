// SPDX-License-Identifier: Apache-2.0

package web

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"causeway/app/command"
	"causeway/lcore"
)

// A pageTable is a table of the page: columns of what a command of the console shows to those who may only view.
type pageTable struct {
	id, title string
	line      string // the command
	part      string // of its result
	// columns are separated by commas. "+" shows a column's cell below the row's first, "-" only on wide screens, "!" as a
	// state.
	columns string
	rare    bool // not shown without rows
}

var pageTables = [...]pageTable{
	{"traffic", "Packets since the start", "show status", "directions", "direction, received, sent, dropped", false},
	{"ports", "Ethernet ports", "show ports", "ethernet ports", "port, +MAC, !link, to IB, to RoCE, -dropped, -missed", true},
	{"ib-ports", "InfiniBand ports", "show fabrics", "fabrics", "port, +fabric, !state, -SM, active, -missing, active nodes", true},
	{"segments", "Segments", "show segments", "segments", "segment, +addresses, P_Key, hosts, -limit, QPs, groups", true},
	{"drops", "Drops by reason", "show drops", "drops", "reason, +meaning, to IB, to RoCE, -to IB/s, -to RoCE/s", false},
	{"latency", "Time in the bridge", "show latency | match all", "latency", "direction, -packets, p50, p99, -p99.9, max", false},
	{"groups", "Groups", fmt.Sprintf("show groups limit %d", listed), "groups", "group, +MGID, !state, -to IB, -to RoCE, to IB/s, to RoCE/s", false},
	{"workers", "Workers", "show workers", "workers", "worker, CPU, busy, to IB/s, to RoCE/s, -dropped", false},
	{"hosts", "RoCE hosts", fmt.Sprintf("show hosts limit %d", listed), "hosts", "address, +MAC, !state, version, QPs, last seen", false},
	{"nodes", "InfiniBand nodes", fmt.Sprintf("show nodes limit %d", listed), "nodes", "address, +IPv6, +GID, LID, -origin, !path", false},
}

// A shownTable is a table as the template shows it.
type shownTable struct {
	Title   string
	Columns []shownColumn
	Rows    [][]shownCell
	Empty   string
	Note    string
}

type shownColumn struct{ Name, Class string }

type shownCell struct {
	Text  string
	Mark  string   // a state's class
	Under []string // smaller texts
}

// run runs a command and returns a part of its result.
func (p *page) run(ctx context.Context, line, part string) command.Part {
	if p.o.Env == nil {
		return command.Part{}
	}
	v, err := command.Standard.Parse(line)
	if err != nil {
		return command.Part{Empty: err.Error()}
	}
	r, err := v.Command.Run(ctx, v.Call(p.o.Env, command.View, "page"))
	if err != nil {
		return command.Part{Empty: err.Error()}
	}
	for _, x := range v.Pipe.Apply(r).Parts {
		if x.Name == part {
			return x
		}
	}
	return command.Part{}
}

// table runs a table's command and arranges the result; nil: it is not shown.
func (p *page) table(ctx context.Context, t *pageTable) *shownTable {
	part := p.run(ctx, t.line, t.part)
	if t.rare && len(part.Rows) == 0 {
		return nil
	}
	out := &shownTable{Title: t.title, Empty: part.Empty}
	if more := part.Total - len(part.Rows); more > 0 {
		command, _, _ := strings.Cut(t.line, " limit")
		out.Note = fmt.Sprintf("and %d more: causeway ctl %s", more, command)
	}
	heads, rows, numbers := part.Cells()
	out.Rows = make([][]shownCell, len(rows))
	for c := range strings.SplitSeq(t.columns, ", ") {
		name := strings.TrimLeft(c, "+-!")
		i := slices.Index(heads, name)
		if i < 0 {
			continue // a rare column, without values
		}
		if c[0] != '+' {
			out.Columns = append(out.Columns, shownColumn{name, classOf(c, numbers[i])})
		}
		for n, row := range rows {
			out.Rows[n] = add(out.Rows[n], c, row[i])
		}
	}
	return out
}

func classOf(column string, number bool) string {
	var all []string
	if column[0] == '-' {
		all = append(all, "extra")
	}
	if number {
		all = append(all, "number")
	}
	return strings.Join(all, " ")
}

// add adds a cell to a row, as its column says.
func add(row []shownCell, column, text string) []shownCell {
	switch {
	case column[0] == '!':
		return append(row, shownCell{Text: text, Mark: text})
	case column[0] != '+':
		return append(row, shownCell{Text: text})
	case text != "-":
		row[0].Under = append(row[0].Under, text)
	}
	return row
}

// lostLines are the losses that no worker counts: the devices', and the IB port's.
func lostLines(s *Status, devices []string) []string {
	lines := slices.Clone(devices)
	for d := range 2 {
		direction := lcore.Direction(d).String()
		var all []string
		for _, reason := range slices.Sorted(maps.Keys(s.Lost[direction])) {
			all = append(all, fmt.Sprintf("%s %d", reason, s.Lost[direction][reason]))
		}
		if len(all) > 0 {
			lines = append(lines, fmt.Sprintf("The InfiniBand port has lost messages of %s: %s.", direction, strings.Join(all, ", ")))
		}
	}
	return lines
}
