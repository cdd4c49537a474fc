// SPDX-License-Identifier: Apache-2.0

// Package trace explains what the bridge did with one packet, and why: what came, from whom and for whom that is by the
// tables, and whether it went on, as what, or died, of what, and where an operator should look.
//
//	bridge ── sights ──▶ Follow ── sights of one packet ──▶ Explain ──▶ Explanation
package trace

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"causeway/ibside/ib"
	"causeway/lcore"
	"causeway/tables"
)

// Shelves are the bridge's tables, as they are now: not when the packet passed, though mostly the same.
type Shelves interface {
	StandIn(host netip.Addr, qpn ib.QPN) (tables.StandIn, bool)
	StandInQP(qpn ib.QPN) (tables.StandIn, bool)
	Host(ip netip.Addr) (tables.Host, bool)
	Node(ip netip.Addr) (tables.Node, bool)
	Source(gid ib.GID, lid ib.LID) (node tables.Node, own, ok bool)
	Group(ip netip.Addr) (tables.Group, bool)
	MGID(gid ib.GID) (tables.Group, bool)
}

// A Fact is a thing and its value, as people write it.
type Fact struct{ Name, Value string }

// Facts are in the order in which they lie in the packet. In JSON they are an object.
type Facts []Fact

func (f *Facts) add(name, format string, args ...any) {
	*f = append(*f, Fact{name, fmt.Sprintf(format, args...)})
}

// Get returns a fact's value; "" when it is not there.
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
		value, err := json.Marshal(x.Value)
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

// What became of a packet.
const (
	Sent       = "sent"
	Dropped    = "dropped"
	Management = "management" // the bridge's own business
	UnderWay   = "under way"  // nothing more was seen of it
)

// An Explanation is all there is to say of one packet.
type Explanation struct {
	Packet    uint64    `json:"packet"`
	Time      time.Time `json:"time"`
	Direction string    `json:"direction"`
	Came      Facts     `json:"came"`
	From      Facts     `json:"from"` // whom the sender is known as
	To        Facts     `json:"to"`   // and the receiver
	Missing   []string  `json:"missing,omitempty"`
	Way       []Step    `json:"way"`
	Outcome   string    `json:"outcome"`
	Left      Facts     `json:"left,omitempty"` // as what it went on
	Drop      string    `json:"drop,omitempty"`
	Sentence  string    `json:"sentence,omitempty"`
	Detail    string    `json:"detail,omitempty"` // what was compared
	Advice    string    `json:"advice,omitempty"`
}

// A Step is where a packet was seen.
type Step struct {
	Point  string        `json:"point"`
	Worker int           `json:"worker"`
	After  time.Duration `json:"after_ns"` // since the first
}

// Explain explains a packet from its sights, in order of time; there is at least one.
func Explain(sights []lcore.Sight, s Shelves) Explanation {
	first, last := &sights[0], &sights[len(sights)-1]
	e := Explanation{Packet: first.Packet, Time: first.Time, Direction: first.Direction.String(), Outcome: UnderWay}
	for _, x := range sights {
		e.Way = append(e.Way, Step{x.Point.String(), x.Worker, x.Time.Sub(first.Time)})
	}
	x := explainer{Explanation: &e, shelves: s}
	var ends ends
	if first.Door == lcore.RoCEDoor {
		ends = x.frame(&e.Came, first)
	} else {
		ends = x.message(first)
	}
	switch {
	case first.Direction == lcore.RoCEToIB:
		x.fromHost(ends)
	case first.Door == lcore.IBDoor:
		x.fromNode(ends)
	}
	x.outcome(last)
	return e
}

// explainer fills an explanation in.
type explainer struct {
	*Explanation
	shelves Shelves
}

// ends are who a packet says that it is from and for.
type ends struct {
	src, dst    netip.Addr // of a frame; zero: it does not say
	sgid, dgid  ib.GID     // of a message
	slid        ib.LID
	srcQP, dstQ ib.QPN
	qkey        ib.QKey
	pkey        ib.PKey
	payload     int
	transport   bool // there is a BTH and a DETH
}

func (x *explainer) miss(format string, args ...any) {
	x.Missing = append(x.Missing, fmt.Sprintf(format, args...))
}

// outcome says how it ended.
func (x *explainer) outcome(last *lcore.Sight) {
	switch last.Point {
	case lcore.Sent, lcore.Own:
		x.Outcome = Sent
		if last.Door == lcore.IBDoor {
			x.sentToIB(last)
		} else {
			x.frame(&x.Left, last)
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

func (x *explainer) sentToIB(s *lcore.Sight) {
	m, l := s.IB, &x.Left
	l.add("door", "InfiniBand")
	l.add("stand-in", "QP 0x%x", uint32(m.QPN))
	l.add("worker", "%d", s.Worker)
	if !m.SGID.IsZero() {
		l.add("from GID", "%v", m.SGID)
	}
	l.add("to QP", "0x%x", uint32(m.Peer))
	l.add("LID", "%v", m.DLID)
	l.add("GID", "%v", m.DGID)
	l.add("SL", "%d", m.SL)
	if m.GRH {
		l.add("GRH", "traffic class %#02x, hop limit %d, flow label %#x", m.TClass, m.HopLimit, m.FlowLabel)
	}
	l.add("Q_Key", "%#08x", uint32(m.QKey))
	if m.HasImm {
		l.add("immediate", "%#08x", m.Imm)
	}
	l.add("payload", "%d bytes", s.Len)
}

// Lines are the explanation as text, in the order in which things happened.
func (e *Explanation) Lines() []string {
	out := []string{fmt.Sprintf("%s %s: %s", e.Time.Format("15:04:05.000000"), e.Direction, e.headline())}
	block := func(label string, pieces []string) {
		for _, line := range wrap(pieces) {
			out = append(out, fmt.Sprintf("  %-8s %s", label, line))
			label = ""
		}
	}
	block("came", e.Came.text())
	block("from", e.From.text())
	block("to", e.To.text())
	block("missing", strings.Fields(strings.Join(e.Missing, "; ")))
	block("way", e.wayText())
	block("left as", e.Left.text())
	if e.Outcome == Dropped {
		block("why", strings.Fields(e.Sentence))
	}
	block("compare", strings.Fields(e.Detail))
	block("look at", strings.Fields(e.Advice))
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

func (e *Explanation) wayText() (steps []string) {
	for _, s := range e.Way {
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

// listed puts commas behind all but the last.
func listed(all []string) []string {
	for i := range len(all) - 1 {
		all[i] += ","
	}
	return all
}

// width of the text's lines, without their labels.
const width = 100

// wrap makes lines of pieces, none of which it divides; no line of none.
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
