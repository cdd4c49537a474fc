// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"errors"
	"fmt"
)

// doorQPs is how many queue pairs a null verbs device has.
const doorQPs = 64

// A doorUse is one way to use a door.
type doorUse struct {
	null    bool // the null verbs device, else the embedded subnet's rings
	polls   bool
	qps     int // that take turns
	burst   int // messages in a call
	payload int // bytes
}

func (u doorUse) String() string {
	door, way, qps := "embedded", "post", "1 QP"
	if u.null {
		door = "null verbs"
	}
	if u.polls {
		way = "poll"
	}
	if u.qps > 1 {
		qps = fmt.Sprintf("%d QPs", u.qps)
	}
	return fmt.Sprintf("%s, %s, %s, burst %d", way, door, qps, u.burst)
}

// far says who is on the door's other side, whose work does not count.
func (u doorUse) far() string {
	switch {
	case u.null:
		return "the device, apart"
	case u.polls:
		return "who fills, apart"
	}
	return "who empties, apart"
}

// A doorReading is what one message cost, in nanoseconds: the door's calls, and the work on the other side.
type doorReading struct {
	call, far float64
	bells     float64 // a burst
}

// doorUses are all that is told, in that order.
func doorUses() []doorUse {
	var all []doorUse
	for _, polls := range []bool{false, true} {
		for _, null := range []bool{true, false} {
			for _, qps := range []int{1, doorQPs} {
				for _, burst := range []int{1, 8, 64} {
					all = append(all, doorUse{null: null, polls: polls, qps: qps, burst: burst, payload: 64})
				}
			}
		}
	}
	return all
}

// doorRows measures what posting (post and free) and polling (poll, and free, which gives new buffers) cost on a null
// verbs device and on the embedded subnet's rings. There are no gates: what a device costs is not in it.
func doorRows(cfg *Config) (rows []Row, err error) {
	s, err := newDoorSet()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	uses := doorUses()
	call, far, bells := make([]readings, len(uses)), make([]readings, len(uses)), make([]readings, len(uses))
	for range cfg.Repetitions {
		for i, u := range uses {
			cfg.progress("%v", u)
			r, err := s.readDoor(cfg, u)
			if err != nil {
				return nil, err
			}
			call[i], far[i], bells[i] = append(call[i], r.call), append(far[i], r.far), append(bells[i], r.bells)
		}
	}
	for i, u := range uses {
		rows = append(rows, u.row(call[i], far[i], bells[i].median()))
	}
	return rows, nil
}

// row tells one use; of a verbs device also how often it was told of work in a burst.
func (u doorUse) row(call, far readings, bells float64) Row {
	r := ratio(u.String(), u.far(), call, far)
	if u.null {
		r.What += fmt.Sprintf(", %.2g bells", bells)
	}
	r.Payload, r.Doorbells, r.section = u.payload, bells, doors
	return r
}
