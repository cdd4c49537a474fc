// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"
)

// Faults that come from inside of the bridge, and from its subnet's administrator.

// ask has the bridge's program fail (testdata/failing_unsafe.go), and returns when that is over.
func (r *rig) ask(command string) error {
	c, err := net.Dial("unix", r.bridge.file("faults.sock"))
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(within)); err != nil {
		return err
	}
	if _, err := fmt.Fprintln(c, command); err != nil {
		return err
	}
	said, err := bufio.NewReader(c).ReadString('\n')
	if err == nil && strings.HasPrefix(said, "error") {
		err = fmt.Errorf("%s: %s", command, said)
	}
	if err == nil {
		r.note("%s: %s", command, strings.TrimSpace(said))
	}
	return err
}

// fromNodes says whether a flow's messages come from InfiniBand, back if not at first. What goes there alone waits at
// the port meanwhile, in queues that hold all flows' windows.
func fromNodes(f *flow) bool { return f.toHosts || !f.group.IsValid() }

// poolEmpty leaves nobody an mbuf: messages that come from nodes have no buffer.
func poolEmpty(r *rig) fault {
	d := r.between(50*time.Millisecond, time.Second)
	return fault{"the mempool is empty for " + d.String(), "process", fromNodes, false, func() error { return r.ask("empty " + d.String()) }}
}

// smSilent and smSlow cost no message: paths and memberships stay in use.
func smSilent(r *rig) fault {
	d := r.between(100*time.Millisecond, 5*time.Second)
	return fault{"the subnet manager is silent for " + d.String(), "sm", nil, false, func() error { return r.ask("silent " + d.String()) }}
}

func smSlow(r *rig) fault {
	by, d := r.between(100*time.Millisecond, 2*time.Second), r.between(time.Second, 5*time.Second)
	return fault{fmt.Sprintf("the subnet manager takes %v for everything for %v", by, d), "sm", nil, false, func() error {
		return r.ask(fmt.Sprintf("slow %v %v", by, d))
	}}
}

// txStuck has the port take nothing to send: eth_full. What is for nodes crosses.
func txStuck(r *rig) fault {
	d := r.between(50*time.Millisecond, 2*time.Second)
	return fault{"the port takes nothing to send for " + d.String(), "port", fromNodes, false, func() error {
		const direction, drop = "ib_to_roce", "eth_full"
		before, _ := r.bridge.status(r.ctx) // it may be down
		err := r.ask("stuck " + d.String())
		after, _ := r.bridge.status(r.ctx)
		r.note("meanwhile the bridge dropped %d as %s", int64(after.Directions[direction].Drops[drop]-before.Directions[direction].Drops[drop]), drop)
		return err
	}}
}

// deviceLost has the InfiniBand port lose a completion queue, as verbs.TestEvents has it: the bridge says so in one
// line, ends with every packet counted, and is started anew as systemd would.
func deviceLost(r *rig) fault {
	return fault{"a completion queue is lost, and the bridge started anew", "process", everything, true, func() error {
		if _, err := r.bridge.ctl(r.ctx, "set", "log", "level", "info"); err != nil { // else it may not log its counters
			return err
		}
		if err := r.ask("lost"); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if err := await(r.ctx, "the bridge ends", func() bool { return !r.bridge.running() }); err != nil {
			return err
		}
		const retry, why = 75, "start Causeway again when it is back"
		log := r.bridge.readLog()
		code, last := r.bridge.cmd.ProcessState.ExitCode(), log[strings.LastIndexByte(strings.TrimSpace(log), '\n')+1:]
		if code != retry || !strings.Contains(last, why) || strings.Count(log, why) != 1 || strings.Count(log, "conserved=true") != 2 {
			return fmt.Errorf("the bridge ended with exit code %d; it logged:\n%s", code, lastLines(log))
		}
		return r.again()
	}}
}
