// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	"causeway/lcore"
	"causeway/lcore/manage"
)

// A printer prints lines and keeps the first error.
type printer struct {
	w   io.Writer
	err error
}

func (p *printer) line(format string, a ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format+"\n", a...)
	}
}

// A source has the bridge's state that the view shows.
type source interface {
	Counters() lcore.Counters
	Status() manage.Status
}

// A view shows progress while the traffic runs: on a terminal a table, redrawn in place; elsewhere a line at intervals
// and the table at the end.
type view struct {
	o        Options
	bridge   source
	second   *secondFabric
	flows    []*flow
	begin    time.Time
	terminal *os.File // nil: Out is none
	styled   bool
	last     []uint64
	lastAt   time.Time
}

func newView(o Options, bridge source, flows []*flow, begin time.Time) *view {
	v := &view{o: o, bridge: bridge, flows: flows, begin: begin, last: make([]uint64, len(flows)), lastAt: begin}
	v.terminal = terminalOf(o.Out)
	v.styled = v.terminal != nil && os.Getenv("NO_COLOR") == ""
	return v
}

// title is the title of the table.
func (v *view) title() string {
	if v.second != nil {
		return "RoCE hosts ⇄ Causeway ⇄ 2 software InfiniBand subnets"
	}
	return "RoCE hosts ⇄ Causeway ⇄ software InfiniBand subnet"
}

// start prints the title, where the page is, and the notes.
func (v *view) start(notes []string, url string) {
	const page = "The bridge's page, in a browser: %s"
	if v.o.JSON {
		(&printer{w: logTo(v.o)}).line(page, url)
		return
	}
	p := &printer{w: v.o.Out}
	if v.terminal == nil {
		p.line("%s, %s", v.title(), v.ends("for %v", v.o.Duration))
	}
	p.line(page, url)
	for _, note := range notes {
		p.line("%s", note)
	}
}

// ends says when the traffic ends: as formatted, or by a signal.
func (v *view) ends(format string, a ...any) string {
	if v.o.Keep {
		return "until Ctrl-C"
	}
	return fmt.Sprintf(format, a...)
}

func (v *view) every() time.Duration {
	if v.terminal != nil {
		return 250 * time.Millisecond
	}
	return 2 * time.Second
}

// draw draws the table, or a line. A write error is reported by the summary.
func (v *view) draw() {
	switch {
	case v.o.JSON:
	case v.terminal != nil:
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

// end draws the final state.
func (v *view) end() {
	if !v.o.JSON {
		v.table()
	}
}

const (
	narrow = 80  // columns of a usual terminal
	wide   = 100 // columns with the flows' descriptions
	plain  = "\033[0m"
)

// Styles of rows.
const (
	bold = "\033[1m"
	dim  = "\033[2m"
)

// row is a line of the table. It is truncated to the terminal's width before it is styled.
type row struct {
	style, text string
}

// table draws the table over the last one, in one write.
func (v *view) table() {
	width := narrow
	if v.terminal != nil {
		if w, _, err := term.GetSize(int(v.terminal.Fd())); err == nil && w > 0 {
			width = w
		}
	}
	var b strings.Builder
	if v.terminal == nil {
		b.WriteString("\n")
	}
	rows := v.rows(width)
	for _, r := range rows {
		text := truncate(r.text, width-1) // some terminals wrap at the last column
		if v.styled && r.style != "" {
			text = r.style + text + plain
		}
		fmt.Fprintln(&b, text)
	}
	if v.terminal == nil {
		fmt.Fprint(v.o.Out, b.String())
		return
	}
	v.o.screen.table(b.String(), len(rows))
}

// truncate returns the first letters of a text, without trailing blanks.
func truncate(text string, letters int) string {
	if r := []rune(text); len(r) > letters {
		text = string(r[:max(letters, 0)])
	}
	return strings.TrimRight(text, " ")
}

// rows returns the table, with the flows' descriptions if width allows.
func (v *view) rows(width int) []row {
	describe := func(string) string { return "" }
	if width >= wide {
		describe = func(text string) string { return fmt.Sprintf("%-19s", text) }
	}
	elapsed := time.Since(v.begin)
	if !v.o.Keep {
		elapsed = min(elapsed, v.o.Duration)
	}
	rows := []row{
		{bold, fmt.Sprintf("%-56s %s%4.0f s, %s", v.title(), describe(""), elapsed.Seconds(), v.ends("of %.0f s", v.o.Duration.Seconds()))},
		{},
		{dim, fmt.Sprintf("%-27s %s%9s %9s %7s %7s %9s", "flow", describe(""), "due", "arrived", "pending", "msg/s", "median")},
	}
	since := time.Since(v.lastAt).Seconds()
	v.lastAt = time.Now()
	for i, f := range v.flows {
		due, arrived := f.due(), f.arrived.Load()
		rate := float64(arrived-v.last[i]) / max(since, 1e-3)
		if v.terminal == nil {
			rate = float64(arrived) / time.Since(v.begin).Seconds()
		}
		v.last[i] = arrived
		rows = append(rows, row{"", fmt.Sprintf("%-27s %s%9d %9d %7d %7.0f %9s", f.name, describe(f.path), due, arrived,
			due-min(due, arrived), rate, shortDuration(f.trips.median()))})
	}
	rows = append(rows, row{}, row{dim, fmt.Sprintf("%-27s %s%9s %9s %7s", "bridge", describe(""), "received", "sent", "dropped")})
	c := v.bridge.Counters()
	for d, name := range []string{"RoCE to InfiniBand", "InfiniBand to RoCE"} {
		x := &c.Direction[lcore.Direction(d)]
		rows = append(rows, row{"", fmt.Sprintf("%-27s %s%9d %9d %7d", name, describe(""), x.Received, x.Sent, x.Dropped())})
	}
	s := v.bridge.Status()
	rows = append(rows, fabricRows(v.bridge, v.second)...)
	return append(rows, row{}, row{"", fmt.Sprintf("hosts %d, proxy QPs %d, groups %d; answered: ARP %d, ND %d; group reports: %d",
		s.Hosts, s.ProxyQPs, s.Groups, s.Counters.ARPAnswered, s.Counters.NDAnswered, s.Counters.GroupReports)})
}

// shortDuration returns a duration in at most 8 letters.
func shortDuration(d time.Duration) string {
	switch {
	case d == 0:
		return "-"
	case d < 10*time.Millisecond:
		return d.Round(time.Microsecond).String()
	case d < 10*time.Second:
		return d.Round(time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}
