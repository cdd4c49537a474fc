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

// A tree is a file system such as sysfs. A file that is missing or cannot be read counts as empty: devices may vanish
// while they are read.
type tree struct{ fs.FS }

// text returns a file's content without surrounding white space.
func (t tree) text(elems ...string) string {
	b, err := fs.ReadFile(t, path.Join(elems...))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// number returns a file that holds a number, decimal or with 0x; 0 when it holds none.
func (t tree) number(elems ...string) int {
	n, err := strconv.ParseInt(t.text(elems...), 0, 64)
	if err != nil {
		return 0
	}
	return int(n)
}

// word returns the word of an attribute such as "4: ACTIVE".
func (t tree) word(elems ...string) string {
	s := t.text(elems...)
	if _, word, ok := strings.Cut(s, ": "); ok {
		return word
	}
	return s
}

// uevent returns a variable of a device's uevent file, such as DRIVER.
func (t tree) uevent(name string, elems ...string) string {
	for line := range strings.Lines(t.text(append(elems, "uevent")...)) {
		if value, ok := strings.CutPrefix(line, name+"="); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// names lists a directory; it returns nothing when there is no such directory.
func (t tree) names(elems ...string) []string {
	entries, _ := fs.ReadDir(t, path.Join(elems...))
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

// indexes lists a directory of numbered entries, in ascending order.
func (t tree) indexes(elems ...string) []int {
	var out []int
	for _, name := range t.names(elems...) {
		if n, err := strconv.Atoi(name); err == nil && n >= 0 {
			out = append(out, n)
		}
	}
	slices.Sort(out)
	return out
}

// glob returns the paths that match a pattern, sorted.
func (t tree) glob(pattern string) []string {
	found, _ := fs.Glob(t, pattern)
	return found
}

// has reports whether a file or directory exists.
func (t tree) has(elems ...string) bool {
	_, err := fs.Stat(t, path.Join(elems...))
	return err == nil
}

// field returns the value of a "name: value" line, as in /proc/meminfo.
func field(content, name string) string {
	for line := range strings.Lines(content) {
		if before, after, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(before) == name {
			return strings.TrimSpace(after)
		}
	}
	return ""
}

// cpus parses a CPU list such as "0-3,6". It ignores what it cannot parse, such as "(null)".
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

// without returns the elements of a that are not in b.
func without(a, b []int) []int {
	return slices.DeleteFunc(slices.Clone(a), func(n int) bool { return slices.Contains(b, n) })
}

// common returns the elements of a that are also in b.
func common(a, b []int) []int {
	return slices.DeleteFunc(slices.Clone(a), func(n int) bool { return !slices.Contains(b, n) })
}
