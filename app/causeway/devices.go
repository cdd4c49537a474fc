// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"io"

	"causeway/app/doctor"
)

// runDevices lists what this machine has for the two ports.
func runDevices(args []string, stdout, stderr io.Writer) int {
	fs := newFlags("devices", `Lists the RDMA ports and the Ethernet ports of this machine, and says for each whether it can be the RoCE side
or the IB side of a bridge, in the words of the configuration ("RoCE side: af_packet:eth1"), or why not. MTUs of
RDMA ports are payloads; that of an InfiniBand port is not shown, because the kernel tells it only to programs that
open the port. Changes nothing, and needs no privileges but where /sys shows another network namespace than the
process is in: there CAP_SYS_ADMIN.`)
	asJSON := fs.Bool("json", false, "print one JSON object")
	if code, done := parse(fs, args, stdout, stderr); done {
		return code
	}
	if fs.NArg() > 0 {
		return misused(fs, stderr, "devices takes no arguments")
	}
	if err := listDevices(*asJSON, stdout); err != nil {
		fmt.Fprintln(stderr, err)
		return exitFailed
	}
	return exitOK
}

func listDevices(asJSON bool, w io.Writer) error {
	sys, done, err := doctor.OpenSysfs()
	if err != nil {
		return err
	}
	defer done()
	m := doctor.ReadMachine(sys)
	if !asJSON {
		return m.WriteTable(w)
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(m)
}
