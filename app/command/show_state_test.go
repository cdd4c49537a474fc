// SPDX-License-Identifier: Apache-2.0

package command_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/netip"
	"strings"
	"testing"

	"causeway/app/command"
	"causeway/app/command/commandtest"
	"causeway/lcore/manage"
	"causeway/tables"
)

// waiting is a bridge whose nodes are all absent.
type waiting struct {
	command.Target
	nodes int
}

func (w waiting) Status() manage.Status { return manage.Status{Waiting: w.nodes} }

func (w waiting) ListNodes(context.Context, manage.Query) (l manage.List[manage.NodeEntry], err error) {
	for i := range w.nodes {
		l.Entries = append(l.Entries, manage.NodeEntry{IP4: netip.AddrFrom4([4]byte{10, 9, 0, byte(i + 1)})})
	}
	return l, nil
}

func (w waiting) ListGroups(context.Context, manage.Query) (manage.List[manage.GroupEntry], error) {
	group := manage.Group{IP: netip.MustParseAddr("239.1.2.3")}
	return manage.List[manage.GroupEntry]{Entries: []manage.GroupEntry{{Group: group, State: "joined"}, {Group: group, State: "rejected"}}}, nil
}

// TestStatusAwaited checks that "show status" names what the bridge still waits for, on one screen.
func TestStatusAwaited(t *testing.T) {
	for nodes, want := range map[int][]string{
		2:  {"waiting for 2 joins or paths", "group 239.1.2.3, MGID ::: rejected\n", "node 10.9.0.1: no path", "node 10.9.0.2: no path"},
		20: {"node 10.9.0.4: no path", "and 16 more"},
	} {
		e, b := env(3)
		e.Bridge = waiting{b, nodes}
		text := run(t, e, "show status").Text(0)
		for _, part := range want {
			if !strings.Contains(text, part) {
				t.Errorf("%d nodes: no %q in\n%s", nodes, part, text)
			}
		}
		if n := strings.Count(text, "MGID") + strings.Count(text, "no path"); n > 5 {
			t.Errorf("%d nodes: %d are named", nodes, n)
		}
	}
}

// placed is a bridge with nodes in each state.
type placed struct{ command.Target }

func (placed) ListNodes(context.Context, manage.Query) (l manage.List[manage.NodeEntry], err error) {
	at := func(n byte, e manage.NodeEntry) {
		e.IP4 = netip.AddrFrom4([4]byte{10, 9, 0, n})
		l.Entries = append(l.Entries, e)
	}
	at(1, manage.NodeEntry{LID: 5, MTU: 2048, Rate: 3, Resolved: true})
	at(2, manage.NodeEntry{LID: 6, MTU: 4096, LIDs: tables.LIDsStale, Resolved: true})
	at(3, manage.NodeEntry{LID: 7, MTU: 4096, LIDs: tables.LIDsLost, Resolved: true})
	at(4, manage.NodeEntry{})
	return l, nil
}

// TestNodesPaths checks that "show nodes" shows the path to each node.
func TestNodesPaths(t *testing.T) {
	e, b := env(3)
	e.Bridge = placed{b}
	lines := strings.Split(run(t, e, "show nodes").Text(200), "\n")
	for i, want := range [][]string{{"MTU", "RATE"}, {"2048", "10 Gb/s", "resolved"}, {"4096", "stale"}, {"4096", "lost"}, {"resolving"}} {
		for _, part := range want {
			if i >= len(lines) || !strings.Contains(lines[i], part) {
				t.Errorf("line %d has no %q in\n%s", i, part, strings.Join(lines, "\n"))
			}
		}
	}
}

// TestDropsExplained checks that each drop reason that can be shown is explained.
func TestDropsExplained(t *testing.T) {
	for _, line := range []string{"trace drop ", "capture drop ic"} {
		c := command.Standard.Choices(context.Background(), nil, line)
		if text := strings.Join(c.Lines(0), "\n"); !strings.Contains(text, "the ICRC is wrong") {
			t.Errorf("%q: %s", line, text)
		}
	}
}

// TestQKeysAreForAdmins checks that a Q_Key, with which anybody could send to a queue pair or group, is shown to admins
// alone, and not in the log.
func TestQKeysAreForAdmins(t *testing.T) {
	e, _ := env(3)
	var log bytes.Buffer
	e.Log = slog.New(slog.NewTextHandler(&log, nil))
	ask := func(role command.Role, line string) string {
		t.Helper()
		v, err := command.Standard.Parse(line)
		if err != nil {
			t.Fatal(err)
		}
		r, err := v.Command.Run(context.Background(), v.Call(e, role, "test"))
		if err != nil {
			t.Fatal(err)
		}
		b, err := r.JSON(true)
		if err != nil {
			t.Fatal(err)
		}
		return r.Text(0) + string(b)
	}
	ask(command.Admin, "add group 239.1.2.4 mgid ipoib")
	for line, key := range map[string]string{"show proxy-qps": commandtest.QKey.String(), "show config": "0xb1b"} {
		if text := ask(command.Admin, line); strings.Count(text, key) < 2 {
			t.Errorf("%s shows an admin %s", line, text)
		}
		if text := ask(command.View, line); strings.Contains(text, key) || !strings.Contains(text, "hidden") {
			t.Errorf("%s shows others %s", line, text)
		}
	}
	if text := log.String(); strings.Contains(text, "0xb1b") || !strings.Contains(text, "239.1.2.4") {
		t.Errorf("the log has %s", text)
	}
}
