// SPDX-License-Identifier: Apache-2.0

package multipath

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"causeway/ibside"
	"causeway/ibside/ib"
)

// errNoMessages is what is returned where no member can.
var errNoMessages = errors.New("multipath: no port can send bridges messages")

// ReceiveMessages implements ibside.Messenger, on all members that can. It fails only when none can.
func (s *state) ReceiveMessages(h func(from ib.LID, data []byte)) error {
	var one sync.Mutex
	var errs []error
	some := false
	for _, m := range s.cfg.Members {
		port, ok := m.Port.(ibside.Messenger)
		if !ok {
			continue
		}
		err := port.ReceiveMessages(func(from ib.LID, data []byte) {
			one.Lock()
			defer one.Unlock()
			h(from, data)
		})
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", m.Name, err))
			s.cfg.Log.Warn("ib_path_no_messages", "port", m.Name, "error", err)
		}
		some = some || err == nil
	}
	if some {
		return nil
	}
	if len(errs) == 0 {
		return errNoMessages
	}
	return errors.Join(errs...)
}

// SendMessage implements ibside.Messenger. Each member that knows a path sends: most often one, on whose fabric the GID is;
// two ports of one fabric send twice, so that a message comes that one has lost.
func (s *state) SendMessage(to ib.GID, data []byte) error {
	var errs []error
	for _, m := range s.cfg.Members {
		port, ok := m.Port.(ibside.Messenger)
		if !ok {
			continue
		}
		err := port.SendMessage(to, data)
		if err != nil {
			err = fmt.Errorf("%s: %w", m.Name, err)
		}
		errs = append(errs, err)
	}
	switch {
	case len(errs) == 0:
		return errNoMessages
	case slices.Contains(errs, nil):
		return nil
	}
	return errors.Join(errs...)
}

var _ ibside.Messenger = (*Port)(nil)
