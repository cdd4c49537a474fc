// SPDX-License-Identifier: Apache-2.0

// Lister is what "causeway devices -json" and "causeway check -here" do, without DPDK, so that it runs in a guest
// that has no libraries:
//
//	lister          what the machine has
//	lister FILE     what keeps this configuration from running here, a line each; exits with 1 if anything does.
//	                Else what the bridge would wait for
package main

import (
	"encoding/json"
	"fmt"
	"os"

	"causeway/app/doctor"
	"causeway/config"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
}

func run(files []string) error {
	sys, done, err := doctor.OpenSysfs()
	if err != nil {
		return err
	}
	defer done()
	if len(files) == 0 {
		return json.NewEncoder(os.Stdout).Encode(doctor.ReadMachine(sys))
	}
	c, err := config.Load(files[0])
	if err != nil {
		return err
	}
	problems, _ := doctor.CheckConfig(c, sys)
	for _, p := range problems {
		fmt.Println(p)
	}
	if len(problems) > 0 {
		os.Exit(1)
	}
	if note := doctor.LinkNote(c, sys); note != "" {
		fmt.Println(note)
	}
	return nil
}
