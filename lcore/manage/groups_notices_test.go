// SPDX-License-Identifier: Apache-2.0

package manage_test

import (
	"context"
	"log/slog"
	"net/netip"
	"testing"
	"time"

	"causeway/ibside/ib"
	"causeway/lcore/frame"
	"causeway/lcore/manage"
	"causeway/tables"
)

// telling is a door that knows which groups the subnet has.
type telling struct {
	*door
	notices chan manage.Notice
}

func (d telling) Notices() <-chan manage.Notice { return d.notices }

// startTelling starts a loop in front of such a door.
func startTelling(t *testing.T, edit func(*manage.Config, *door)) (*stand, chan manage.Notice) {
	t.Helper()
	cfg, s := config(), &stand{t: t, door: newDoor(), w: &worker{}, log: &logged{}, result: make(chan error, 1)}
	edit(&cfg, s.door)
	var err error
	if s.tables, err = tables.New(tables.Config{MaxHosts: 4, MaxStandIns: 4, MaxNodes: 4, MaxGroups: 64, MaxReaders: 1}); err != nil {
		t.Fatal(err)
	}
	d := telling{s.door, make(chan manage.Notice)}
	s.loop = manage.New(cfg, s.tables, d, []manage.Worker{s.w}, slog.New(slog.NewTextHandler(s.log, nil)))
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	go func() { s.result <- s.loop.Run(ctx) }()
	t.Cleanup(func() {
		if err := s.end(); err != nil {
			t.Errorf("Run: %v", err)
		}
		s.tables.Close()
	})
	s.settle()
	return s, d.notices
}

// TestNotices wants a group of the subnet to be bridged while it is there, and the bridge to be a guest in it.
func TestNotices(t *testing.T) {
	for _, ip := range []netip.Addr{learnt4, learnt6} {
		bubble(t, ip.String(), func(t *testing.T) {
			s, notices := startTelling(t, learning(nil))
			notices <- manage.Notice{MGID: mgid(ip)}
			s.wantLearned("made", ip)
			if j := s.door.joined[mgid(ip)]; !j.Guest || !j.Receive {
				t.Errorf("joined as %+v", j)
			}
			s.querier(12 * time.Minute)
			s.wantLearned("nobody on RoCE", ip)
			notices <- manage.Notice{MGID: mgid(ip), Deleted: true}
			s.wantLearned("deleted")
			notices <- manage.Notice{MGID: mgid(ip), Deleted: true} // of the bridge's own leaving
			notices <- manage.Notice{MGID: mgid(netip.MustParseAddr("239.9.9.9"))}
			notices <- manage.Notice{MGID: ib.GID{0xff, 0x12}}
			s.wantLearned("others")
			if c := s.count(); c.GroupNotices != 3 || c.GroupsLearned != 1 {
				t.Errorf("counted %+v", c)
			}
		})
	}
}

// TestBothWant wants a group to be there while RoCE hosts or IB nodes want it, and the bridge to keep it alive exactly
// while RoCE hosts do.
func TestBothWant(t *testing.T) {
	bubble(t, "first IB", func(t *testing.T) {
		s, notices := startTelling(t, learning(nil))
		guest := func(what string, want bool) {
			t.Helper()
			s.wantLearned(what, learnt4)
			if j := s.door.joined[mgid(learnt4)]; j.Guest != want {
				t.Errorf("%s: joined as %+v", what, j)
			}
		}
		notices <- manage.Notice{MGID: mgid(learnt4)}
		guest("made", true)
		s.reports(hostLink, host4, frame.JoinRecord(learnt4))
		guest("reported", false)
		s.reports(hostLink, host4, frame.LeaveRecord(learnt4))
		sleep(8 * time.Second)
		guest("left", true)
		if len(s.door.leaves) != 0 {
			t.Errorf("left %v", s.door.leaves)
		}
		notices <- manage.Notice{MGID: mgid(learnt4), Deleted: true}
		s.wantLearned("deleted")
	})
	bubble(t, "first RoCE", func(t *testing.T) { // who makes the group is not told of it by others
		s, notices := startTelling(t, learning(nil))
		s.reports(hostLink, host4, frame.JoinRecord(learnt4))
		s.settle()
		notices <- manage.Notice{MGID: mgid(learnt4)}
		s.reports(hostLink, host4, frame.LeaveRecord(learnt4))
		sleep(8 * time.Second)
		s.wantLearned("left")
	})
	bubble(t, "deleted while wanted", func(t *testing.T) {
		s, notices := startTelling(t, learning(func(c *manage.Config, _ *door) { c.Groups = []manage.Group{toIB(group4)} }))
		notices <- manage.Notice{MGID: mgid(learnt4)}
		s.reports(hostLink, host4, frame.JoinRecord(learnt4))
		s.settle()
		tries := s.door.joins[mgid(learnt4)]
		notices <- manage.Notice{MGID: mgid(learnt4), Deleted: true}
		notices <- manage.Notice{MGID: mgid(group4), Deleted: true}
		sleep(time.Second)
		s.wantLearned("and there again", learnt4)
		if n := s.door.joins[mgid(learnt4)]; n != tries+1 || s.door.joins[mgid(group4)] != 2 {
			t.Errorf("%d joins after %d, and %d", n, tries, s.door.joins[mgid(group4)])
		}
	})
}
