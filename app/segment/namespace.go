// SPDX-License-Identifier: Apache-2.0

package segment

import (
	"errors"
	"runtime"

	"github.com/vishvananda/netns"
)

// In runs f in a network namespace, on a thread that is locked meanwhile.
func In(ns netns.NsHandle, f func() error) error {
	runtime.LockOSThread()
	home, err := netns.Get()
	if err != nil {
		runtime.UnlockOSThread()
		return err
	}
	defer func() { _ = home.Close() }() // only read
	if err := netns.Set(ns); err != nil {
		runtime.UnlockOSThread()
		return err
	}
	err = f()
	if back := netns.Set(home); back != nil {
		return errors.Join(err, back) // the thread is in the wrong namespace: it stays locked and ends with its goroutine
	}
	runtime.UnlockOSThread()
	return err
}

// NewNamespace makes a network namespace. The caller stays in its own.
func NewNamespace() (ns netns.NsHandle, err error) {
	home, err := netns.Get()
	if err != nil {
		return ns, err
	}
	defer func() { _ = home.Close() }()
	err = In(home, func() error { ns, err = netns.New(); return err })
	return ns, err
}
