// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"causeway/config"
	"causeway/fleet/etcd/etcdtest"
	"causeway/fleet/shares"
	"causeway/ibside"
	"causeway/ibside/fabric"
	"causeway/ibside/ib"
	"causeway/lcore"
	"causeway/lcore/frame"
	"causeway/lcore/manage/bridges"
)

// ofFleet is a bridge with a number of a fleet.
func ofFleet(number byte, name string, founded uint64) bridges.Bridge {
	return bridges.Bridge{GIDs: []ib.GID{{0xfe, 0x80, 15: number}}, MACs: []frame.MAC{{2, 5: number}}, Fleet: fleetOf(name, founded)}
}

// TestRivalOf: a fleet of the same name that was founded at another time is another; the first of all does the work. What
// is not known is no reason to stop.
func TestRivalOf(t *testing.T) {
	const after, before = "founded after this one, and does nothing while this one is there; its bridges are ", "founded before this one; its bridges are "
	own := fleetOf("east", 100)
	for _, c := range []struct {
		name   string
		own    ibside.Fleet
		others []bridges.Bridge
		want   string
	}{
		{"alone", own, nil, ""},
		{"members", own, []bridges.Bridge{ofFleet(1, "east", 100), ofFleet(2, "east", 100)}, ""},
		{"in no fleet, or one that has not heard of etcd", own, []bridges.Bridge{ofFleet(1, "east", 0)}, ""},
		{"of another name", own, []bridges.Bridge{ofFleet(1, "west", 99)}, ""},
		{"etcd has not told when this one was founded", ibside.Fleet{Name: own.Name}, []bridges.Bridge{ofFleet(1, "east", 99)}, ""},
		{"founded later", own, []bridges.Bridge{ofFleet(1, "east", 101), ofFleet(2, "east", 100)}, after + "fe80::1 (02:00:00:00:00:01)"},
		{"founded earlier", own, []bridges.Bridge{ofFleet(1, "east", 99)}, before + "fe80::1 (02:00:00:00:00:01)"},
		{"both", own, []bridges.Bridge{ofFleet(1, "east", 101), ofFleet(2, "east", 99)}, before + "fe80::1 (02:00:00:00:00:01), fe80::2 (02:00:00:00:00:02)"},
		{"many", own, []bridges.Bridge{ofFleet(1, "east", 99), ofFleet(2, "east", 99), ofFleet(3, "east", 99), ofFleet(4, "east", 99), ofFleet(5, "east", 99)},
			before + "fe80::1 (02:00:00:00:00:01), fe80::2 (02:00:00:00:00:02), fe80::3 (02:00:00:00:00:03), 2 more"},
	} {
		got := rivalOf("east", c.own, c.others)
		switch {
		case got == nil && c.want != "":
			t.Errorf("%s: nothing, want %q", c.name, c.want)
		case got != nil && (c.want == "" || got.text != "another fleet is called east, with another etcd, and was "+c.want || got.earlier != strings.HasPrefix(c.want, before)):
			t.Errorf("%s: %+v, want %q", c.name, got, c.want)
		}
	}
}

// TestRivals: what is there for a moment only changes nothing; then the bridge is barred until it has gone, and says so once.
func TestRivals(t *testing.T) {
	var log bytes.Buffer
	var others []bridges.Bridge
	barred := 0
	now := time.Now()
	r := &rivals{fleet: "east", own: func() ibside.Fleet { return fleetOf("east", 100) }, bridges: func() []bridges.Bridge { return others }, lasting: 3 * time.Second,
		bar: func(on bool) {
			if barred--; on {
				barred += 2
			}
		}, log: slog.New(slog.NewTextHandler(&log, nil))}
	earlier, later := []bridges.Bridge{ofFleet(1, "east", 99)}, []bridges.Bridge{ofFleet(1, "east", 101)}
	for i, step := range []struct {
		others []bridges.Bridge
		after  time.Duration
		barred int
		twice  bool
		lines  int
	}{
		{nil, 0, 0, false, 0},
		{earlier, 0, 0, false, 0},
		{earlier, 2 * time.Second, 0, false, 0},
		{nil, time.Second, 0, false, 0},
		{earlier, time.Second, 0, false, 0},
		{earlier, 3 * time.Second, 1, false, 1},
		{earlier, time.Hour, 1, false, 1},
		{nil, time.Second, 0, false, 1},
		{later, time.Second, 0, false, 1},
		{later, 3 * time.Second, 0, true, 2},
		{append(later, earlier...), time.Second, 1, false, 2},
		{later, time.Second, 0, true, 2},
	} {
		others, now = step.others, now.Add(step.after)
		r.look(now)
		if lines := strings.Count(log.String(), "msg=fleet_twice"); barred != step.barred || (r.why() != "") != (step.barred > 0) || (r.other() != "") != step.twice || lines != step.lines {
			t.Errorf("step %d: barred %d, why %q, other %q, %d lines", i, barred, r.why(), r.other(), lines)
		}
	}
	if !strings.Contains(log.String(), "withdraws=true") || !strings.Contains(log.String(), "withdraws=false") {
		t.Error(log.String())
	}
}

