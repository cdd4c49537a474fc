// SPDX-License-Identifier: Apache-2.0

// Package seatstest has a listener that fails, for tests of servers.
package seatstest

import (
	"net"
	"syscall"
)

// Full is a listener of a process that has no file descriptor for so many times; then clients come to Listener, if there is
// one.
type Full struct {
	net.Listener
	Times int
}

// Accept implements net.Listener.
func (f *Full) Accept() (net.Conn, error) {
	if f.Times--; f.Times >= 0 {
		return nil, syscall.EMFILE
	}
	if f.Listener == nil {
		return nil, nil
	}
	return f.Listener.Accept()
}

// Close implements net.Listener.
func (f *Full) Close() error {
	if f.Listener == nil {
		return nil
	}
	return f.Listener.Close()
}
