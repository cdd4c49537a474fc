// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// count writes a power of 2 with a binary suffix.
func count(n int) string {
	switch {
	case n >= 1<<20:
		return fmt.Sprintf("%d M", n>>20)
	case n >= 1<<10:
		return fmt.Sprintf("%d k", n>>10)
	}
	return fmt.Sprint(n)
}

// Print writes the rows as one table.
func Print(w io.Writer, rows []Row) error {
	cells := [][]string{{"", "payload", "entries", "ns", "Mpps", "Gbit/s", "over", "ns", "ratio", "gate", "", "noise", "also over", "ns", "ratio", "/wide", "bells", "device ns"}}
	for i := range rows {
		if i > 0 && rows[i].section != rows[i-1].section {
			cells = append(cells, nil)
		}
		cells = append(cells, rows[i].cells())
	}
	return printTable(w, cells, []int{0, 6, 10, 12})
}

func (r *Row) cells() []string {
	c := make([]string, 18)
	c[0] = r.What
	if r.Payload > 0 {
		c[1] = fmt.Sprintf("%d B", r.Payload)
	}
	if r.Entries > 0 {
		c[2] = count(r.Entries)
	}
	if r.NS > 0 {
		c[3] = fmt.Sprintf("%.1f", r.NS)
	}
	if r.packets {
		c[4], c[5] = fmt.Sprintf("%.1f", 1e3/r.NS), fmt.Sprintf("%.1f", float64(r.Payload)*8/r.NS)
	}
	if r.Over != "" {
		c[6], c[7], c[8] = r.Over, fmt.Sprintf("%.1f", r.OverNS), fmt.Sprintf("%.2f", r.Value)
	} else {
		c[8] = fmt.Sprint(r.Value)
	}
	if r.Limit != nil {
		c[9], c[10] = fmt.Sprintf("≤ %.2f", float64(*r.Limit)), r.verdict()
	}
	if r.Over != "" {
		c[11] = fmt.Sprintf("%.0f %%", r.Noise*100)
	}
	if r.FloorNS > 0 {
		c[12], c[13], c[14] = r.Floor, fmt.Sprintf("%.1f", r.FloorNS), fmt.Sprintf("%.2f", r.OverFloor)
	}
	if r.Wide > 0 {
		c[15] = fmt.Sprintf("%.2f", r.Wide)
	}
	if r.Doorbells > 0 {
		c[16] = fmt.Sprintf("%.2f", r.Doorbells)
	}
	if r.DeviceNS > 0 {
		c[17] = fmt.Sprintf("%.0f", r.DeviceNS)
	}
	return c
}

func (r *Row) verdict() string {
	switch {
	case r.Busy():
		return "busy"
	case r.Missed():
		return "MISSED"
	case r.Near():
		return "near"
	}
	return "held"
}

// printTable aligns the given columns to the left and all others to the right. A nil row is a blank line.
func printTable(w io.Writer, rows [][]string, left []int) error {
	width := map[int]int{}
	isLeft := map[int]bool{}
	for _, i := range left {
		isLeft[i] = true
	}
	for _, row := range rows {
		for i, c := range row {
			width[i] = max(width[i], utf8.RuneCountInString(c))
		}
	}
	for _, row := range rows {
		var b strings.Builder
		for i, c := range row {
			space := strings.Repeat(" ", width[i]-utf8.RuneCountInString(c))
			if isLeft[i] {
				b.WriteString(c + space + "  ")
			} else {
				b.WriteString(space + c + "  ")
			}
		}
		if _, err := fmt.Fprintln(w, strings.TrimRight(b.String(), " ")); err != nil {
			return err
		}
	}
	return nil
}
