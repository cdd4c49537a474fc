// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"errors"
	"fmt"
	"net/netip"

	"causeway/dpdk"
	"causeway/ibside/ib"
	"causeway/lcore"
	"causeway/lcore/frame"
	"causeway/lcore/frame/roce"
	"causeway/tables"
)

const (
	inFlight = 2048 // packets: more than a second-level cache holds from 1 KiB up
	peers    = 1024 // RoCE hosts, each with one QP, and as many IB nodes
)

var (
	bridgeMAC = frame.MAC{2, 0, 0, 0, 0, 2}
	hostMAC   = frame.MAC{2, 0, 0, 0, 0, 1}
)

func hostIP(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 9, byte(i >> 8), byte(i)}) }
func nodeIP(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 10, byte(i >> 8), byte(i)}) }

func nodeGID(i int) ib.GID {
	return ib.GIDFromGUID(0xfe80_0000_0000_0000, ib.GUID(0x0002_c903_0000_0000|uint64(i)))
}

const (
	hostQPN  = ib.QPN(0x456)
	nodeQPN  = ib.QPN(0x123)
	firstQPN = 0x1000 // of the stand-ins
	firstLID = 0x100  // of the nodes
)

// fill puts all peers on the shelves.
func fill(t *tables.Tables) error {
	for i := range peers {
		_, err := t.PutHost(tables.Host{IP: hostIP(i), MAC: hostMAC, Version: lcore.V2})
		if err != nil {
			return err
		}
		_, err = t.PutStandIn(tables.StandIn{
			Host: hostIP(i), HostQPN: hostQPN, QP: uint32(i), QPN: ib.QPN(firstQPN + i), QKey: ib.QKeyRDMAUDP, Version: lcore.V2,
		})
		if err != nil {
			return err
		}
		_, err = t.PutNode(tables.Node{IP4: nodeIP(i), GID: nodeGID(i), LID: ib.LID(firstLID + i)})
		if err != nil {
			return err
		}
	}
	return nil
}

// frameOf is a RoCEv2 message between two peers.
func frameOf(host, node, size int) []byte {
	p := roce.Packet{
		Version: 2, Dst: bridgeMAC, Src: hostMAC, SrcIP: hostIP(host), DstIP: nodeIP(node), HopLimit: 64, SrcPort: 0xc000,
		PKey: ib.PKeyDefault, DestQP: nodeQPN, QKey: ib.QKeyRDMAUDP, SrcQP: hostQPN, PSN: uint32(host), Payload: payload(size),
	}
	return p.AppendTo(nil)
}

func payload(size int) []byte {
	b := make([]byte, size)
	for i := range b {
		b[i] = byte(i * 7)
	}
	return b
}

func benchConfig() lcore.BenchConfig {
	all := netip.MustParsePrefix("10.0.0.0/8")
	return lcore.BenchConfig{
		MAC: bridgeMAC, RoCEPKey: ib.PKeyDefault, IBMTU: 4096, RoCEMTU: 4096,
		Versions: lcore.V2, TTL: 64, Addresses: []netip.Prefix{netip.MustParsePrefix("10.9.255.254/16")},
		Allow: []netip.Prefix{all},
	}
}

// verify makes sure that what was measured was the way through: nothing may have been dropped.
func (r *rig) verify() error {
	c := r.bench.Counters()
	for d, x := range c.Direction {
		if x.Dropped() != 0 || !x.Conserved() {
			return fmt.Errorf("bench: %v: received %d, sent %d, drops %v: this measured something else",
				lcore.Direction(d), x.Received, x.Sent, x.Drops)
		}
	}
	return nil
}

// path measures the worker.
func (r *rig) path(cfg Config) (float64, error) {
	if err := r.worker.Start(cfg.Lcore); err != nil {
		return 0, err
	}
	defer r.worker.Stop()
	return nsPerPacket(cfg.Window, func() uint64 { return r.worker.Counters().Direction[r.direction].Sent })
}

// pools for one cell.
func newPool() (*dpdk.Mempool, error) {
	return dpdk.NewMempool("bench", 2*inFlight+1023, lcore.DataRoom, privateBytes)
}

const privateBytes = 128

// close takes the rig down and complains about what is left.
func (r *rig) close() {
	var errs []error
	for i := len(r.undo) - 1; i >= 0; i-- {
		errs = append(errs, r.undo[i]())
	}
	if err := errors.Join(errs...); err != nil {
		panic(err) // a leak in the benchmark itself
	}
}
