// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"fmt"
	"io"
	"sync"
	"testing"
	"text/tabwriter"
)

// A proof is one scenario in the table that is printed at the end of a run.
type proof struct {
	t        *testing.T
	scenario string
	mu       sync.Mutex
	messages int
	figures  []string // what was measured
	result   string
}

// proofs are those of this run, in the order in which they began.
var proofs struct {
	sync.Mutex
	all []*proof
}

// proves adds a test to the table, with what it shows when it passes.
func proves(t *testing.T, scenario string) *proof {
	p := &proof{t: t, scenario: scenario, result: "not finished"}
	proofs.Lock()
	proofs.all = append(proofs.all, p)
	proofs.Unlock()
	t.Cleanup(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		switch {
		case t.Failed():
			p.result = "FAILED"
		case p.messages == 0:
			p.result = "FAILED"
			t.Errorf("%q has checked no message: it proves nothing", scenario)
		default:
			p.result = "proven"
		}
	})
	return p
}

// add counts messages that were checked.
func (p *proof) add(messages int) {
	p.mu.Lock()
	p.messages += messages
	p.mu.Unlock()
}

// measured adds a figure to the table.
func (p *proof) measured(format string, a ...any) {
	p.mu.Lock()
	p.figures = append(p.figures, fmt.Sprintf(format, a...))
	p.mu.Unlock()
}

// printProofs writes the table, if there is anything in it.
func printProofs(w io.Writer) {
	proofs.Lock()
	defer proofs.Unlock()
	if len(proofs.all) == 0 {
		return
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "\nscenario\tmessages\tresult")
	for _, p := range proofs.all {
		p.mu.Lock()
		fmt.Fprintf(table, "%s\t%d\t%s\n", p.scenario, p.messages, p.result)
		for _, f := range p.figures {
			fmt.Fprintf(table, "    %s\t\t\n", f)
		}
		p.mu.Unlock()
	}
	table.Flush()
}
