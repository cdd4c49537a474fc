// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"causeway/config"
	"causeway/dpdk"
	"causeway/ibside/fabric"
	"causeway/ibside/ib"
	"causeway/ibside/stamp"
	"causeway/lcore"
	"causeway/lcore/frame"
	"causeway/lcore/frame/roce"
	"causeway/lcore/manage"
)

func init() { tasks["ports-reload"] = taskPortsReload }

// portsWith is the configuration of the segment of one of two ports alone, or of both, in this order: "ring", "ring:b".
func portsWith(names ...string) (*config.Config, error) {
	pkeys := map[string]string{"ring": "0x8001", "ring:b": "0x8002"}
	tables := strings.Split(strings.Replace(segmentsFile, "\nvlan = 200", "", 1), "\n[")
	var text []string
	for _, name := range append([]string{""}, names...) {
		for i, t := range tables {
			if i > 0 {
				t = "[" + t
			}
			_, of, bound := strings.Cut(t, "pkey = ")
			if bound != (name != "") || bound && !strings.HasPrefix(of, pkeys[name]) {
				continue
			}
			if name == "ring:b" { // no file can name two rings
				t = strings.Replace(t, `port = "ring"`, `port = "null"`, 1)
			}
			text = append(text, t)
		}
	}
	cfg, err := config.Parse("bridge", []byte(strings.Join(text, "\n")))
	if err != nil {
		return nil, err
	}
	for _, r := range append([]*config.RoCE{&cfg.RoCE}, more(cfg)...) {
		if r.Port.Driver == "null" {
			r.Port = secondRing
		}
	}
	return cfg, nil
}

func more(cfg *config.Config) (all []*config.RoCE) {
	for i := range cfg.More {
		all = append(all, &cfg.More[i])
	}
	return all
}

// portStreams sends numbered messages by ports to the nodes of their partitions, and takes the answers.
type portStreams struct {
	*Bridge
	log  *portLog
	sent map[string]int
	came map[string]int
	told map[string]int // management's frames: announcements and reports
}

// ring returns the rings of a port, and its address; nil: it is not open.
func (s *portStreams) ring(name string) (*dpdk.RingPort, frame.MAC) {
	for _, p := range s.ports.list() {
		if p.name.String() == name {
			return p.port.RingPort(), p.mac()
		}
	}
	return nil, frame.MAC{}
}

// put sends n messages by a port.
func (s *portStreams) put(name string, n int) error {
	ring, mac := s.ring(name)
	if ring == nil {
		return fmt.Errorf("the port %s is not open", name)
	}
	node := map[string]int{"ring": 0, "ring:b": 1}[name]
	to, _ := nodesOf(node)
	for range n {
		s.sent[name]++
		p := message(s.Bridge, to, 0x77, s.sent[name])
		p.Dst = mac
		m, err := s.pool.Alloc(p.AppendTo(nil))
		if err != nil {
			return err
		}
		for deadline := time.Now().Add(time.Minute); ring.ToPort(0).Enqueue([]dpdk.Mbuf{m}) != 1; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				m.Free()
				return errors.New("the worker takes nothing")
			}
		}
	}
	return nil
}

// take takes answers until all of a port's have come, in order.
func (s *portStreams) take(name string) error {
	ring, mac := s.ring(name)
	var m [1]dpdk.Mbuf
	for deadline := time.Now().Add(time.Minute); s.came[name] < s.sent[name]; {
		if ring.FromPort(0).Dequeue(m[:]) == 0 {
			if time.Now().After(deadline) {
				return fmt.Errorf("%s: %d of %d answers came: %+v", name, s.came[name], s.sent[name], s.EthernetPorts())
			}
			time.Sleep(50 * time.Microsecond)
			continue
		}
		f, fault := frame.Open(m[0].Bytes())
		if fault == "" && f.IPv4 != nil && f.Protocol() == frame.ProtoUDP {
			a, err := roce.Parse(m[0].Bytes())
			number, verdict := stamp.Read(a.Payload)
			if s.came[name]++; err != nil || verdict != stamp.Whole || number.Number != uint64(s.came[name]) || a.Src != mac || a.DestQP != 0x55 {
				m[0].Free()
				return fmt.Errorf("%s: answer %d is message %d, %+v, %w", name, s.came[name], number.Number, a, err)
			}
		}
		if fault == "" && (f.Type == frame.TypeARP || f.IPv4 != nil && f.Protocol() == frame.ProtoIGMP) {
			s.told[name]++
		}
		m[0].Free()
	}
	return nil
}

