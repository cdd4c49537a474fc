// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"causeway/lcore"
)

// RunFleet runs three bridges as one fleet, kills one of them, and reports whether nothing came twice, out of order or
// damaged, and each bridge accounts for every packet.
//
//	namespace host1: 10.9.0.1 ─┐              ┌─ namespace of m1 and v1 ─┐
//	namespace host2: 10.9.0.2 ─┼─ bridge br0 ─┼─ namespace of m2 and v2 ─┼─ software subnet ─ node: 10.9.0.8
//	namespace host3: 10.9.0.3 ─┘              └─ namespace of m3 and v3 ─┘
//
// The voters v1 to v3 have a network of their own.
func RunFleet(ctx context.Context, o Options) (ok bool, err error) {
	if os.Geteuid() != 0 {
		return false, errors.New("demo: must be root, to make network namespaces; use sudo")
	}
	b, err := newFleetbed()
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	v := newFleetView(o)
	r, err := b.show(ctx, v, o.Duration)
	if err != nil {
		return false, fmt.Errorf("demo: %w", err)
	}
	return r.OK, v.summary(r)
}

// show starts everything, has the traffic pass while the stages follow each other, and ends the bridges.
func (b *fleetbed) show(ctx context.Context, v *fleetView, d time.Duration) (*fleetResult, error) {
	if err := b.startAll(ctx, v); err != nil {
		return nil, err
	}
	if err := b.sendFirst(ctx); err != nil {
		return nil, err
	}
	sending, stop := context.WithCancel(context.WithoutCancel(ctx)) // Ctrl-C ends the stage, and then this
	defer stop()
	var sender sync.WaitGroup
	defer sender.Wait()
	defer stop()
	sender.Go(func() { sendSteadily(sending, b.flows, b.looks) })
	b.now = (<-b.looks).withoutUnderWay()
	r, began, before := &fleetResult{}, time.Now(), b.now
	v.heads(b.now)
	all := stages()
	for i := range all {
		done, err := b.stage(ctx, v, &all[i], d/time.Duration(len(all)))
		if err != nil {
			return nil, err
		}
		if ctx.Err() != nil {
			break // this stage is not over
		}
		r.Stages = append(r.Stages, done)
	}
	r.Seconds = time.Since(began).Seconds()
	stop()
	sender.Wait()
	b.awaitLast()
	r.take(look(b.flows).since(before), b.flows, b.endBridges())
	return r, nil
}

// startAll starts voters and bridges, and has hosts and groups ready.
func (b *fleetbed) startAll(ctx context.Context, v *fleetView) error {
	v.begin()
	if err := b.startVoters(ctx); err != nil {
		return err
	}
	for n := range b.bridges {
		if err := b.startBridge(n); err != nil {
			return err
		}
	}
	if err := b.await(ctx, "the bridges do not share the work", b.bridges[:], func() bool { return b.shared(0, 1, 2) }); err != nil {
		return err
	}
	if err := b.placeHosts(ctx); err != nil {
		return err
	}
	v.divided(b.shardsNow())
	return b.makeFlows()
}

// sendFirst sends a message of each flow, and waits for it, before others follow that could overtake it: neighbours are to
// be found, and proxy QPs to be made.
func (b *fleetbed) sendFirst(ctx context.Context) error {
	const again = time.Second
	first := make([]uint64, len(b.flows))
	for i := range first {
		first[i] = 1
	}
	tick := time.NewTicker(fleetPause)
	defer tick.Stop()
	late, next := time.After(fleetPatience), time.After(0)
	for !allCame(b.flows, first) {
		select {
		case <-tick.C:
		case <-next:
			for _, f := range b.flows {
				if f.newest() == 0 {
					f.sendNext()
				}
			}
			next = time.After(again)
		case <-ctx.Done():
			return errors.New("stopped before messages came")
		case <-late:
			return fmt.Errorf("some messages do not come within %v", fleetPatience)
		}
	}
	return nil
}

