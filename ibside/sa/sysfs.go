// SPDX-License-Identifier: Apache-2.0

package sa

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"causeway/ibside/ib"
)

// umadName finds the name of a port's umad device: /sys/class/infiniband_mad has one folder for each.
func umadName(sysClass, device string, port int) (string, error) {
	found, _ := filepath.Glob(filepath.Join(sysClass, "infiniband_mad", "umad*"))
	if len(found) == 0 {
		return "", errors.New("this machine has no umad devices; load the kernel's module ib_umad (modprobe ib_umad) and the " +
			"adapter's driver, such as mlx5_ib")
	}
	var others []string
	for _, dir := range found {
		d, err1 := os.ReadFile(filepath.Join(dir, "ibdev"))
		p, err2 := os.ReadFile(filepath.Join(dir, "port"))
		if err := errors.Join(err1, err2); err != nil {
			return "", err
		}
		name := strings.TrimSpace(string(d)) + ":" + strings.TrimSpace(string(p))
		if name == fmt.Sprintf("%s:%d", device, port) {
			return filepath.Base(dir), nil
		}
		others = append(others, name)
	}
	return "", fmt.Errorf("no such port; there are %s", strings.Join(others, ", "))
}

// readPort reads a port's state from its folder in /sys/class/infiniband.
func readPort(sys fs.FS) (ib.PortState, error) {
	var p ib.PortState
	var errs []error
	number := func(name string, bits int) uint64 {
		b, err := fs.ReadFile(sys, name)
		if err != nil {
			errs = append(errs, err)
			return 0
		}
		first, _, _ := strings.Cut(strings.TrimSpace(string(b)), ":") // "4: ACTIVE"
		n, err := strconv.ParseUint(first, 0, bits)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
		return n
	}
	const active = 4
	p.Active = number("state", 8) == active
	p.LID, p.LMC = ib.LID(number("lid", 16)), uint8(number("lid_mask_count", 8))
	p.SMLID, p.SMSL = ib.LID(number("sm_lid", 16)), ib.SL(number("sm_sl", 8))
	text, err := fs.ReadFile(sys, "gids/0")
	if err == nil {
		p.GID, err = ib.ParseGID(strings.TrimSpace(string(text)))
	}
	errs = append(errs, err)
	return p, errors.Join(errs...)
}

// readPKeys reads a port's P_Key table, in order; an entry that is empty is no valid key.
func readPKeys(sys fs.FS) ([]ib.PKey, error) {
	var all []ib.PKey
	for i := 0; ; i++ {
		text, err := fs.ReadFile(sys, fmt.Sprintf("pkeys/%d", i))
		if errors.Is(err, fs.ErrNotExist) && i > 0 {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		k, err := strconv.ParseUint(strings.TrimSpace(string(text)), 0, 16)
		if err != nil {
			return nil, fmt.Errorf("pkeys/%d: %w", i, err)
		}
		all = append(all, ib.PKey(k))
	}
}
