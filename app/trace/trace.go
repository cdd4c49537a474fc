// SPDX-License-Identifier: Apache-2.0

// Package trace explains what the bridge did with one packet, and why: the packet as received, its source and
// destination in the tables, and how it was sent or why it was dropped, with advice for the operator.
//
//	bridge ── mirrored packets ──▶ Follow ── the copies of one packet ──▶ Explain ──▶ Explanation
package trace

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"causeway/ibside/ib"
	"causeway/lcore"
	"causeway/lcore/manage"
	"causeway/tables"
)

// Tables looks up the bridge's tables. They may have changed since the packet passed. A RoCE host's address is that of
// one host in each segment.
type Tables interface {
	ProxyQP(at manage.Place, of tables.HostQP) (tables.ProxyQP, bool)
	ProxyQPN(qpn ib.QPN) (tables.ProxyQP, bool)
	Host(at manage.Place, ip netip.Addr) (tables.Host, bool)
	Node(ip netip.Addr) (tables.Node, bool)
	Source(gid ib.GID, lid ib.LID) (node tables.Node, own, ok bool)
	Group(at manage.Place, addr tables.GroupAddr) (tables.Group, bool)
	MGID(gid ib.GID) (tables.Group, bool)
}

// A Fact is a name and its value.
type Fact struct {
	Name, Value string
	value       any // in JSON; nil: Value
}

// Facts are in the order of the packet's headers. In JSON they are an object, and what consists of several values is
// another.
type Facts []Fact

// add adds a word.
func (f *Facts) add(name, format string, args ...any) {
	*f = append(*f, Fact{Name: name, Value: fmt.Sprintf(format, args...)})
}

// number adds a number. Numbers that are names, such as those of queue pairs, are words in hexadecimal.
func (f *Facts) number(name string, n int) {
	*f = append(*f, Fact{name, strconv.Itoa(n), n})
}

// size adds a number of bytes.
func (f *Facts) size(name string, n int) {
	*f = append(*f, Fact{name, fmt.Sprintf("%d bytes", n), n})
}

// pair adds a source and a destination.
func (f *Facts) pair(name, format string, from, to any) {
	a, b := fmt.Sprintf(format, from), fmt.Sprintf(format, to)
	f.several(name, a+" to "+b, Facts{{Name: "from", Value: a}, {Name: "to", Value: b}})
}

// several adds what consists of several values.
func (f *Facts) several(name, text string, values Facts) {
	*f = append(*f, Fact{name, text, values})
}

// Get returns the value of a fact; "" when there is none.
func (f Facts) Get(name string) string {
	for _, x := range f {
		if x.Name == name {
			return x.Value
		}
	}
	return ""
}

// MarshalJSON implements json.Marshaler.
func (f Facts) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, x := range f {
		name, err := json.Marshal(x.Name)
		if err != nil {
			return nil, err
		}
		if x.value == nil {
			x.value = x.Value
		}
		value, err := json.Marshal(x.value)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "%s:%s", name, value)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// The outcomes.
const (
	Sent       = "sent"
	Dropped    = "dropped"
	Management = "management"  // punted
	InProgress = "in progress" // neither sent nor dropped yet
	Waits      = "waits for a proxy QP, which management makes"
	Moved      = "waits until management knows whether the host has moved: its MAC address is another"
)

// An Explanation explains one packet.
type Explanation struct {
	Packet    uint64    `json:"packet"`
	Time      time.Time `json:"time"`
	Direction string    `json:"direction"`
	Received  Facts     `json:"received"`
	From      Facts     `json:"from"` // the source, in the tables
	To        Facts     `json:"to"`   // the destination, in the tables
	Missing   []string  `json:"missing,omitempty"`
	Steps     []Step    `json:"steps"`
	Outcome   string    `json:"outcome"`
	SentAs    Facts     `json:"sent_as,omitempty"`
	Drop      string    `json:"drop,omitempty"`
	Sentence  string    `json:"sentence,omitempty"`
	Detail    string    `json:"detail,omitempty"` // the values that were compared
	Advice    string    `json:"advice,omitempty"`
}

// A Step is a point that a packet passed.
type Step struct {
	Point  string        `json:"point"`
	Worker int           `json:"worker"`
	After  time.Duration `json:"after_ns"` // since the first step
}

// Explain explains a packet from the copies of a dry run: what would be done with it. The PSN is the worker's next,
// which a dry run does not know.
func Explain(copies []lcore.MirroredPacket, t Tables) Explanation {
	e := explain(copies, t)
	if copies[len(copies)-1].Point == lcore.Waiting {
		if e.Outcome = Waits; e.From.Get("proxy QP") != "" {
			e.Outcome = Moved
		}
	}
	for i := range e.Steps {
		e.Steps[i].After = 0 // that of a dry run says nothing
	}
	e.SentAs = slices.DeleteFunc(e.SentAs, func(f Fact) bool { return f.Name == "PSN" })
	return e
}

// explain explains a packet from its copies, at least one, in order of time.
func explain(mirrors []lcore.MirroredPacket, t Tables) Explanation {
	first, last := &mirrors[0], &mirrors[len(mirrors)-1]
	e := Explanation{Packet: first.Packet, Time: first.Time, Direction: first.Direction.String(), Outcome: InProgress}
	for _, x := range mirrors {
		e.Steps = append(e.Steps, Step{x.Point.String(), x.Worker, x.Time.Sub(first.Time)})
	}
	x := explainer{Explanation: &e, tables: t}
	var at endpoints
	if first.Side == lcore.RoCESide {
		at = x.frame(&e.Received, first)
	} else {
		at = x.message(first)
	}
	switch {
	case first.Direction == lcore.RoCEToIB:
		x.fromHost(at)
	case first.Side == lcore.IBSide:
		x.fromNode(at)
	}
	x.outcome(last)
	return e
}

