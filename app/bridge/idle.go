// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"fmt"

	"causeway/config"
	"causeway/dpdk"
	"causeway/lcore"
)

// idleModes are what workers can do.
var idleModes = map[config.Idle]lcore.Idle{
	config.IdlePoll: lcore.IdlePoll, config.IdleSleep: lcore.IdleSleep, config.IdleInterrupt: lcore.IdleInterrupt,
}

// idleOf returns what idle workers do, as far as it is known before the ports are open. On isolated CPUs nobody else
// needs the time.
func idleOf(w *config.Workers) config.Idle {
	if w.Idle == config.IdleAuto && dpdk.Isolated(w.LCores) {
		return config.IdlePoll
	}
	return w.Idle
}

// wantsWakes reports whether the ports are to wake workers.
func wantsWakes(i config.Idle) bool { return i == config.IdleAuto || i == config.IdleInterrupt }

// chooseIdle decides what idle workers do: with the ports open, it is known whether they wake anybody.
func (b *Bridge) chooseIdle() error {
	b.idle = idleOf(&b.cfg.Workers)
	note := ""
	if wantsWakes(b.idle) {
		err := b.canWake()
		switch {
		case err == nil:
			b.idle = config.IdleInterrupt
		case b.idle == config.IdleInterrupt:
			return fmt.Errorf("bridge: [workers] idle \"interrupt\": %w; use \"sleep\", \"poll\" or \"auto\"", err)
		default:
			b.idle, note = config.IdleSleep, fmt.Sprintf("not interrupt: %v", err)
		}
	}
	b.log.Info("idle_workers", "idle", string(b.idle), "note", note)
	return nil
}

// canWake returns an error that names the port that cannot wake a worker.
func (b *Bridge) canWake() error {
	if !lcore.CanWake(b.ibPort.Pointer(0)) {
		return fmt.Errorf("the port %q has no completion channel, and wakes nobody when messages come", ibPortName(b.cfg.IB.Port))
	}
	for _, p := range b.ports.list() {
		for i := range b.cfg.Workers.LCores {
			if _, err := p.port.RxWake(i); err != nil {
				return err
			}
		}
	}
	return nil
}

// Idle returns what idle workers do.
func (b *Bridge) Idle() config.Idle { return b.idle }

// wake has the port wake these workers, one for each queue, when frames come. They must not poll it yet.
func (p *ethernetPort) wake(workers []*lcore.Worker) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wakes = workers
	return p.setWakes()
}

// wakeAll has workers that sleep poll once more.
func (p *ethernetPort) wakeAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, w := range p.wakes {
		w.Wake()
	}
}

// forgetWorkers is to be called before they, or the port, are gone.
func (p *ethernetPort) forgetWorkers() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wakes = nil
}

// setWakes is to be called with p.mu, while no worker polls the port, and again when the port was opened again.
func (p *ethernetPort) setWakes() error {
	for i, w := range p.wakes {
		r, err := p.port.RxWake(i)
		if err != nil {
			return err
		}
		if err := w.SetRxWake(int(p.index), r); err != nil {
			return err
		}
	}
	return nil
}
