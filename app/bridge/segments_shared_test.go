// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"testing"
	"time"

	"causeway/config"
	"causeway/ibside/fabric"
	"causeway/ibside/ib"
	"causeway/ibside/stamp"
	"causeway/lcore"
)

func init() { tasks["segments-shared"] = taskSegmentsShared }

// A group that both segments share, in a partition of its own, with a node there.
const (
	sharedPKey = ib.PKey(0x8003)

	sharedFile = segmentsFile + `[[host]]
ip = "10.9.0.10"
side = "ib"
gid = "fe80::a"
pkey = 0x8003
[[group]]
ip = "239.7.7.7"
pkey = 0x8003
vlans = [0, 200]
`
)

var (
	sharedIP = netip.MustParseAddr("239.7.7.7")
	memberIP = netip.MustParseAddr("10.9.0.10")
)

// taskSegmentsShared publishes from InfiniBand to both segments, and from both to InfiniBand.
func taskSegmentsShared() (string, error) {
	f, err := fabric.New(fabric.Config{PKeys: []ib.PKey{ib.PKeyDefault, segmentPKey1, segmentPKey, sharedPKey}})
	if err != nil {
		return "", err
	}
	first, err1 := echoIn(f, 7, segmentPKey1)
	second, err2 := echoIn(f, 8, segmentPKey)
	spy, err3 := f.Attach(fabric.PortConfig{Name: "spy", GUID: 9, PKeys: []ib.PKey{segmentPKey1, segmentPKey}})
	cfg, err4 := config.Parse("bridge", []byte(sharedFile))
	port, err5 := f.Attach(fabric.PortConfig{Name: "member", GUID: 10, PKeys: []ib.PKey{ib.PKeyDefault, sharedPKey}})
	if err := errors.Join(err1, err2, err3, err4, err5); err != nil {
		return "", err
	}
	m := &sharedMember{hca: fabric.NewHCA(port), recv: fabric.NewRecvQueue(256)}
	h, err := Build(cfg, Options{Log: slog.New(slog.DiscardHandler), NoHuge: true, Subnet: f})
	if err != nil {
		return "", err
	}
	err = running(h, func() error {
		if err := m.join(); err != nil {
			return err
		}
		return errors.Join(h.publishedToBoth(m), h.publishedByBoth(m))
	})
	return "", errors.Join(err, first.Close(), second.Close(), spy.Close(), m.hca.Close(), f.Close())
}

// sharedMember is a node in the group.
type sharedMember struct {
	hca    *fabric.HCA
	recv   *fabric.RecvQueue
	qp     *fabric.QP
	record ib.MCMemberFields
}

func (m *sharedMember) join() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	client := fabric.NewSAClient(m.hca)
	var err error
	m.record, err = client.Join(ctx, ib.MCMemberFields{
		MGID: ib.MGIDRDMACM(sharedIP, sharedPKey, 2), QKey: ib.QKeyRDMAUDP, PKey: sharedPKey, JoinState: ib.JoinFull,
	})
	if err != nil {
		return err
	}
	if m.qp, err = m.hca.CreateQP(fabric.QPConfig{QKey: m.record.QKey, PKeyIndex: 1, Recv: m.recv}); err != nil {
		return err
	}
	return m.qp.AttachMulticast(m.record.MGID)
}

// send sends a numbered message to the group. It returns why it was not sent.
func (m *sharedMember) send(number uint64) string {
	rec := &m.record
	return m.qp.Send(&fabric.Send{
		AH:     fabric.AH{DLID: rec.MLID, SL: rec.SL, GRH: &ib.GRHFields{DGID: rec.MGID, TClass: rec.TClass, FlowLabel: rec.FlowLabel, HopLimit: rec.HopLimit}},
		DestQP: ib.QPMulticast, QKey: rec.QKey, Payload: stamp.Message(number, 200),
	})
}

// publishedToBoth has the node publish: each segment hears all of it, in order.
func (b *Bridge) publishedToBoth(m *sharedMember) error {
	const n = 100
	for k := range uint64(n) {
		if why := m.send(k + 1); why != "" {
			return fmt.Errorf("not sent: %s", why)
		}
	}
	frames, err := b.leave(2 * n)
	heard := map[bool]uint64{}
	for _, p := range frames {
		tagged := p.Tag != nil
		heard[tagged]++
		s, verdict := stamp.Read(p.Payload)
		if p.SrcIP != memberIP || p.DstIP != sharedIP || verdict != stamp.Whole || s.Number != heard[tagged] || tagged && p.Tag.VID != segmentVLAN {
			return errors.Join(err, fmt.Errorf("message %d is number %d: %+v", heard[tagged], s.Number, p))
		}
	}
	if c := b.Counters().Direction[lcore.IBToRoCE]; c.GroupCopies != n || heard[true] != n {
		err = errors.Join(err, fmt.Errorf("%d copies, heard %v: %+v", c.GroupCopies, heard, c))
	}
	return err
}

// publishedByBoth has the hosts of both segments publish: the node hears all of it, and the other segment nothing.
func (b *Bridge) publishedByBoth(m *sharedMember) error {
	const n = 50
	before := b.Counters().Direction[lcore.IBToRoCE].Sent
	heard := map[uint64]bool{}
	hear := func(all int) {
		for deadline := time.Now().Add(time.Minute); len(heard) < all && time.Now().Before(deadline); time.Sleep(time.Millisecond) {
			var got [64]fabric.Received
			for _, r := range got[:m.recv.Poll(got[:])] {
				if s, verdict := stamp.Read(r.Payload); verdict == stamp.Whole && r.SrcQP != m.qp.QPN() {
					heard[s.Number] = true
				}
			}
		}
	}
	for k := 1; k <= n; k++ {
		p, q := message(b, sharedIP, ib.QPMulticast, 2*k), onSegment(message(b, sharedIP, ib.QPMulticast, 2*k+1))
		if err := b.enter(p.AppendTo(nil), q.AppendTo(nil)); err != nil {
			return err
		}
		if k == 1 { // each has its proxy QP then
			hear(2)
		}
	}
	hear(2 * n)
	if c := b.Counters(); len(heard) != 2*n || c.Direction[lcore.IBToRoCE].Sent != before {
		return fmt.Errorf("the node has heard %d of %d; counters %+v", len(heard), 2*n, c.Direction)
	}
	return nil
}

func TestSegmentsShared(t *testing.T) { logTask(t, "segments-shared") }
