// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"os"
	"runtime"
	"strings"
)

// cpuModel is what the kernel calls the CPU, for whoever compares figures.
func cpuModel() string {
	f, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return runtime.GOARCH
	}
	defer func() { _ = f.Close() }() // it was only read
	for s := bufio.NewScanner(f); s.Scan(); {
		if name, value, ok := strings.Cut(s.Text(), ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}
