// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"causeway/dpdk"
	"causeway/ibside/ib"
	"causeway/lcore"
)

func init() { tasks["crowd"] = taskCrowd }

// crowded is the least number of proxy QPs that one process must hold; crowdUnderWay is how many messages are under way
// at once: less than a class of hosts has of a worker's ring to management.
const (
	crowded       = 100_000
	crowdHosts    = 1000
	crowdUnderWay = 512
)

// wide is the configuration with an IP subnet large enough for many hosts, and these lines in [workers].
func wide(workers string) string {
	text := strings.ReplaceAll(bridgeFile, "10.9.0.0/24", "10.9.0.0/16")
	text = strings.ReplaceAll(text, "10.9.0.254/24", "10.9.0.254/16")
	// A quarter of them may wait for management.
	text = strings.Replace(text, "memory_mib = 64\nmbufs = 2048", "memory_mib = 128\nmbufs = 8192", 1)
	return strings.Replace(text, "[workers]", "[workers]\n"+workers, 1)
}

// crowdIP is the i-th of up to 50 000 addresses, none of them one that the tests name.
func crowdIP(i int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, 9, byte(1 + i/250), byte(1 + i%250)})
}

// discard takes what has come for the hosts.
func (b *Bridge) discard() {
	var m [32]dpdk.Mbuf
	for n := b.ethernet[0].port.RingPort().FromPort(0).Dequeue(m[:]); n > 0; n = b.ethernet[0].port.RingPort().FromPort(0).Dequeue(m[:]) {
		for _, x := range m[:n] {
			x.Free()
		}
	}
}

// memory returns the Go heap after a collection, and the process's resident bytes.
func memory() (heap, resident int64) {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	var pages, rss int64
	b, err := os.ReadFile("/proc/self/statm")
	if err == nil {
		_, err = fmt.Sscan(string(b), &pages, &rss)
	}
	if err != nil {
		panic(err) // no Linux
	}
	return int64(m.HeapAlloc), rss * int64(os.Getpagesize())
}

// crowd has n queue pairs send a message each, and waits until all have crossed or been dropped.
func (b *Bridge) crowd(n int) error {
	settled := func() int {
		c := b.Counters().Direction[lcore.RoCEToIB]
		total := c.Sent
		for _, d := range c.Drops {
			total += d
		}
		return int(total)
	}
	await := func(atLeast int) error {
		for deadline := time.Now().Add(time.Minute); settled() < atLeast; time.Sleep(100 * time.Microsecond) {
			if b.discard(); time.Now().After(deadline) {
				return fmt.Errorf("%d of %d are settled: %+v", settled(), atLeast, b.Counters().Direction[lcore.RoCEToIB])
			}
		}
		return nil
	}
	for i := range n {
		p := message(b, nodeIP, 0x78, i+1) // a QP that nobody has, so that no echo comes back
		p.SrcIP, p.SrcQP = crowdIP(i%crowdHosts), ib.QPN(0x100+i/crowdHosts)
		if err := b.enter(p.AppendTo(nil)); err != nil {
			return err
		}
		if i%64 == 63 {
			if err := await(i - crowdUnderWay); err != nil {
				return err
			}
		}
	}
	return await(n)
}

// taskCrowd checks that each of many queue pairs gets a proxy QP, and that the next one is denied and counted by name.
func taskCrowd() (string, error) {
	h, err := builtAfter(wide(fmt.Sprintf("proxy_qps = %d\nproxy_qps_per_host = 200\nproxy_qps_unconfirmed = 0", crowded)))
	if err != nil {
		return "", err
	}
	full, _ := lcore.DropNamed("proxy_qp_full")
	said := ""
	err = running(h, func() error {
		heap, rss := memory()
		start := time.Now()
		if err := h.crowd(crowded); err != nil {
			return err
		}
		took := time.Since(start)
		heapAfter, rssAfter := memory()
		said = fmt.Sprintf("%d proxy QPs in %v; each takes %d bytes of Go heap, %d resident", crowded, took.Round(time.Millisecond),
			(heapAfter-heap)/crowded, (rssAfter-rss)/crowded)
		p := message(h, nodeIP, 0x78, 1)
		p.SrcIP = netip.MustParseAddr("10.9.250.1")
		if err := h.enter(p.AppendTo(nil)); err != nil {
			return err
		}
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
			c, s := h.Counters().Direction[lcore.RoCEToIB], h.Status()
			if s.ProxyQPs == crowded && s.Counters.ProxyQPsDenied == 1 && c.Sent == crowded && c.Drops[full] == 1 {
				return nil
			}
			if time.Now().After(deadline) {
				return fmt.Errorf("%d proxy QPs, %d denied; counted %+v", s.ProxyQPs, s.Counters.ProxyQPsDenied, c)
			}
		}
	})
	if err != nil {
		err = errors.Join(errors.New(said), err)
	}
	return said, err
}

func TestCrowd(t *testing.T) {
	logTask(t, "crowd")
}
