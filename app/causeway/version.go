// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
)

// version is set by the linker: -ldflags "-X main.version=v1.2.3". Otherwise the module's version counts.
var version string

// dpdkVersion returns the version of the linked DPDK, such as "DPDK 22.11.11"; nil without DPDK.
var dpdkVersion func() string

// runVersion is "causeway version".
func runVersion(args []string, stdout, stderr io.Writer) int {
	fs := newFlags("version", "Prints the version of Causeway, and of the Go and DPDK that it was built with.")
	if code, done := parse(fs, args, stdout, stderr); done {
		return code
	}
	if fs.NArg() > 0 {
		return misused(fs, stderr, "version takes no arguments")
	}
	fmt.Fprintf(stdout, "causeway %s\n%s %s/%s\n", ownVersion(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
	if dpdkVersion != nil {
		fmt.Fprintln(stdout, dpdkVersion())
	}
	return exitOK
}

// ownVersion returns the version from the linker, else the module's, else the commit.
func ownVersion() string {
	if version != "" {
		return version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "(unknown)"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	return "(devel)" + commit(info)
}

// commit returns the commit that was built, if it is recorded: " 0123456789ab, changed".
func commit(info *debug.BuildInfo) string {
	revision, changed := "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision" && s.Value != "":
			revision = " " + s.Value[:min(12, len(s.Value))]
		case s.Key == "vcs.modified" && s.Value == "true":
			changed = ", changed"
		}
	}
	if revision == "" {
		return ""
	}
	return revision + changed
}
