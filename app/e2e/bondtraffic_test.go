// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"causeway/app/e2e/agent/client"
	"causeway/app/slowtest"
)

const (
	bondFlows = 2   // each way. Each fault befalls either member, and so each flow
	bondRate  = 100 // messages a second of each
)

// suffer has traffic pass both ways while a fault happens, and mends it.
func (b *bondRun) suffer(t *testing.T, f bondFault, member string) {
	at := strings.NewReplacer("AGAIN", b.again, "M", member)
	ctx, script := within(t, 2*stepTime), at.Replace(at.Replace(f.script))
	before := b.metrics(ctx, t)
	sent, reports, took := b.traffic(t, f.seconds, f.at(b), script)
	after := b.metrics(ctx, t)
	err := f.at(b).Must(ctx, "true\n"+at.Replace(f.mend))
	if err == nil && !f.stays {
		err = b.wait()
	}
	if err != nil {
		b.broken = true
		t.Fatal(err)
	}
	defer func() {
		if t.Failed() {
			t.Log(countedBetween(before, after))
		}
	}()
	name := fmt.Sprintf("causeway_bond_member_changes_total{member=%q}", b.member+member)
	changes := after[name] - before[name]
	if f.changes && changes == 0 {
		t.Errorf("%s%s carried frames all the time", b.member, member)
	}
	bound := time.Duration(0)
	if f.most > 0 {
		before := b.slow
		b.slow = b.far.slowness(ctx)
		bound = f.timer + slowtest.Stretch(t, f.most, max(before, b.slow)) + took
	}
	most, all := uint64(bound.Seconds()*bondRate), uint64(0)
	for i, way := range []string{"to InfiniBand", "to RoCE"} {
		s := reports[i]
		worst := uint64(0)
		for _, x := range s.Streams {
			lost := sent[x.Stream] - x.Unique
			all += lost
			if worst = max(worst, lost); lost > most {
				t.Errorf("%s: %s lost %d messages, %d ms; at most %v are allowed", way, x.To, lost, lost*1000/bondRate, bound)
			}
		}
		if len(s.Streams) != bondFlows || s.Sum.Duplicates+s.Sum.Reordered+s.Sum.Old+s.Sum.Corrupted != 0 {
			t.Errorf("%s: %d streams, of %d; %+v", way, len(s.Streams), bondFlows, s.Sum)
		}
		b.proof.add(int(s.Sum.Unique))
		b.proof.measured("%s %s: %s %s, %s: %d ms lost of %v, %d changes", b.mode, b.driver, f.name, member, way, worst*1000/bondRate,
			bound.Round(time.Millisecond), changes)
	}
	if f.loses && all == 0 {
		t.Errorf("nothing was lost: no flow used %s%s", b.member, member)
	}
}

// at is the guest that a fault happens in.
func (f *bondFault) at(b *bondRun) *BridgeGuest {
	if f.far {
		return b.far
	}
	return b.guest
}

// countedBetween lists what was counted, so that a loss has a place.
func countedBetween(before, after Metrics) string {
	var all []string
	for name, n := range after {
		if n != before[name] {
			all = append(all, fmt.Sprintf("%s: %d", name, n-before[name]))
		}
	}
	slices.Sort(all)
	return "counted meanwhile:\n" + strings.Join(all, "\n")
}

// streams is what a listener reports of each stream.
type streams struct {
	Sum struct {
		Unique, Lost, Before, Duplicates, Reordered, Old, Corrupted uint64
	} `json:"sum"`
	Streams []struct {
		To, Stream           string
		Unique, Lost, Before uint64
	} `json:"streams"`
}

