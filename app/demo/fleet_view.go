// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"fmt"
	"os"
	"strings"
	"time"

	"causeway/lcore"
)

// A fleetView shows -fleet: lines of what happens, and between them rows of what became of the messages. At a terminal
// the next row takes the place of one in which nothing was lost.
type fleetView struct {
	o        Options
	screen   *screen
	terminal bool
	styled   bool
	began    time.Time // the traffic
	looks    int
	shown    counts // up to the last row
}

func newFleetView(o Options) *fleetView {
	terminal := terminalOf(o.Out) != nil
	return &fleetView{o: o, screen: &screen{out: o.Out}, terminal: terminal, styled: terminal && os.Getenv("NO_COLOR") == ""}
}

// line says something for people. A write error is reported by the summary.
func (v *fleetView) line(style, format string, a ...any) {
	if !v.o.JSON {
		fmt.Fprintln(v.screen, v.style(style, fmt.Sprintf(format, a...)))
	}
}

func (v *fleetView) style(style, text string) string {
	if v.styled && style != "" {
		return style + text + plain
	}
	return text
}

// begin says what is started.
func (v *fleetView) begin() {
	v.line(bold, "RoCE hosts ⇄ m1, m2, m3: bridges of one fleet ⇄ software InfiniBand subnet, %.0f s", v.o.Duration.Seconds())
	v.line("", "Three voters (etcd) and three bridges (causeway run) start.")
}

// divided says how the work is divided.
func (v *fleetView) divided(all []bridgeShards) {
	v.line("", "Their shards of hosts + of groups: %s.", shardsText(all))
	v.line("", "host1 is m1's, host2 m2's, host3 m3's. Each sends numbered messages to the node and to a group,")
	v.line("", "%d a second to each, and the node as many to each of %d groups, two for each host.", time.Second/fleetPause, len(fleetGroups))
}

const fleetRow = "%7s %9s %9s %7s %9s %9s %7s %9s %13s"

// heads begins the rows.
func (v *fleetView) heads(now counts) {
	v.began, v.shown = time.Now(), now
	v.line("", "")
	v.line(dim, "%7s %27s %27s", "", "to InfiniBand", "to RoCE")
	v.line(dim, fleetRow, "time", "sent", "received", "lost", "sent", "received", "lost", "doubled", "out of order")
}

// look shows a row after every second look: what was sent, received and lost since the row before.
func (v *fleetView) look(now counts) {
	if v.looks++; v.looks%2 != 0 {
		return
	}
	c := now.since(v.shown)
	v.shown = now
	v.row(c)
}

func (v *fleetView) row(c counts) {
	if v.o.JSON {
		return
	}
	words := []any{fmt.Sprintf("%.1f s", time.Since(v.began).Seconds())}
	for way := range c.sent {
		words = append(words, fmt.Sprint(c.sent[way]), fmt.Sprint(c.received[way]), fmt.Sprint(c.lost[way]))
	}
	text := fmt.Sprintf(fleetRow, append(words, fmt.Sprint(c.doubled), fmt.Sprint(c.disorderly))...) + "\n"
	if !v.terminal {
		fmt.Fprint(v.screen, text)
		return
	}
	v.screen.table(text, 1)
	if c.lost[lcore.RoCEToIB]+c.lost[lcore.IBToRoCE] > 0 {
		v.screen.keep()
	}
}

// happens says what happens now.
func (v *fleetView) happens(what string) {
	if what != "" {
		v.line(bold, "%s", what)
	}
}

// result says what became of a stage's messages, below its last row, and until when some were lost.
func (v *fleetView) result(r *stageResult, until string) {
	v.screen.keep()
	loss := "Nothing was lost"
	if r.lost() > 0 {
		loss = fmt.Sprintf("Lost %d in %s%s", r.lost(), shortSeconds(r.Outage), until)
	}
	v.line("", "%s. Shards: %s.", loss, shardsText(r.Shards))
}

func shortSeconds(s float64) string {
	return shortDuration(time.Duration(s * float64(time.Second)).Round(time.Millisecond))
}

// shardsText lists the bridges with their shards.
func shardsText(all []bridgeShards) string {
	var words []string
	for _, s := range all {
		text := fmt.Sprintf("%s %d + %d", s.Name, s.Hosts, s.Groups)
		if s.Hosts+s.Groups == 0 {
			text = s.Name + " none"
		}
		words = append(words, text)
	}
	return strings.Join(words, ", ")
}
