// SPDX-License-Identifier: Apache-2.0

// Package agent carries commands into a test guest and their output back, over
// one byte stream (a virtio-serial port), any number of commands at a time.
// The guest's end is Serve, the test's is package client.
//
// Each message is one line of JSON:
//
//	test                                guest
//	{"hello":true}                ─▶
//	                              ◀─    {"ready":true}
//	{"id":7,"run":"ibv_devinfo"}  ─▶
//	                              ◀─    {"id":7,"out":"aGNhX2lkOi…"}   any number, base64
//	{"id":7,"kill":true}          ─▶                                   TERM, later KILL
//	                              ◀─    {"id":7,"exit":0}              exactly one, the last
package agent

// PortName is the virtio-serial port's name: QEMU's command line sets it, and the guest finds its device by it.
const PortName = "causeway.agent"

// Request is a message from the test to the guest.
type Request struct {
	Hello bool   `json:"hello,omitempty"`
	ID    uint64 `json:"id,omitempty"`
	Run   string `json:"run,omitempty"`
	Kill  bool   `json:"kill,omitempty"`
}

// Report is a message from the guest to the test.
type Report struct {
	Ready bool   `json:"ready,omitempty"`
	ID    uint64 `json:"id,omitempty"`
	Out   []byte `json:"out,omitempty"`
	Exit  *int   `json:"exit,omitempty"`
}