// explainer fills in an explanation.
type explainer struct {
	*Explanation
	tables Tables
}

// endpoints are the source and destination in a packet's headers.
type endpoints struct {
	src, dst    netip.Addr   // of a frame; zero: unknown
	at          manage.Place // of a frame: its port and VLAN
	sgid, dgid  ib.GID       // of an InfiniBand message
	slid        ib.LID
	srcQP, dstQ ib.QPN
	qkey        ib.QKey
	pkey        ib.PKey
	payload     int
	transport   bool   // there is a BTH and a DETH; or plain UDP to a group
	udpPort     uint16 // of plain UDP to a group; 0: it is not, or is not bridged
}

func (x *explainer) miss(format string, args ...any) {
	x.Missing = append(x.Missing, fmt.Sprintf(format, args...))
}

// outcome fills in what happened to the packet.
func (x *explainer) outcome(last *lcore.MirroredPacket) {
	switch last.Point {
	case lcore.Sent, lcore.Own:
		x.Outcome = Sent
		if last.Side == lcore.IBSide {
			x.sentToIB(last)
		} else {
			x.frame(&x.SentAs, last)
		}
	case lcore.ToManagement:
		x.Outcome = Management
		if last.Drop != 0 {
			x.Drop, x.Sentence = last.Drop.String(), last.Drop.Sentence()
		}
	case lcore.Dropped:
		x.Outcome, x.Drop, x.Sentence, x.Advice = Dropped, last.Drop.String(), last.Drop.Sentence(), advice[last.Drop.String()]
		x.Detail = x.detail()
	}
}

func (x *explainer) sentToIB(s *lcore.MirroredPacket) {
	m, l := s.IB, &x.SentAs
	l.add("port", "%s", strings.TrimSpace("InfiniBand "+m.Ports))
	l.add("proxy QP", "0x%x", uint32(m.QPN))
	l.number("worker", s.Worker)
	if !m.SGID.IsZero() {
		l.add("from GID", "%v", m.SGID)
	}
	l.add("to QP", "0x%x", uint32(m.Peer))
	l.add("LID", "%v", m.DLID)
	l.add("GID", "%v", m.DGID)
	l.number("SL", int(m.SL))
	if m.GRH {
		var grh Facts
		grh.add("traffic class", "%#02x", m.TClass)
		grh.number("hop limit", int(m.HopLimit))
		grh.add("flow label", "%#x", m.FlowLabel)
		l.several("GRH", strings.Join(grh.text(), " "), grh)
	}
	l.add("Q_Key", "%#08x", uint32(m.QKey))
	if m.HasImm {
		l.add("immediate", "%#08x", m.Imm)
	}
	l.size("payload", s.Len)
}

// Lines returns the explanation as text.
func (e *Explanation) Lines() []string {
	return append([]string{fmt.Sprintf("%s %s: %s", e.Time.Format("15:04:05.000000"), e.Direction, e.headline())}, e.details()...)
}

// Dry returns the explanation of a dry run as text.
func (e *Explanation) Dry() []string {
	return append([]string{fmt.Sprintf("%s: %s", e.Direction, e.headline())}, e.details()...)
}

func (e *Explanation) details() (out []string) {
	block := func(label string, pieces []string) {
		for _, line := range wrap(pieces) {
			out = append(out, fmt.Sprintf("  %-8s %s", label, line))
			label = ""
		}
	}
	block("received", e.Received.text())
	block("from", e.From.text())
	block("to", e.To.text())
	block("missing", strings.Fields(strings.Join(e.Missing, "; ")))
	block("points", e.stepsText())
	block("sent as", e.SentAs.text())
	if e.Outcome == Dropped {
		block("why", strings.Fields(e.Sentence))
	}
	block("compare", strings.Fields(e.Detail))
	block("check", strings.Fields(e.Advice))
	return out
}

func (e *Explanation) headline() string {
	switch {
	case e.Outcome == Dropped:
		return "DROPPED " + e.Drop
	case e.Outcome == Management && e.Drop != "":
		return "handed to management, " + e.Drop
	case e.Outcome == Management:
		return "handed to management"
	}
	return e.Outcome
}

func (e *Explanation) stepsText() (steps []string) {
	for _, s := range e.Steps {
		text := fmt.Sprintf("%s at worker %d", s.Point, s.Worker)
		if s.After > 0 {
			text += fmt.Sprintf(" +%v", s.After.Round(100*time.Nanosecond))
		}
		steps = append(steps, text)
	}
	return listed(steps)
}

func (f Facts) text() (all []string) {
	for _, x := range f {
		all = append(all, x.Name+" "+x.Value)
	}
	return listed(all)
}

// listed adds a comma to all but the last.
func listed(all []string) []string {
	for i := range len(all) - 1 {
		all[i] += ","
	}
	return all
}

// width is that of the lines of text, without their labels: for a terminal of 80 columns.
const width = 68

// wrap joins pieces to lines of at most width bytes. A piece is never split.
func wrap(pieces []string) (lines []string) {
	line := ""
	for _, piece := range pieces {
		if line != "" && len(line)+1+len(piece) > width {
			lines = append(lines, line)
			line = ""
		}
		if line != "" {
			line += " "
		}
		line += piece
	}
	if line != "" {
		lines = append(lines, line)
	}
	return lines
}
