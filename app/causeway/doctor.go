// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"causeway/app/doctor"
	"causeway/config"
)

// runDoctor checks this machine for what a configuration needs.
func runDoctor(args []string, stdout, stderr io.Writer) int {
	fs := newFlags("doctor", `Checks this machine for what a configuration needs, changes nothing, and prints a command that fixes each problem:
hugepages, CPUs, drivers, the cards' link type, MTUs, flow control, the subnet manager, what the InfiniBand port has
lost, clocks, limits, and how InfiniBand nodes resolve RoCE hosts by the kernel's proxy ARP. Without a FILE it checks
the machine alone. An error keeps the bridge, or a part of it, from running; a warning makes it worse; a hint is
optional. Exits with 1 when there are errors, else with 0. Run it again after the commands: some problems are visible
only when others are fixed.`)
	asJSON := fs.Bool("json", false, "print one JSON array")
	fixes := fs.Bool("fixes", false, `print only the commands, without those of hints: "causeway doctor -fixes FILE | sudo sh"`)
	all := fs.Bool("all", false, "also print a line for each check without a problem")
	netdev := fs.String("netdev", "", "the `INTERFACE` of IP over InfiniBand, if it is not the port's own, such as a bond")
	if code, done := parse(fs, args, stdout, stderr); done {
		return code
	}
	if fs.NArg() > 1 {
		return misused(fs, stderr, "name at most one file")
	}
	var c *config.Config
	if fs.NArg() == 1 {
		var err error
		if c, err = config.Load(fs.Arg(0)); err != nil {
			fmt.Fprintln(stderr, err)
			return exitFailed
		}
	}
	found, err := examineHere(c, *netdev)
	if err == nil {
		err = writeFindings(found, *asJSON, *fixes, *all, stdout)
	}
	if err != nil {
		fmt.Fprintln(stderr, err)
		return exitFailed
	}
	if found.Errors() {
		return exitFailed
	}
	return exitOK
}

// examineHere examines this machine.
func examineHere(c *config.Config, netdev string) (doctor.Findings, error) {
	sys, done, err := doctor.OpenSysfs()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errDevicesUnreadable, err)
	}
	defer done()
	return doctor.Examine(c, doctor.Sources{
		Sys: sys, Proc: os.DirFS("/proc"), Root: os.DirFS("/"),
		Kernel: doctor.Live{Proc: os.DirFS("/proc/sys")}, Process: doctor.Here{}, Netdev: netdev,
	}), nil
}

func writeFindings(found doctor.Findings, asJSON, fixes, all bool, w io.Writer) error {
	switch {
	case asJSON && fixes:
		return errors.New("causeway doctor: -json and -fixes exclude each other")
	case asJSON:
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		e.SetEscapeHTML(false)
		return e.Encode(found)
	case fixes:
		return found.WriteFixes(w)
	}
	return found.WriteText(w, all)
}
