// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"causeway/config"
	"causeway/lcore"
	"causeway/lcore/manage/proxyqps"
)

// rooms are for packets that wait, each of which keeps a packet buffer: what management, the subnet or an HCA is slow
// with must not take the buffers that the ports receive into.
type rooms struct {
	punted  int // of each worker, for management
	waiting int // of all workers, for proxy QPs
	handles int // of each worker, for address handles
}

const (
	// roomShare is the part of the buffers that are nobody's that each of the three may take: one in so many. The last
	// quarter is for what passes.
	roomShare = 4
	// leastRoom is what a worker has of each in any case.
	leastRoom = 32
	// handlesMost is ibside/verbs' own limit of messages that wait for address handles.
	handlesMost = 4096
	// postedMost and postedShare bound the buffers that a worker keeps posted at an HCA where the configuration does not
	// say: its default, and the part of all buffers, one in so many, that those of all workers are at most (ibside/verbs).
	postedMost  = 8192
	postedShare = 3
)

// roomsOf sizes them by the buffers that are left beside those that the ports keep.
func roomsOf(cfg *config.Config) rooms {
	w := &cfg.Workers
	n := len(w.LCores)
	each := max(leastRoom*n, (w.Mbufs-keptByPorts(cfg))/roomShare)
	return rooms{punted: min(lcore.PuntRing, each/n), waiting: min(proxyqps.WaitMost, each), handles: min(handlesMost, each/n)}
}

// keptByPorts returns how many buffers ports keep to receive into and to send from.
func keptByPorts(cfg *config.Config) (kept int) {
	w := &cfg.Workers
	n := len(w.LCores)
	if cfg.RoCE.Port.Kind() != "af_packet" { // whose rings are the kernel's memory
		kept = n * (w.RxDescs + w.TxDescs)
	}
	switch {
	case cfg.IB.Port.Fabric:
	case w.RecvBuffers > 0:
		kept += n * w.RecvBuffers
	default:
		kept += min(n*postedMost, w.Mbufs/postedShare)
	}
	return kept
}