// traffic sends to all groups from both ends while a fault's script is carried out. It returns how many messages were sent, by
// stream, what the node and the host received, and how late the cables came down.
func (b *bondRun) traffic(t *testing.T, seconds int, at *BridgeGuest, script string) (sent map[string]uint64, reports [2]streams, took time.Duration) {
	t.Helper()
	ctx := within(t, 2*stepTime)
	node, host := "-on fabric:/tmp/bond.sock -guid 0x0002c9030000000%d", "-on packet:"+b.host
	// On one CPU: a veth has a queue for each, and who moves to another overtakes himself.
	begin := func(g *BridgeGuest, format string, a ...any) *client.Command {
		c, err := g.Start(fmt.Sprintf("[ $(nproc) = 1 ] || taskset -p 2 $$ >/dev/null; exec /tmp/causeway "+format, a...))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Stop)
		return c
	}
	await := func(text string, all []*client.Command) {
		for _, c := range all {
			if _, err := c.AwaitText(ctx, text); err != nil {
				t.Fatal(err)
			}
		}
	}
	const listen, send = `listen %s -json -group %s -group %s`, `send %s -json -size 64 -rate %d -to %s`
	listeners := []*client.Command{
		begin(b.guest, listen, fmt.Sprintf(node, 7), bondGroup(0, 0), bondGroup(0, 1)),
		begin(b.far, listen, host, bondGroup(1, 0), bondGroup(1, 1)),
	}
	await(`"groups"`, listeners)
	var senders []*client.Command
	for i := range bondFlows {
		senders = append(senders, begin(b.far, send, fmt.Sprintf("%s -own-qpn %d", host, 0x100+i), bondRate, bondGroup(0, i)),
			begin(b.guest, send, fmt.Sprintf(node+" -own-qpn %d", 8+i, 0x100+i), bondRate, bondGroup(1, i)))
	}
	await(`"qpn"`, senders)
	time.Sleep(time.Second)
	until := time.Now().Add(time.Duration(seconds) * time.Second)
	out, exit, err := at.Run(ctx, b.hands+"set -e\n"+script+"\necho took $took")
	hundredths := 0
	if _, took, found := strings.Cut(out, "took "); err == nil && found {
		hundredths, err = strconv.Atoi(strings.TrimSpace(took))
	}
	if err != nil || exit != 0 {
		t.Fatalf("exit code %d, %v: %s", exit, err, lastLines(out))
	}
	time.Sleep(time.Until(until))
	sent = map[string]uint64{}
	stop(senders)
	for _, s := range senders {
		var r struct {
			Stream       string
			Sent, Unsent uint64 // what a classifier drops, its sender hears of
		}
		ended(ctx, t, s, &r)
		sent[r.Stream] = r.Sent + r.Unsent
	}
	time.Sleep(300 * time.Millisecond)
	stop(listeners)
	for i, l := range listeners {
		ended(ctx, t, l, &reports[i])
	}
	return sent, reports, time.Duration(hundredths) * 10 * time.Millisecond
}

func stop(all []*client.Command) {
	for _, c := range all {
		c.Stop()
	}
}

// ended waits for a sender or a listener that was stopped, and takes its report.
func ended(ctx context.Context, t *testing.T, c *client.Command, report any) {
	t.Helper()
	out, exit, err := c.Wait(ctx)
	text := strings.Split(strings.TrimSpace(out), "\n")
	if err == nil {
		err = json.Unmarshal([]byte(text[len(text)-1]), report)
	}
	if err != nil || exit != 0 {
		t.Fatalf("exit code %d, %v: %s", exit, err, lastLines(out))
	}
}

// metrics are the bridge's, the LACPDUs that its members received, and the kernel's counters of all interfaces.
func (b *bondRun) metrics(ctx context.Context, t *testing.T) Metrics {
	t.Helper()
	m, err := b.bridge.Metrics(ctx)
	if err != nil {
		t.Fatal(err)
	}
	const lacp = ` | awk '/^lacp:/ { lacp = 1 } lacp && $1 ~ /[01]$/ { print "lacp " $1 ":" $(NF-2) }'`
	said, _, err := b.guest.Run(ctx, "cd /sys/class/net; grep . */statistics/[rt]x_*; /tmp/causeway ctl -s /tmp/console.sock show bond"+lacp)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(said) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if n, err := strconv.ParseUint(value, 10, 64); err == nil {
			m["kernel "+name] = n
		}
	}
	return m
}
