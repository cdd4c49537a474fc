// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Reading files. What is missing, or cannot be read, counts as empty: a device may vanish while it is looked at.

// text returns a file without the end of its last line.
func text(root fs.FS, elems ...string) string {
	if root == nil {
		return ""
	}
	b, _ := fs.ReadFile(root, path.Join(elems...))
	return strings.TrimSpace(string(b))
}

// attr returns an attribute of sysfs.
func (p *patient) attr(elems ...string) string { return text(p.sys, elems...) }

// count returns an attribute of sysfs that is a number; 0 when it is none.
func (p *patient) count(elems ...string) int {
	n, _ := strconv.Atoi(p.attr(elems...))
	return n
}

// names returns what matches a pattern, in order.
func names(root fs.FS, pattern string) []string {
	if root == nil {
		return nil
	}
	found, _ := fs.Glob(root, pattern)
	return found
}

// isThere reports whether there is a file or folder.
func isThere(root fs.FS, elems ...string) bool {
	if root == nil {
		return false
	}
	_, err := fs.Stat(root, path.Join(elems...))
	return err == nil
}

// field returns what follows a name and a colon at the beginning of a line, as in /proc/meminfo.
func field(content, name string) string {
	for line := range strings.Lines(content) {
		if before, after, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(before) == name {
			return strings.TrimSpace(after)
		}
	}
	return ""
}

// cpus reads a list such as "0-3,6"; what is none of it, such as "(null)", is left out.
func cpus(list string) []int {
	var out []int
	for part := range strings.SplitSeq(list, ",") {
		low, high, isRange := strings.Cut(strings.TrimSpace(part), "-")
		first, err := strconv.Atoi(low)
		last := first
		if isRange && err == nil {
			last, err = strconv.Atoi(high)
		}
		const most = 8192 // CONFIG_NR_CPUS at its largest
		for n := first; err == nil && n <= last && n < most; n++ {
			out = append(out, n)
		}
	}
	return out
}

// cpuList writes ascending numbers as the kernel does: "0-3,6".
func cpuList(list []int) string {
	var out []string
	for i := 0; i < len(list); {
		j := i
		for j+1 < len(list) && list[j+1] == list[j]+1 {
			j++
		}
		if out = append(out, strconv.Itoa(list[i])); j > i {
			out[len(out)-1] = fmt.Sprintf("%d-%d", list[i], list[j])
		}
		i = j + 1
	}
	return strings.Join(out, ",")
}

// without returns what is in a and not in b.
func without(a, b []int) []int {
	return slices.DeleteFunc(slices.Clone(a), func(n int) bool { return slices.Contains(b, n) })
}

// common returns what is in both.
func common(a, b []int) []int {
	return slices.DeleteFunc(slices.Clone(a), func(n int) bool { return !slices.Contains(b, n) })
}
