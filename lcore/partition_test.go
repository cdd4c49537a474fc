// SPDX-License-Identifier: Apache-2.0

package lcore_test

import (
	"testing"

	"causeway/ibside/ib"
	"causeway/tables"
)

const (
	secondQP  = proxyQP + 100
	secondQPN = proxyQPN + 100
)

// inPartition is the host's proxy QP of another partition.
func (w *fixture) inPartition(n uint8) tables.ProxyQP {
	x := *w.proxyQP(hostIP, hostQPN)
	x.Partition, x.QP, x.QPN = n, secondQP, secondQPN
	return x
}

// TestPartitions sends to a node and to a group of another partition: each message goes by the host's proxy QP there.
func TestPartitions(t *testing.T) {
	w := smallFixture()
	w.nodes[0].Partition, w.group(group4).Partition = 3, 3
	w.proxyQPs = append(w.proxyQPs, w.inPartition(3))
	s := newRig(t, w)
	s.fromRoCE(v4(), v4(to(group4), imm(uint32(hostQPN))), v4(to(groupOut)), v4(dest("10.10.0.4")))
	sent := s.toIB(0)
	want(t, "sent", len(sent), 4)
	for i, qp := range []uint32{secondQP, secondQP, proxyQP, proxyQP} {
		want(t, "QP", sent[i].QP, qp)
	}
	want(t, "the QPN that the members answer to", ib.QPN(sent[1].Imm), secondQPN)
	s.fromIB(received(func(m *message) { m.QPN = secondQPN }))
	want(t, "back to the host by the other QPN", len(s.toRoCE(0)), 1)
}

// TestPartitionPending punts what has no proxy QP in its partition yet, though it has one in another.
func TestPartitionPending(t *testing.T) {
	w := smallFixture()
	w.group(group4).Partition = 3
	s := newRig(t, w)
	s.fromRoCE(v4(to(group4)), v4())
	pending := s.takePunted()
	if len(pending) != 1 || pending[0].Pending == nil || pending[0].Pending.Partition() != 3 {
		t.Fatalf("pending: %+v", pending)
	}
	want(t, "crossed at once", len(s.toIB(0)), 1)
	if _, err := s.tables.ProxyQPs.Put(w.inPartition(3)); err != nil {
		t.Fatal(err)
	}
	pending[0].Pending.Requeue()
	s.work()
	if sent := s.toIB(0); len(sent) != 1 || sent[0].QP != secondQP {
		t.Errorf("sent: %+v", sent)
	}
}

// TestPartitionHeard answers a node without a P_Key of its own in the partition that it was last heard in. Frames of
// Ethernet do not change it.
func TestPartitionHeard(t *testing.T) {
	w := smallFixture()
	w.nodes[0].Partition, w.nodes[1].Partition = tables.PartitionHeard, tables.PartitionHeard
	w.group(group4).Partition = 3
	w.proxyQPs = append(w.proxyQPs, w.inPartition(3))
	s := newRig(t, w)
	goesBy := func(when string, qp uint32) {
		t.Helper()
		s.fromRoCE(v4(to(group4)), v4())
		sent := s.toIB(0)
		want(t, "sent "+when, len(sent), 2)
		want(t, "QP "+when, sent[1].QP, qp)
	}
	goesBy("before it was heard", proxyQP)
	for _, c := range []struct {
		when string
		m    message
		qp   uint32
	}{
		{"after a message to the proxy QP", received(func(m *message) { m.QPN = secondQPN }), secondQP},
		{"after one to that of the first partition", received(), proxyQP},
		{"after one to a group", received(toGroup(mgidOf(group4))), secondQP},
		{"after one that is dropped", received(func(m *message) { m.QPN = 0x999 }), secondQP},
		{"after another node's", received(fromNode(node4GID, node4LID)), secondQP},
	} {
		s.fromIB(c.m)
		s.toRoCE(0)
		goesBy(c.when, c.qp)
	}
	if n := s.tables.Nodes.PartitionOf(nodeGID); n != 3 {
		t.Errorf("the tables tell of partition %d", n)
	}
}
