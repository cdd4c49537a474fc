// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"errors"
	"fmt"
)

// portQPs is how many queue pairs the null verbs device has.
const portQPs = 64

const portPayload = 64 // bytes

// A portUse is one way to use the verbs port.
type portUse struct {
	polls bool
	qps   int // queue pairs in turn
	burst int // messages in a call
}

func (u portUse) String() string {
	call, qps := "post", "1 QP"
	if u.polls {
		call = "poll"
	}
	if u.qps > 1 {
		qps = fmt.Sprintf("%d QPs", u.qps)
	}
	return fmt.Sprintf("%s, null verbs, %s, burst %d", call, qps, u.burst)
}

// A portReading is the cost of one message in nanoseconds: of the port's calls, and of the device's work.
type portReading struct {
	call, device float64
	doorbells    float64 // a burst
}

// portUses are the rows, in order.
func portUses() []portUse {
	var all []portUse
	for _, polls := range []bool{false, true} {
		for _, qps := range []int{1, portQPs} {
			for _, burst := range []int{1, 8, 64} {
				all = append(all, portUse{polls, qps, burst})
			}
		}
	}
	return all
}

// portRows measures what posting (post and free) and polling (poll, and free, which posts new buffers) cost with a null
// verbs device. There are no gates: the cost of a real device is not in it.
func portRows(cfg *Config) (rows []Row, err error) {
	p, err := newVerbsPort()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.close()) }()
	uses := portUses()
	call, device, doorbells := make([]readings, len(uses)), make([]readings, len(uses)), make([]readings, len(uses))
	for range cfg.Repetitions {
		for i, u := range uses {
			cfg.progress("%v", u)
			r, err := p.read(cfg, u)
			if err != nil {
				return nil, err
			}
			call[i], device[i], doorbells[i] = append(call[i], r.call), append(device[i], r.device), append(doorbells[i], r.doorbells)
		}
	}
	for i, u := range uses {
		bells := doorbells[i].median()
		r := ratio(fmt.Sprintf("%v, %.2g doorbells", u, bells), "the device's work", call[i], device[i])
		r.Payload, r.Doorbells, r.section = portPayload, bells, ports
		rows = append(rows, r)
	}
	return rows, nil
}
