// SPDX-License-Identifier: Apache-2.0

package ipoib

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"causeway/ibside/ib"
)

// ResponderConfig says for whom a Responder answers.
type ResponderConfig struct {
	Port func() []ib.GID // all GIDs of the port at the moment
	// Here returns those addresses of RoCE hosts by which nodes of a partition reach these over this bridge now. It may take
	// as long as its context allows.
	Here func(ctx context.Context, pkey ib.PKey, ips []netip.Addr) []netip.Addr
	// Searched returns the IPv6 addresses of all RoCE hosts that nodes of a partition may look for, whichever bridge has them.
	// It may take as long as its context allows.
	Searched func(ctx context.Context, pkey ib.PKey) ([]netip.Addr, error)
	// Ask finds out where a host is that may not be known. It does not wait.
	Ask func(pkey ib.PKey, ip netip.Addr)
	Log *slog.Logger
}

// A Responder answers ARP and neighbour solicitations on all IPoIB interfaces of a port, for the RoCE hosts that nodes reach
// by this bridge. It takes the place of the kernel's proxy ARP and ND, which do not know which of several bridges a host
// belongs to, and go on when a bridge is stopped or has died.
//
//	a node's question ─▶ Here ─▶ answer, or Ask
//	Moved, each second ─▶ Here, of all that nodes have asked for ─▶ announcements of what has come
//
// Nodes take an announcement (RFC 5227 §3, RFC 4861 §7.2.5) for what they know already, so one of an address that nobody
// asked for would be in vain. Solicitations go to groups, of which a Responder is in those of Searched: nodes find a host by
// IPv6 when the bridges know it.
type Responder struct {
	cfg      ResponderConfig
	gidOf    func(net.HardwareAddr) (ib.GID, bool)
	stop     context.CancelFunc
	ended    sync.WaitGroup
	stations map[int]*station  // by the index of the interface; run's
	said     map[int]string    // why there is none; run's
	asked    map[int]addresses // what nodes have asked for at stations that are closed; run's

	mu    sync.Mutex
	moved []chan<- struct{} // of the stations

	answered, announced atomic.Uint64
}

// Respond begins to answer, until Close.
func Respond(c ResponderConfig) *Responder { return respond(c, gidOf) }

func respond(c ResponderConfig, gidOf func(net.HardwareAddr) (ib.GID, bool)) *Responder {
	ctx, stop := context.WithCancel(context.Background())
	r := &Responder{cfg: c, gidOf: gidOf, stop: stop, stations: map[int]*station{}, said: map[int]string{}, asked: map[int]addresses{}}
	r.ended.Go(func() { r.run(ctx) })
	return r
}

// Close ends it.
func (r *Responder) Close() error {
	r.stop()
	r.ended.Wait()
	return nil
}

// Moved says that what Here reports may have changed. It does not wait.
func (r *Responder) Moved() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range r.moved {
		select {
		case m <- struct{}{}:
		default:
		}
	}
}

// Answered and Announced return how many requests were answered, and how many announcements were sent.
func (r *Responder) Answered() uint64  { return r.answered.Load() }
func (r *Responder) Announced() uint64 { return r.announced.Load() }

// run has a station on each interface while that is up.
func (r *Responder) run(ctx context.Context) {
	for {
		r.look(ctx)
		select {
		case <-time.After(lookEvery):
		case <-ctx.Done():
			for _, s := range r.stations {
				s.close()
			}
			return
		}
	}
}

// look has a station on each interface of the port that is up, as it is now.
func (r *Responder) look(ctx context.Context) {
	all, err := net.Interfaces()
	if err != nil {
		return
	}
	port := r.cfg.Port()
	all = slices.DeleteFunc(all, func(i net.Interface) bool {
		gid, ok := r.gidOf(i.HardwareAddr)
		return !ok || !slices.Contains(port, gid) || i.Flags&net.FlagUp == 0
	})
	for index, s := range r.stations {
		if !slices.ContainsFunc(all, s.serves) {
			s.close()
			delete(r.stations, index)
			r.asked[index] = s.asked
		}
	}
	for _, i := range all {
		if r.stations[i.Index] == nil {
			r.begin(ctx, i)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.moved = r.moved[:0]
	for _, s := range r.stations {
		r.moved = append(r.moved, s.moved)
	}
}

// begin makes a station. Of one that cannot be made it says why once.
func (r *Responder) begin(ctx context.Context, i net.Interface) {
	s, err := newStation(r, i)
	if err != nil {
		if r.said[i.Index] != err.Error() {
			r.cfg.Log.Warn("ipoib_unanswered", "interface", i.Name, "error", err, "note", "nodes do not find RoCE hosts by this bridge there")
		}
		r.said[i.Index] = err.Error()
		return
	}
	delete(r.said, i.Index)
	r.cfg.Log.Info("ipoib_answers", "interface", i.Name, "pkey", s.pkey)
	if settings := kernelAnswers(i.Name); len(settings) > 0 {
		r.cfg.Log.Warn("ipoib_kernel_answers", "interface", i.Name, "note", "the kernel answers for RoCE hosts, whichever bridge has them: "+
			"sysctl -w "+strings.Join(settings, " "))
	}
	r.stations[i.Index] = s
	s.begin(r.asked[i.Index])
	delete(r.asked, i.Index)
	s.ended.Go(func() { s.run(ctx) })
}

// kernelAnswers returns the settings by which the kernel does proxy ARP or ND on an interface, as they should be.
func kernelAnswers(name string) (settings []string) {
	for _, by := range []string{"net/ipv4/conf/%s/proxy_arp", "net/ipv6/conf/%s/proxy_ndp"} {
		for _, at := range []string{"all", name} {
			at = fmt.Sprintf(by, at)
			if b, err := os.ReadFile("/proc/sys/" + at); err == nil && strings.TrimSpace(string(b)) != "0" {
				settings = append(settings, at+"=0")
			}
		}
	}
	return settings
}
