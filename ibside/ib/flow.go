// SPDX-License-Identifier: Apache-2.0

package ib

// SrcPortFirst is the lowest UDP source port a RoCEv2 sender makes. A receiver accepts any port.
const SrcPortFirst = 0xc000

// FlowLabelToSrcPort returns the UDP source port of a flow: 14 bits of entropy above 0xC000, folded from the 20 of
// the flow label (Linux include/rdma/ib_verbs.h, rdma_flow_label_to_udp_sport).
func FlowLabelToSrcPort(flowLabel uint32) uint16 {
	flowLabel &= flowLabels
	return uint16(flowLabel&0x3fff^flowLabel>>14) | SrcPortFirst
}

// CalcFlowLabel returns a flow label for a pair of queue pairs, the same for both directions (Linux
// include/rdma/ib_verbs.h, rdma_calc_flow_label).
func CalcFlowLabel(local, remote QPN) uint32 {
	v := uint64(local) * uint64(remote)
	v ^= v >> 20
	v ^= v >> 40
	return uint32(v & flowLabels)
}

// SrcPort returns the UDP source port of a flow: from its label, or from its queue pairs when it has none (Linux
// include/rdma/ib_verbs.h, rdma_get_udp_sport).
func SrcPort(flowLabel uint32, local, remote QPN) uint16 {
	if flowLabel == 0 {
		flowLabel = CalcFlowLabel(local, remote)
	}
	return FlowLabelToSrcPort(flowLabel)
}

// CMFlowLabel returns the flow label rdma_cm gives a RoCE connection between two ports of its port space (Linux
// drivers/infiniband/core/cma.c, cma_get_roce_udp_flow_label).
func CMFlowLabel(srcPort, dstPort uint16) uint32 {
	return (uint32(srcPort)*31 + uint32(dstPort)) & flowLabels
}
