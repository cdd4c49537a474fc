// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"strconv"
	"strings"

	"causeway/app/e2e/ibswitch/node"
	"causeway/app/e2e/ibswitch/relay"
)

// serve obeys commands, a line each, until they end or ctx does.
func serve(ctx context.Context, commands io.Reader, l *lines, f *fabric) {
	read := make(chan string)
	go func() {
		defer close(read)
		for s := bufio.NewScanner(commands); s.Scan(); {
			select {
			case read <- s.Text():
			case <-ctx.Done():
				return
			}
		}
	}()
	for {
		select {
		case line, ok := <-read:
			if !ok {
				return
			}
			l.print(f.obey(line))
		case <-ctx.Done():
			return
		}
	}
}

// counters is what the command of that name prints.
type counters struct {
	Ports    []relay.PortCounts `json:"ports"`
	Nodes    []node.Stats       `json:"nodes"`
	Connects map[string]uint64  `json:"connects"` // how often each cable has found its QEMU
}

// obey carries out a command and returns its answer, one line.
func (f *fabric) obey(line string) string {
	words := strings.Fields(line)
	switch {
	case len(words) == 2 && (words[0] == "down" || words[0] == "up"):
		if err := f.sw.Plug(words[1], words[0] == "up"); err != nil {
			return "error " + err.Error()
		}
		return "ok " + line
	case len(words) == 3 && words[0] == "lose":
		percent, err := strconv.ParseUint(words[2], 10, 32)
		if err == nil {
			err = f.sw.Lose(words[1], uint32(percent))
		}
		if err != nil {
			return "error " + err.Error()
		}
		return "ok " + line
	case len(words) == 1 && words[0] == "counters":
		text, err := json.Marshal(f.counters())
		if err != nil {
			return "error " + err.Error()
		}
		return string(text)
	}
	return "error not a command: " + line
}

func (f *fabric) counters() counters {
	c := counters{Ports: f.sw.Counts(), Connects: map[string]uint64{}}
	for _, n := range f.nodes {
		c.Nodes = append(c.Nodes, n.Stats())
	}
	for name, cable := range f.cables {
		c.Connects[name] = cable.Connects()
	}
	return c
}