// A stage is what happens to the fleet while messages pass.
type stage struct {
	name  string // for the summary
	says  string // what happens, for people
	until string // what messages are lost until
	do    func(ctx context.Context, b *fleetbed) error
	among []int // the bridges that have all shards then
}

// stages returns what happens, in this order. Who is killed is not who is drained.
func stages() []stage {
	const killed, drained, others = 1, 2, ", until the others carried on"
	everybody := []int{0, 1, 2}
	ask := func(word string) func(context.Context, *fleetbed) error {
		return func(ctx context.Context, b *fleetbed) error {
			_, err := b.ask(context.WithoutCancel(ctx), drained, "fleet", word)
			return err
		}
	}
	return []stage{
		{"no fault", "", "", func(context.Context, *fleetbed) error { return nil }, everybody},
		{"m2 is killed", "m2 is killed (SIGKILL).", others, func(_ context.Context, b *fleetbed) error {
			b.bridges[killed].end(syscall.SIGKILL)
			return nil
		}, []int{0, 2}},
		{"m2 is back", "m2 is started again, and takes its part back.", "", func(_ context.Context, b *fleetbed) error { return b.startBridge(killed) }, everybody},
		{"m3 is drained", "m3 is drained (causeway ctl fleet drain).", others, ask("drain"), []int{0, 1}},
		{"m3 resumes", "m3 resumes (causeway ctl fleet resume).", "", ask("resume"), everybody},
	}
}

// stage has something happen, and shows the messages for at least a time, until those have all shards who are to have
// them, and messages of all flows come again. Ctrl-C ends it earlier.
func (b *fleetbed) stage(ctx context.Context, v *fleetView, s *stage, least time.Duration) (stageResult, error) {
	began, before := time.Now(), b.now
	for _, f := range b.flows {
		f.takeOutage()
	}
	v.happens(s.says)
	if err := s.do(ctx, b); err != nil {
		return stageResult{}, err
	}
	var after []uint64 // what was sent last when they had the shards; nil: they have not
	for time.Since(began) < least || after == nil || !allCame(b.flows, after) {
		select {
		case b.now = <-b.looks:
			v.look(b.now)
		case <-ctx.Done():
			return stageResult{}, nil
		}
		if err := haveEnded(b.those(s.among)); err != nil {
			return stageResult{}, err
		}
		if after == nil && b.shared(s.among...) {
			after = numbers(b.flows)
		}
		if time.Since(began) > least+fleetPatience {
			return stageResult{}, fmt.Errorf("%s: the others do not carry on within %v", s.name, fleetPatience)
		}
	}
	return b.after(v, s, before), nil
}

// those returns some of the bridges.
func (b *fleetbed) those(numbers []int) (all []*process) {
	for _, n := range numbers {
		all = append(all, b.bridges[n])
	}
	return all
}

// after says what became of the messages of a stage.
func (b *fleetbed) after(v *fleetView, s *stage, before counts) stageResult {
	c := b.now.since(before)
	r := stageResult{Name: s.name, LostToIB: c.lost[lcore.RoCEToIB], LostToRoCE: c.lost[lcore.IBToRoCE], Shards: b.shardsNow()}
	for _, f := range b.flows {
		r.Outage = max(r.Outage, f.takeOutage().Seconds())
	}
	v.result(&r, s.until)
	return r
}

// awaitLast waits for messages under way.
func (b *fleetbed) awaitLast() {
	all := numbers(b.flows)
	sum := func() (n uint64) {
		for _, f := range b.flows {
			n += f.arrived.Load()
		}
		return n
	}
	for p := newPatience(sum()); !allCame(b.flows, all) && !p.isOver(sum(), time.Now()); {
		time.Sleep(pollPause)
	}
	settle(b.flows)
	settle(b.flows) // nothing is under way any more
}

// endBridges ends the bridges that run, and reports whether each accounts for every packet.
func (b *fleetbed) endBridges() (conserved bool) {
	conserved = true
	for _, p := range b.bridges {
		if p.hasEnded() {
			continue // it was killed, and Ctrl-C came before it was started again
		}
		p.end(syscall.SIGTERM)
		conserved = conserved && p.says().conserved
	}
	return conserved
}