// cross sends by a port and takes the answers.
func (s *portStreams) cross(name string, n int) error {
	return errors.Join(s.put(name, n), s.take(name))
}

// begins sends the first messages by a port: one, which waits for its proxy QP, and many. Management has reported the port's
// group there.
func (s *portStreams) begins(name string) error {
	s.told[name] = 0
	if err := errors.Join(s.cross(name, 1), s.cross(name, 100)); err != nil {
		return err
	}
	if s.told[name] == 0 {
		return fmt.Errorf("%s: nothing is announced", name)
	}
	return nil
}

// change reloads while messages cross by a port that stays, both ways: none is lost, and all are in order.
func (s *portStreams) change(to *config.Config, stays string) error {
	changed := make(chan error, 1)
	go func() { _, err := s.Reload(context.Background(), to); changed <- err }()
	for done := false; !done; {
		select {
		case err := <-changed:
			if err != nil {
				return err
			}
			done = true
		default:
		}
		if err := s.cross(stays, 20); err != nil {
			return err
		}
	}
	return s.readyAgain(func() error { return s.cross(stays, 20) })
}

// gone checks that nothing is left of a port, and that its counters were reported whole; the other's count on.
func (s *portStreams) gone(name, stays string) error {
	list, err1 := s.ListHosts(context.Background(), manage.Query{})
	qps, err2 := s.ListProxyQPs(context.Background(), manage.Query{})
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	all, is := s.EthernetPorts(), s.Status().Segments
	if len(all) != 1 || all[0].Name != stays || len(is) != 1 || len(list.Entries) != 1 || len(qps.Entries) != 1 || list.Entries[0].Segment != is[0].Number {
		return fmt.Errorf("left are %+v, %+v, hosts %+v, proxy QPs %+v", all, is, list.Entries, qps.Entries)
	}
	line := s.log.last("ethernet_port_closed")
	want := fmt.Sprintf("port=%s received=%d to_ib=%[2]d dropped=0 from_ib=%[3]d sent=%[3]d not_taken=0", name, s.sent[name], s.came[name])
	if !strings.Contains(line, want) {
		return fmt.Errorf("reported %q, want %q", line, want)
	}
	s.sent[name], s.came[name] = 0, 0
	return nil
}

// counted checks that all of each port is counted there: what was received was sent, and nothing dropped.
func (s *portStreams) counted() error {
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		good, all := true, s.EthernetPorts()
		for _, p := range all {
			in, out := p.Counters[lcore.RoCEToIB], p.Counters[lcore.IBToRoCE]
			good = good && in.Sent == uint64(s.sent[p.Name]) && in.Received == in.Sent && out.Sent == uint64(s.came[p.Name]) && out.Received == out.Sent
		}
		if good {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("sent %v, came %v, counted %+v", s.sent, s.came, all)
		}
	}
}

// portLog is the bridge's log.
type portLog struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *portLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

// last returns the last line of an event.
func (l *portLog) last(event string) (last string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.text.String()) {
		if strings.Contains(line, "msg="+event+" ") {
			last = line
		}
	}
	return last
}

// portsReload is what taskPortsReload needs.
type portsReload struct {
	*portStreams
	only map[string]*config.Config
	both *config.Config
}

