// SPDX-License-Identifier: Apache-2.0

package link

import "time"

const (
	trainingInterval = 250 * time.Millisecond
	trainingTimeout  = 4 * time.Second
)

// training is the state of a cable's end, as in guest/shca/cable.c. One goroutine owns it.
type training struct {
	present     bool // this end is plugged in
	epoch       uint8
	up          bool
	peerPresent bool
	peerEpoch   uint8
	seen        time.Time // when the other end was last heard

	changed func(up bool)
}

// settle brings the link up or down as the two ends are.
func (t *training) settle(now time.Time) {
	up := t.present && t.peerPresent && now.Sub(t.seen) < trainingTimeout
	if up != t.up {
		t.up = up
		t.changed(up)
	}
}

// heard takes the other end's training frame. It reports whether to answer at once: never between two ends of which one
// is not there, which would go on forever.
func (t *training) heard(now time.Time, present bool, epoch uint8) bool {
	t.seen = now
	if t.up && epoch != t.peerEpoch {
		t.bounce()
	}
	news := present != t.peerPresent
	t.peerEpoch, t.peerPresent = epoch, present
	answer := news || !t.up && t.present && present
	t.settle(now)
	return answer
}

// retrain takes the link down and up; the other end follows when it hears of the new epoch.
func (t *training) retrain() {
	t.epoch++
	if t.up {
		t.bounce()
	}
}

func (t *training) bounce() {
	t.changed(false)
	t.changed(true)
}
