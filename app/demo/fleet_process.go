// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os/exec"
	"sync"
	"syscall"

	"github.com/vishvananda/netns"

	"causeway/app/segment"
)

// A process is a bridge or a voter of -fleet, in a process of its own, because it is to be killed.
type process struct {
	name  string
	cmd   *exec.Cmd
	ended chan struct{}
	news  chan<- struct{} // is told of each line, and of the end

	mu    sync.Mutex
	begun []byte // of a line
	said
}

// said is what is read of a process's log.
type said struct {
	serves    bool // the voter
	hosts     int  // shards that the bridge forwards
	groups    int
	conserved bool   // it stopped, and has accounted for every packet
	last      string // line
}

// start starts a process in a namespace. It ends with this one, however that ends, but not by Ctrl-C: its
// work is needed until the summary.
func start(ns netns.NsHandle, news chan<- struct{}, name string, words ...string) (*process, error) {
	p := &process{name: name, cmd: exec.Command(words[0], words[1:]...), ended: make(chan struct{}), news: news}
	p.cmd.Stderr = p
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := segment.In(ns, p.cmd.Start); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		_ = p.cmd.Wait() // whoever awaited something else looks at its last line
		close(p.ended)
		p.tell()
	}()
	return p, nil
}

func (p *process) tell() {
	select {
	case p.news <- struct{}{}:
	default: // there is news already
	}
}

// Write takes what the process logs.
func (p *process) Write(b []byte) (int, error) {
	p.mu.Lock()
	p.begun = append(p.begun, b...)
	for {
		line, rest, whole := bytes.Cut(p.begun, []byte("\n"))
		if !whole {
			break
		}
		p.read(line)
		p.begun = rest
	}
	p.mu.Unlock()
	p.tell()
	return len(b), nil
}

// read reads a line. The caller holds the lock.
func (s *said) read(line []byte) {
	var x struct {
		Msg         string
		HostShards  int `json:"host_shards"`
		GroupShards int `json:"group_shards"`
		Conserved   bool
	}
	s.last = string(line)
	if bytes.Contains(line, []byte("ready to serve client requests")) { // etcd, as JSON since 3.5
		s.serves = true
	}
	if json.Unmarshal(line, &x) != nil {
		return // it is no event
	}
	switch x.Msg {
	case "fleet_shards":
		s.hosts, s.groups = x.HostShards, x.GroupShards
	case "stopped":
		s.conserved = x.Conserved
	}
}

// says returns what the process has said. Who has ended has no shards.
func (p *process) says() said {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.said
	if p.hasEnded() {
		s.hosts, s.groups = 0, 0
	}
	return s
}

func (p *process) hasEnded() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// end sends a signal that ends the process, and waits for that.
func (p *process) end(s syscall.Signal) {
	_ = p.cmd.Process.Signal(s) // an error means that it has ended
	<-p.ended
}

// kill is for the clean-up.
func (p *process) kill() error {
	p.end(syscall.SIGKILL)
	return nil
}
