// SPDX-License-Identifier: Apache-2.0

package lcore

import (
	"fmt"
	"slices"
)

// ICRCKind says what stands in front of the BTH, and so which bits the ICRC reads as ones.
// The values are those of enum icrc_kind.
type ICRCKind uint8

// The kinds of packet that the workers meet on Ethernet.
const (
	ICRCIPv4 ICRCKind = iota // RoCEv2: IPv4 header without options, and UDP
	ICRCIPv6                 // RoCEv2: IPv6 header without extensions, and UDP
	ICRCGRH                  // RoCEv1: a GRH
)

// ICRCVersion returns the name of the version that the workers use: the fastest that this CPU can run.
func ICRCVersion() string { return chooseICRC() }

// ICRCVersions returns the names of the versions that this CPU can run, fastest first.
func ICRCVersions() []string {
	var names []string
	for _, v := range runnableICRC() {
		names = append(names, v.name)
	}
	return names
}

// ICRCWith computes the ICRC of p, from the network header up to and without the ICRC field, by the named version.
// The value is as stored by a little-endian 32-bit store. It is for tests and measurements: the workers stay in C.
// It panics when this CPU cannot run the version.
func ICRCWith(version string, kind ICRCKind, p []byte) uint32 {
	return icrcOne(mustICRC(version), kind, p)
}

// icrcVersion is one version of the ICRC and its place in the list in C.
type icrcVersion struct {
	name  string
	index int
}

func mustICRC(name string) int {
	vs := runnableICRC()
	i := slices.IndexFunc(vs, func(v icrcVersion) bool { return v.name == name })
	if i < 0 {
		panic(fmt.Sprintf("lcore: ICRC version %q cannot run here; this CPU has %v", name, ICRCVersions()))
	}
	return vs[i].index
}
