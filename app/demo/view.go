// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/term"

	"causeway/app/house"
	"causeway/lcore"
)

// A printer keeps the first error.
type printer struct {
	w   io.Writer
	err error
}

func (p *printer) line(format string, a ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format+"\n", a...)
	}
}

// A view is the table that lives while the traffic runs: redrawn in place on a terminal, else a line now and then.
type view struct {
	o        Options
	h        *house.House
	flows    []*flow
	begin    time.Time
	terminal bool
	lines    int // of the last drawing
	last     []uint64
	lastAt   time.Time
}

func newView(o Options, h *house.House, flows []*flow, begin time.Time) *view {
	v := &view{o: o, h: h, flows: flows, begin: begin, last: make([]uint64, len(flows)), lastAt: begin}
	if f, ok := o.Out.(*os.File); ok {
		v.terminal = term.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb"
	}
	return v
}

func (v *view) every() time.Duration {
	if v.terminal {
		return 250 * time.Millisecond
	}
	return 2 * time.Second
}

// draw draws the table. A failed write shows at the summary.
func (v *view) draw() {
	switch {
	case v.o.JSON:
	case v.terminal:
		v.table()
	default:
		p := &printer{w: v.o.Out}
		var due, arrived uint64
		for _, f := range v.flows {
			due, arrived = due+f.due(), arrived+f.arrived.Load()
		}
		p.line("%4.0f s  %d of %d deliveries", time.Since(v.begin).Seconds(), arrived, due)
	}
}

const (
	up    = "\033[%dA" // cursor, lines
	clear = "\033[J"   // to the end of the screen
	bold  = "\033[1m"
	dim   = "\033[2m"
	plain = "\033[0m"
)

func (v *view) table() {
	p := &printer{w: v.o.Out}
	if v.lines > 0 {
		_, p.err = fmt.Fprintf(v.o.Out, up+clear, v.lines)
	}
	rows := v.rows()
	for _, row := range rows {
		p.line("%s", row)
	}
	v.lines = len(rows)
}

func (v *view) rows() []string {
	elapsed := time.Since(v.begin)
	rows := []string{
		fmt.Sprintf("%sCauseway%s  RoCE hosts in namespaces ⇄ bridge ⇄ software InfiniBand subnet   %.0f of %.0f s", bold, plain,
			elapsed.Seconds(), v.o.Duration.Seconds()),
		"",
		fmt.Sprintf("%s%-32s %-18s %9s %9s %6s %7s %10s%s", dim, "flow", "", "due", "arrived", "lost?", "msg/s", "median", plain),
	}
	since := time.Since(v.lastAt).Seconds()
	v.lastAt = time.Now()
	for i, f := range v.flows {
		due, arrived := f.due(), f.arrived.Load()
		rate := float64(arrived-v.last[i]) / since
		v.last[i] = arrived
		rows = append(rows, fmt.Sprintf("%-32s %-18s %9d %9d %6d %7.0f %10v", f.name, f.path, due, arrived, due-min(due, arrived), rate,
			f.trips.median().Round(time.Microsecond)))
	}
	rows = append(rows, "", fmt.Sprintf("%s%-32s %-18s %9s %9s %6s%s", dim, "bridge", "", "received", "sent", "drops", plain))
	c := v.h.Counters()
	for d, name := range []string{"RoCE to InfiniBand", "InfiniBand to RoCE"} {
		x := &c.Direction[lcore.Direction(d)]
		rows = append(rows, fmt.Sprintf("%-32s %-18s %9d %9d %6d", name, "", x.Received, x.Sent, x.Dropped()))
	}
	s := v.h.Status()
	return append(rows, "", fmt.Sprintf("%d RoCE hosts learned, %d stand-ins, %d groups joined; ARP answered %d, ND %d, group reports %d",
		s.Hosts, s.StandIns, s.Groups, s.Counters.ARPAnswered, s.Counters.NDAnswered, s.Counters.GroupReports))
}

// end leaves the last state on the screen.
func (v *view) end() {
	if v.terminal && !v.o.JSON {
		v.table()
	}
}