// taskPortsReload starts with one port, and adds and removes each of two, while numbered messages cross by the other.
func taskPortsReload() (string, error) {
	f, err := fabric.New(fabric.Config{PKeys: []ib.PKey{ib.PKeyDefault, segmentPKey1, segmentPKey}})
	if err != nil {
		return "", err
	}
	first, err1 := echoIn(f, 7, segmentPKey1)
	second, err2 := echoIn(f, 8, segmentPKey)
	spy, err3 := f.Attach(fabric.PortConfig{Name: "spy", GUID: 9, PKeys: []ib.PKey{segmentPKey1, segmentPKey}})
	both, err4 := portsWith("ring", "ring:b")
	only1, err5 := portsWith("ring")
	only2, err6 := portsWith("ring:b")
	if err := errors.Join(err1, err2, err3, err4, err5, err6); err != nil {
		return "", err
	}
	log := &portLog{}
	h, err := Build(only1, Options{Log: slog.New(slog.NewTextHandler(log, nil)), NoHuge: true, Subnet: f})
	if err != nil {
		return "", err
	}
	s := portsReload{&portStreams{h, log, map[string]int{}, map[string]int{}, map[string]int{}}, map[string]*config.Config{"ring": only1, "ring:b": only2}, both}
	err = running(h, s.all)
	return fmt.Sprintf("%v messages", s.sent), errors.Join(err, first.Close(), second.Close(), spy.Close(), f.Close())
}

func (s *portsReload) all() error {
	if err := s.begins("ring"); err != nil {
		return err
	}
	goes, stays := "ring:b", "ring"
	for range 6 {
		if err := errors.Join(s.change(s.both, stays), s.begins(goes), s.cross(stays, 100), s.counted()); err != nil {
			return fmt.Errorf("with %s: %w", goes, err)
		}
		goes, stays = stays, goes
		if err := errors.Join(s.change(s.only[stays], stays), s.gone(goes, stays), s.cross(stays, 100), s.counted()); err != nil {
			return fmt.Errorf("without %s: %w", goes, err)
		}
	}
	return errors.Join(s.replaced(stays, goes), s.fails(goes))
}

// replaced puts one port into the place of the only other.
func (s *portsReload) replaced(was, is string) error {
	if _, err := s.Reload(context.Background(), s.only[is]); err != nil {
		return err
	}
	return errors.Join(s.gone0(was, is), s.readyAgain(pause), s.begins(is), s.counted())
}

// gone0 is gone, but the other port has carried nothing yet.
func (s *portsReload) gone0(was, is string) error {
	all := s.EthernetPorts()
	if line := s.log.last("ethernet_port_closed"); len(all) != 1 || all[0].Name != is || !strings.Contains(line, "port="+was+" ") {
		return fmt.Errorf("there are %+v, and %q is reported", all, line)
	}
	s.sent[was], s.came[was], s.sent[is], s.came[is] = 0, 0, 0, 0
	return nil
}

// fails names ports that cannot be opened beside one that can: nothing is changed, and one line says why.
func (s *portsReload) fails(is string) error {
	was := s.Config()
	for _, c := range []struct {
		port config.EthPort
		mtu  int
		why  string
	}{
		{config.EthPort{Driver: "af_packet", Arg: "absent0"}, 1500, "absent0"},
		{config.EthPort{Driver: "null"}, 9000, "mtu 9000 takes packets of"},
		{config.EthPort{Driver: "mlx5", Arg: "0000:3b:00.0"}, 1500, "port mlx5:0000:3b:00.0 is new, and DPDK takes PCI devices only when it starts: restart the bridge"},
	} {
		to := *s.both
		to.More = append([]config.RoCE(nil), s.both.More...)
		bad := to.More[0]
		bad.Port, bad.PKey, bad.MTU = c.port, 0x8005, c.mtu
		to.More = append(to.More, bad)
		_, err := s.Reload(context.Background(), &to)
		if err == nil || !strings.Contains(err.Error(), c.why) || strings.Contains(err.Error(), "\n") || s.Config() != was {
			return fmt.Errorf("port %v: %w, want %q in one line", c.port, err, c.why)
		}
		if all := s.EthernetPorts(); len(all) != 1 || all[0].Name != is {
			return fmt.Errorf("port %v has left %+v", c.port, all)
		}
	}
	return errors.Join(s.cross(is, 100), s.counted())
}

// TestEthernetPortsReload has two ring ports, of which one or both are there.
func TestEthernetPortsReload(t *testing.T) {
	t.Parallel()
	logTask(t, "ports-reload")
}