func init() { tasks["fleet-twice"] = taskFleetTwice }

// TestFleetTwice has a member of a fleet, with an etcd, and a node on its subnet that says that it is of a fleet of the same
// name, which was founded first, and then that it was founded later.
func TestFleetTwice(t *testing.T) {
	t.Parallel()
	url, _ := etcdtest.Start(t)
	text, err := task(t, "fleet-twice", "ETCD="+url)
	if err != nil {
		t.Fatal(err)
	}
	t.Log(text)
}

func taskFleetTwice() (string, error) {
	subnet, err := fabric.New(fabric.Config{Nodes: []fabric.NodeConfig{
		{Name: "echo", GUID: 7, Role: fabric.RoleEcho}, // the configuration names it
		{Name: "other", GUID: 0x31},
	}})
	if err != nil {
		return "", err
	}
	cfg, err := config.Parse("bridge", []byte(bridgeFile+fmt.Sprintf("[fleet]\nname = \"test\"\netcd = [%q]\nright_ms = 200\n", os.Getenv("ETCD"))))
	if err != nil {
		return "", errors.Join(err, subnet.Close())
	}
	var log lines
	h, err := Build(cfg, Options{Log: slog.New(slog.NewTextHandler(&log, nil)), NoHuge: true, Subnet: subnet})
	if err != nil {
		return "", errors.Join(err, subnet.Close())
	}
	b := &besides{h, subnet.Node("other")}
	err = running(h, b.meetsRival)
	if !log.has("msg=fleet_twice") || !log.has("msg=fleet_no_part") {
		err = errors.Join(err, errors.New("the log does not say so"))
	}
	if err != nil {
		err = fmt.Errorf("%w\n%s", err, log.String())
	}
	return "it stopped and went on", errors.Join(err, subnet.Close())
}

// meetsRival has the other fleet come, and be another.
func (b *besides) meetsRival() error {
	all := func(p Part) bool {
		return p.Why == "" && p.Twice == "" && p.Hosts == shares.Hosts && p.Groups == shares.Groups
	}
	if err := b.awaitPart("all shares", all); err != nil {
		return err
	}
	own := b.shares.fleet()
	if err := errors.Join(b.awaitRecord(own), b.rival(1)); err != nil {
		return err
	}
	if err := b.awaitPart("none", func(p Part) bool {
		return strings.Contains(p.Why, "another fleet is called test") && strings.Contains(p.Why, "before this one") && p.Hosts+p.Groups == 0
	}); err != nil {
		return err
	}
	notMine, _ := lcore.DropNamed("not_mine")
	p := message(b.Bridge, fleetGroup, ib.QPMulticast, 1)
	if err := b.enter(p.AppendTo(nil)); err != nil {
		return err
	}
	for end := time.Now().Add(time.Minute); b.Counters().Direction[lcore.RoCEToIB].Drops[notMine] != 1; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			return fmt.Errorf("from Ethernet: %+v", b.Counters().Direction[lcore.RoCEToIB])
		}
	}
	if err := b.rival(own.Founded + 1); err != nil {
		return err
	}
	return b.awaitPart("all shares again", func(p Part) bool {
		other := p.Twice
		p.Twice = ""
		return all(p) && strings.Contains(other, "after this one")
	})
}

// rival has the node say that it is of a fleet.
func (b *besides) rival(founded uint64) error {
	at, err := b.other.SA().PortState()
	if err != nil {
		return err
	}
	r := otherRecord(at)
	binary.BigEndian.PutUint64(r.Data[40:], fleetOf("test", founded).Name)
	binary.BigEndian.PutUint64(r.Data[48:], founded)
	_, err = b.other.SA().Offer(context.Background(), r)
	return err
}

// awaitPart waits until the bridge's part is as it should be.
func (b *besides) awaitPart(what string, is func(Part) bool) error {
	for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		p, _ := b.Part()
		if is(p) {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("%s: its part is %+v", what, p)
		}
	}
}

// awaitRecord waits until the subnet administrator lists the bridge as one of a fleet.
func (b *besides) awaitRecord(of ibside.Fleet) error {
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		all, err := b.other.SA().Services(context.Background(), "Causeway bridge")
		if err == nil && len(all) == 1 && binary.BigEndian.Uint64(all[0].Data[40:]) == of.Name && binary.BigEndian.Uint64(all[0].Data[48:]) == of.Founded {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("the bridge's record is not of %+v: %+v, %w", of, all, err)
		}
	}
}
