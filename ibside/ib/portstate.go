// SPDX-License-Identifier: Apache-2.0

package ib

// PortState is the part of a port's PortInfo (IBTA vol 1 §14.2.5.6) that a client of subnet administration needs. The
// subnet manager changes it.
type PortState struct {
	Active bool // packets other than subnet management's may pass
	GID    GID  // subnet prefix and the port's own GUID
	LID    LID  // the base LID, of 1<<LMC
	LMC    uint8
	SMLID  LID // of the master subnet manager, and so of the SA
	SMSL   SL  // to send to it
}
