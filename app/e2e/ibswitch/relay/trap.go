// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"encoding/binary"
	"time"

	"causeway/app/e2e/ibswitch/smp"
	"causeway/ibside/ib"
)

const (
	trapTries        = 10
	noticeUrgent     = 1
	producerSwitch   = 2
	smpNoticeDataLen = smp.DataLen // without the issuer's GID
)

// trap is trap 128, "a link state has changed": it is sent until the subnet manager represses it.
type trap struct {
	interval time.Duration
	tid      uint64
	tries    int // that are left
	timer    *time.Timer
}

func (t *trap) stop() {
	t.tries = 0
	if t.timer != nil {
		t.timer.Stop()
	}
}

// raise begins to send the trap, anew if one is not repressed yet. The caller holds the lock.
func (s *Switch) raise() {
	if _, _, ok := s.ownLIDs(); !ok || s.closed {
		return
	}
	s.trap.stop()
	s.trap.tid++
	s.trap.tries = trapTries
	s.sendTrap()
}

// sendTrap sends it once, and again after the interval. The caller holds the lock.
func (s *Switch) sendTrap() {
	own, manager, ok := s.ownLIDs()
	if !ok || s.trap.tries == 0 {
		return
	}
	s.trap.tries--
	s.trap.timer = time.AfterFunc(s.trap.interval, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if !s.closed {
			s.sendTrap()
		}
	})
	zero, packet := s.ports[0], linkStateTrap(own, s.trap.tid).Packet(own, manager)
	zero.countIn(packet)
	s.subnetByLID(zero, manager, packet)
}

// linkStateTrap makes trap 128 (§14.2.5.1) of the switch with a LID.
func linkStateTrap(own ib.LID, tid uint64) smp.SMP {
	mad := make([]byte, ib.MADLen)
	ib.PutMAD(mad, ib.MADFields{
		Class: ib.ClassSubnLID, ClassVersion: smp.ClassVersion, Method: smp.MethodTrap, TID: tid, AttrID: smp.AttrNotice,
	})
	notice := ib.NoticeFields{
		IsGeneric: true, Type: noticeUrgent, Producer: producerSwitch, Trap: ib.TrapLinkState, IssuerLID: own, Toggle: tid&1 != 0,
	}
	binary.BigEndian.PutUint16(notice.Data[:], uint16(own))
	full := ib.PutNotice(make([]byte, ib.NoticeLen), notice)
	m, _ := smp.As(mad)
	copy(m.Data(), full[:smpNoticeDataLen])
	return m
}

// repressed ends the trap that the subnet manager says it has received. The caller holds the lock.
func (s *Switch) repressed(m smp.SMP) {
	if m.MAD().TID() == s.trap.tid {
		s.trap.stop()
	}
}
