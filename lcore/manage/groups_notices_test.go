// SPDX-License-Identifier: Apache-2.0

package manage_test

import (
	"context"
	"log/slog"
	"net/netip"
	"testing"
	"time"

	"causeway/ibside"
	"causeway/ibside/ib"
	"causeway/lcore/frame"
	"causeway/lcore/manage"
	"causeway/tables"
)

// notifier is a port that reports which groups the subnet has.
type telling struct {
	*ibPort
	notices chan ibside.Notice
}

func (d telling) Notices() <-chan ibside.Notice { return d.notices }

// startNotified starts a loop with such a port.
func startNotified(t *testing.T, edit func(*manage.Config, *ibPort)) (*rig, chan ibside.Notice) {
	t.Helper()
	cfg, s := config(), &rig{t: t, ibPort: newPort(), w: &worker{}, log: &logged{}, result: make(chan error, 1)}
	edit(&cfg, s.ibPort)
	var err error
	if s.tables, err = tables.New(tables.Config{MaxHosts: 4, MaxProxyQPs: 4, MaxNodes: 4, MaxGroups: 64, MaxReaders: 1}); err != nil {
		t.Fatal(err)
	}
	d := telling{s.ibPort, make(chan ibside.Notice)}
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

// TestNotices checks that a group of the subnet is bridged while it exists, with the bridge as a non-member.
func TestNotices(t *testing.T) {
	for _, ip := range []netip.Addr{learned4, learned6} {
		bubble(t, ip.String(), func(t *testing.T) {
			s, notices := startNotified(t, learning(nil))
			notices <- ibside.Notice{MGID: mgid(ip)}
			s.wantLearned("made", ip)
			if j := s.ibPort.joined[mgid(ip)]; !j.NonMember || !j.Receive {
				t.Errorf("joined as %+v", j)
			}
			s.querier(12 * time.Minute)
			s.wantLearned("no member on RoCE", ip)
			notices <- ibside.Notice{MGID: mgid(ip), Deleted: true}
			s.wantLearned("deleted")
			notices <- ibside.Notice{MGID: mgid(ip), Deleted: true} // caused by the bridge's own leave
			notices <- ibside.Notice{MGID: mgid(netip.MustParseAddr("239.9.9.9"))}
			notices <- ibside.Notice{MGID: ib.GID{0xff, 0x12}}
			s.wantLearned("others")
			if c := s.count(); c.GroupNotices != 3 || c.GroupsLearned != 1 {
				t.Errorf("counted %+v", c)
			}
		})
	}
}

// TestBothWant checks that a group is bridged while RoCE hosts or IB nodes demand it, and that the bridge is a full
// member, which keeps it alive, exactly while RoCE hosts do.
func TestBothWant(t *testing.T) {
	bubble(t, "first IB", func(t *testing.T) {
		s, notices := startNotified(t, learning(nil))
		nonMember := func(what string, want bool) {
			t.Helper()
			s.wantLearned(what, learned4)
			if j := s.ibPort.joined[mgid(learned4)]; j.NonMember != want {
				t.Errorf("%s: joined as %+v", what, j)
			}
		}
		notices <- ibside.Notice{MGID: mgid(learned4)}
		nonMember("made", true)
		s.reports(hostLink, host4, frame.JoinRecord(learned4))
		nonMember("reported", false)
		s.reports(hostLink, host4, frame.LeaveRecord(learned4))
		sleep(8 * time.Second)
		nonMember("left", true)
		if len(s.ibPort.leaves) != 0 {
			t.Errorf("left %v", s.ibPort.leaves)
		}
		notices <- ibside.Notice{MGID: mgid(learned4), Deleted: true}
		s.wantLearned("deleted")
	})
	// A notice of a group that the bridge itself has made does not mean that others want it.
	bubble(t, "first RoCE", func(t *testing.T) {
		s, notices := startNotified(t, learning(nil))
		s.reports(hostLink, host4, frame.JoinRecord(learned4))
		s.settle()
		notices <- ibside.Notice{MGID: mgid(learned4)}
		s.reports(hostLink, host4, frame.LeaveRecord(learned4))
		sleep(8 * time.Second)
		s.wantLearned("left")
	})
	bubble(t, "deleted while wanted", func(t *testing.T) {
		s, notices := startNotified(t, learning(func(c *manage.Config, _ *ibPort) { c.Groups = []manage.Group{toIB(group4)} }))
		notices <- ibside.Notice{MGID: mgid(learned4)}
		s.reports(hostLink, host4, frame.JoinRecord(learned4))
		s.settle()
		tries := s.ibPort.joins[mgid(learned4)]
		notices <- ibside.Notice{MGID: mgid(learned4), Deleted: true}
		notices <- ibside.Notice{MGID: mgid(group4), Deleted: true}
		sleep(time.Second)
		s.wantLearned("and there again", learned4)
		if n := s.ibPort.joins[mgid(learned4)]; n != tries+1 || s.ibPort.joins[mgid(group4)] != 2 {
			t.Errorf("%d joins after %d, and %d", n, tries, s.ibPort.joins[mgid(group4)])
		}
	})
}
