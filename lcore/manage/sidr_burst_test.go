// SPDX-License-Identifier: Apache-2.0

package manage_test

import (
	"context"
	"testing"
	"time"

	file "causeway/config"
	"causeway/ibside"
	"causeway/ibside/ib"
	"causeway/lcore/manage"
	"causeway/lcore/manage/sidr"
)

// defaults are the limits of a configuration that names none.
func defaults(t *testing.T) file.Workers {
	t.Helper()
	c, err := file.Parse("small", []byte("[roce]\nport = \"ring\"\naddresses = [\"10.9.0.254/24\"]\n[ib]\nport = \"fabric:\"\n"))
	if err != nil {
		t.Fatal(err)
	}
	return c.Workers
}

// TestManyConnections has a program open many connections at once, each by a queue pair and a UDP port of its own, as
// udaddy -c 200 does: with the default limits all are answered, and all queue pairs then get their proxy QPs. One that
// is more than the limit of its host is told that there is no queue pair, and the node is not asked.
func TestManyConnections(t *testing.T) {
	bubble(t, "many connections", func(t *testing.T) {
		const connections, firstQPN = 200, 0x100
		limits := defaults(t)
		size := smallTables
		size.MaxProxyQPs = limits.ProxyQPs
		s := startServicesWith(t, size, func(c *manageConfig, cm *services) {
			c.ProxyQPs, c.ProxyQPLimits.PerHost = limits.ProxyQPs, limits.ProxyQPsPerHost
			cm.connect = func(ctx context.Context, c ibside.ServiceConnect) (ibside.ServiceAnswer, error) {
				time.Sleep(10 * time.Millisecond) // as a node does
				return answering(ctx, c)
			}
		})
		s.ibPort.creating = 5 * time.Millisecond
		ask := func(first, n int) (status map[uint8]int) {
			for i := range n {
				s.w.give(manage.Punted{Data: ask(host4, node4, func(q *question) {
					q.fields.RequestID, q.cma.SrcPort = uint32(first+i), uint16(first+i)
				}).frame()})
			}
			s.after(time.Second)
			status = map[uint8]int{}
			for _, d := range s.datagrams(s.w.take(), nil) {
				status[d.rep.Status()]++
			}
			return status
		}
		if got := ask(1000, connections); got[ib.SIDRStatusOK] != connections || len(got) != 1 {
			t.Errorf("answers by status: %v, want %d of 0", got, connections)
		}
		var packets []*packet
		for i := range connections {
			p := &packet{}
			packets = append(packets, p)
			s.w.give(manage.Punted{Data: data(hostLink, 2, host4, firstQPN+ib.QPN(i)), Pending: p})
		}
		s.after(time.Second)
		for i, p := range packets {
			if p.ended() != "requeued" {
				t.Errorf("the first message of queue pair %d ended by %q", i, p.ended())
			}
		}
		if s.ibPort.open() != connections || s.tables.ProxyQPs.Len() != connections {
			t.Errorf("%d QPs, %d proxy QPs", s.ibPort.open(), s.tables.ProxyQPs.Len())
		}
		more := limits.ProxyQPsPerHost - connections
		if got := ask(2000, more); got[ib.SIDRStatusOK] != more || len(got) != 1 {
			t.Errorf("up to the limit, answers by status: %v, want %d of 0", got, more)
		}
		before := s.cm.connects()
		if got := ask(60000, 1); got[ib.SIDRStatusNoQP] != 1 || len(got) != 1 || s.cm.connects() != before {
			t.Errorf("one too many, answers by status: %v; the node was asked %d times", got, s.cm.connects()-before)
		}
		s.want(roceToIB, manage.ServiceCounts{sidr.Answered: uint64(connections + more), sidr.NoProxyQP: 1})
	})
}
