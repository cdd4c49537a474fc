// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"strings"
	"testing"
)

// TestWorkersShareNoLine checks that two workers of the port write no cache line in common, by the installed libmlx5 and
// directly.
func TestWorkersShareNoLine(t *testing.T) {
	t.Parallel()
	out, err := runCases(t, onLibmlx5(t, append(portC, "testdata/lines.c")...).whole(t, quick))
	if n := strings.Count(out, " 0 shared: ok\n"); err != nil || n != 2 {
		t.Errorf("%v, %d of 2 ways are ok:\n%s", err, n, out)
	}
	t.Log(out)
}

// TestSharedLinesNotice has workers write a common line, in one place at a time: that must be noticed.
func TestSharedLinesNotice(t *testing.T) {
	r := onLibmlx5(t, append(portC, "testdata/lines.c")...)
	const count = "static uint64_t all __attribute__((aligned(64)));\n\tall += 1;\n\t"
	for _, m := range []struct{ what, file, old, changed string }{
		{"posts of all workers are counted together", "post.c", "w->counters.posted += n;", count + "w->counters.posted += n;"},
		{"polls are counted at the device", "poll.c", "n = RTE_MIN(n, (unsigned)VERBS_BURST);", "n = RTE_MIN(n, (unsigned)VERBS_BURST);\n\tw->dev->port++;"},
		{"direct posts are counted together", "direct_post.c", "\tdirect_records_before_bells();\n", "\tstatic unsigned all;\n\tall++;\n\tdirect_records_before_bells();\n"},
		{"queue pairs are outside the thread domain", "qp.c", ".pd = w->pd,", ".pd = w->dev->pd,"},
	} {
		t.Run(m.what, func(t *testing.T) {
			t.Parallel()
			if out, err := runCases(t, r.broken(t, m.file, m.old, m.changed)); err == nil || !strings.Contains(out, "written by both") {
				t.Errorf("%v; it was not noticed:\n%s", err, out)
			}
		})
	}
}
