// SPDX-License-Identifier: Apache-2.0

// Package sa is a client of subnet administration (IBTA vol 1 §15): it joins multicast groups, queries paths, sets
// alias GUIDs, registers services and subscribes to notices, by management datagrams (MADs) over any port that carries
// them.
//
//	Registrar   keeps what was registered, registers it again when the subnet manager has lost it
//	    │
//	Client      requests and answers, tries and pauses; notices; tables in several MADs (RMPP)
//	    │
//	Transport   256 bytes, QP1 to QP1
//	    ├── Umad    /dev/infiniband/umadN, the kernel's port to QP1
//	    └── any other, such as a port of the subnet in software
package sa
