// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"errors"
	"fmt"
	"slices"
)

const (
	portPayload  = 64   // bytes
	portReceives = 8192 // buffers, as a bridge posts
	fullBurst    = 64
)

// Gates of the port, direct over libmlx5, by queue pairs: with these, the library's loads and stores dominate.
var (
	postLimits = map[int]float64{256: 0.45, 1 << 10: 0.45}
	pollLimits = map[int]float64{256: 0.30, 1 << 10: 0.30}
)

// A portUse is one way to use the verbs port.
type portUse struct {
	polls bool
	qps   int // queue pairs, in random order
	burst int // messages in a call
}

func (u portUse) String() string {
	call := "post and free"
	if u.polls {
		call = "poll and free"
	}
	if u.burst == fullBurst {
		return call
	}
	return fmt.Sprintf("%s, bursts of %d", call, u.burst)
}

// limit is the use's gate; nil: it has none.
func (u portUse) limit() *Limit {
	limits := postLimits
	if u.polls {
		limits = pollLimits
	}
	if v := limits[u.qps]; v > 0 && u.burst == fullBurst {
		return limit(v)
	}
	return nil
}

// A portReading is the cost of one message in nanoseconds: of the port's calls, and of the HCA's own work.
type portReading struct {
	call, device float64
	bells        float64 // a message
}

// portUses are the rows, in order.
func portUses() []portUse {
	var all []portUse
	for _, polls := range []bool{false, true} {
		for _, burst := range []int{1, 8} {
			all = append(all, portUse{polls, 1, burst}, portUse{polls, 256, burst})
		}
		for _, qps := range []int{1, 64, 256, 1 << 10} {
			all = append(all, portUse{polls, qps, fullBurst})
		}
	}
	return all
}

// portRows compares what posting (post and free) and polling (poll, and free, which posts new buffers) cost directly and
// by libmlx5.
func portRows(cfg *Config) (rows []Row, err error) {
	uses := portUses()
	for _, qps := range []int{1, 64, 256, 1 << 10} {
		more, err := portRowsAt(cfg, qps, uses)
		if err != nil {
			return nil, err
		}
		rows = append(rows, more...)
	}
	return rows, nil
}

// portRowsAt measures the uses with that many queue pairs.
func portRowsAt(cfg *Config, qps int, uses []portUse) (rows []Row, err error) {
	var ports []*verbsPort
	defer func() {
		for _, p := range ports {
			err = errors.Join(err, p.close())
		}
	}()
	for _, way := range []string{direct, libmlx5} {
		p, err := newVerbsPort(qps, way)
		if err != nil {
			return nil, err
		}
		ports = append(ports, p)
	}
	for _, u := range slices.DeleteFunc(slices.Clone(uses), func(u portUse) bool { return u.qps != qps }) {
		cfg.progress("%v, %d queue pairs", u, qps)
		row, err := portRow(cfg, ports, u)
		if err != nil {
			return nil, err
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// portRow compares one use of a port that is direct with that of one by libmlx5.
func portRow(cfg *Config, both []*verbsPort, u portUse) (Row, error) {
	ns, err := cfg.calmest([]int{1}, func() ([]float64, error) {
		mine, err := both[0].read(cfg, u)
		if err != nil {
			return nil, err
		}
		theirs, err := both[1].read(cfg, u)
		return []float64{mine.call, theirs.call, mine.device, mine.bells}, err
	})
	if err != nil {
		return Row{}, err
	}
	r := ratio(u.String()+", "+direct, libmlx5, ns[0], ns[1])
	r.Payload, r.Entries, r.Doorbells, r.DeviceNS, r.Limit, r.section = portPayload, u.qps, ns[3].median(), ns[2].median(), u.limit(), ports
	return r, nil
}
