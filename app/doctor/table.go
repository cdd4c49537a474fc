// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"cmp"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"
)

// width is the table's width in columns.
const width = 100

// column is a column of a table.
type column struct {
	head  string
	width int
}

// The widths add up to less than width. The name of an interface has at most 15 bytes. That of an RDMA device may have
// 63; a long one gets a line of its own.
var (
	rdmaColumns = []column{{"PORT", 12}, {"LINK LAYER", 10}, {"STATE", 7}, {"LID", 6}, {"SM LID", 6}, {"MTU", 4}, {"RATE", 10},
		{"PCI", 12}, {"NETDEV", 15}}
	ethColumns = []column{{"PORT", 15}, {"DRIVER", 16}, {"PCI", 12}, {"MTU", 5}, {"LINK", 10}, {"MAC", 17}}
)

// WriteTable writes the ports as text of at most 100 columns.
func (m *Machine) WriteTable(w io.Writer) error {
	t := &table{}
	t.rdma(m.RDMA)
	t.line("")
	t.ethernet(m.Ethernet)
	_, err := io.WriteString(w, t.text.String())
	return err
}

type table struct{ text strings.Builder }

func (t *table) line(s string) {
	t.text.WriteString(strings.TrimRight(s, " "))
	t.text.WriteByte('\n')
}

// row writes a line of cells. A cell that is too long is cut, but for the first, which gets a line of its own.
func (t *table) row(columns []column, cells ...string) {
	var b strings.Builder
	for i, cell := range cells {
		cell, room := printable(cell), columns[i].width
		switch n := utf8.RuneCountInString(cell); {
		case n > room && i == 0:
			t.line(cell)
			cell = ""
		case n > room:
			cell = string([]rune(cell)[:room-1]) + "~"
		}
		fmt.Fprintf(&b, "%-*s  ", room, cell)
	}
	t.line(b.String())
}

func (t *table) heads(columns []column) {
	var heads []string
	for _, c := range columns {
		heads = append(heads, c.head)
	}
	t.row(columns, heads...)
}

// detail writes an indented remark below a row.
func (t *table) detail(s string) {
	indent := "  "
	for _, line := range wrap(s, width-2*len(indent)) {
		t.line(indent + line)
		indent = "    "
	}
}

func (t *table) rdma(ports []RDMAPort) {
	if len(ports) == 0 {
		t.line("RDMA ports: none. The IB side can be the embedded fabric.")
		return
	}
	t.line("RDMA ports")
	t.heads(rdmaColumns)
	for i := range ports {
		p := &ports[i]
		rate, _, _ := strings.Cut(p.Rate, "ec (") // "100 Gb/sec (4X EDR)"
		t.row(rdmaColumns, p.Name(), p.LinkLayer, p.State, orDash(int(p.LID)), orDash(int(p.SMLID)), orDash(p.ActiveMTU),
			cmp.Or(rate, "-"), cmp.Or(p.PCI, "-"), cmp.Or(p.Netdev, "-"))
		for _, u := range p.Uses {
			t.detail(u.String())
		}
		for _, g := range p.GIDs {
			t.gid(g)
		}
		t.detail("P_Keys: " + cmp.Or(strings.Join(p.PKeys, " "), "none"))
	}
}

func (t *table) gid(g GID) {
	line := fmt.Sprintf("  GID %4d  %-39s  %-7s", g.Index, printable(g.GID), printable(g.Type))
	if g.Netdev != "" {
		line += "  " + printable(g.Netdev)
	}
	if !g.usable() {
		line += "  (over 255: unusable)"
	}
	t.line(line)
}

func (t *table) ethernet(ports []EthPort) {
	if len(ports) == 0 {
		t.line("Ethernet ports: none. The RoCE side can be tap, memif, pcap, ring or null.")
		return
	}
	t.line("Ethernet ports")
	t.heads(ethColumns)
	for i := range ports {
		e := &ports[i]
		mac := cmp.Or(e.MAC, "-")
		if len(mac) > ethColumns[len(ethColumns)-1].width { // IPoIB's 20 bytes
			mac = "-"
		}
		t.row(ethColumns, cmp.Or(e.Netdev, "-"), cmp.Or(e.Driver, "-"), cmp.Or(e.PCI, "-"), orDash(e.MTU), e.Link, mac)
		for _, u := range e.Uses {
			t.detail(u.String())
		}
		if len(e.RDMA) > 0 {
			t.detail("RDMA device of this port: " + strings.Join(e.RDMA, " "))
		}
		if len(e.SameCard) > 0 {
			t.detail("RDMA device on the same card: " + strings.Join(e.SameCard, " "))
		}
	}
}

func orDash(n int) string {
	if n == 0 {
		return "-"
	}
	return strconv.Itoa(n)
}
