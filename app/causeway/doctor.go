// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"causeway/app/devices"
	"causeway/app/doctor"
	"causeway/config"
)

// runDoctor says what this machine lacks for a configuration.
func runDoctor(args []string, stdout, stderr io.Writer) int {
	fs := newFlags("doctor", `Looks at this machine for what a configuration needs of it, changes nothing, and says of each thing how it is and,
where it is not well, which command mends it. What it looks at is how InfiniBand nodes find RoCE hosts: the kernel
answers their ARP and ND questions on the interface of IP over InfiniBand, if its settings, routes and addresses
let it. Exits with 0 when all is well, with 1 when something is not. Run it again after the commands: some
things can be seen only when others are well.`)
	asJSON := fs.Bool("json", false, "print one JSON array")
	fixes := fs.Bool("fixes", false, `print the commands alone: "causeway doctor -fixes FILE | sudo sh"`)
	netdev := fs.String("netdev", "", "the `interface` of IP over InfiniBand, where it is not the port's own, such as a bond")
	if code, done := parse(fs, args, stdout, stderr); done {
		return code
	}
	if fs.NArg() != 1 {
		return misused(fs, stderr, "name one file")
	}
	c, err := config.Load(fs.Arg(0))
	if err != nil {
		fmt.Fprintln(stderr, err)
		return exitFailed
	}
	sys, done, err := devices.Sysfs()
	if err != nil {
		fmt.Fprintln(stderr, fmt.Errorf("%w: %w", errUnseen, err))
		return exitFailed
	}
	defer done()
	found := doctor.Examine(c, doctor.Machine{Sys: sys, Kernel: doctor.Live{Proc: os.DirFS("/proc/sys")}, Netdev: *netdev})
	if err := writeFindings(found, *asJSON, *fixes, stdout); err != nil {
		fmt.Fprintln(stderr, err)
		return exitFailed
	}
	if !found.Fine() {
		return exitFailed
	}
	return exitOK
}

func writeFindings(found doctor.Findings, asJSON, fixes bool, w io.Writer) error {
	switch {
	case asJSON && fixes:
		return errors.New("causeway doctor: -json and -fixes exclude each other")
	case asJSON:
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(found)
	case fixes:
		return found.WriteFixes(w)
	}
	return found.WriteText(w)
}
