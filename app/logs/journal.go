// SPDX-License-Identifier: Apache-2.0

package logs

import (
	"bytes"
	"io"
	"os"

	"github.com/coreos/go-systemd/v22/journal"
)

// isJournal reports whether lines that are written there go to systemd's journal.
func isJournal(w io.Writer) bool {
	if w != os.Stderr {
		return false
	}
	is, err := journal.StderrIsJournalStream()
	return is && err == nil
}

// Priorities of syslog by level, as the journal reads them at the beginning of a line (sd-daemon(3)).
var priorities = []struct{ level, priority string }{{"ERROR", "<3>"}, {"WARN", "<4>"}, {"INFO", "<6>"}, {"DEBUG", "<7>"}}

// forJournal makes of a line in a log's format what the journal takes: with a priority, and without a time, which it has itself.
func forJournal(line []byte) []byte {
	for _, form := range []struct{ begin, time, end, level, after string }{
		{"", "time=", " ", "level=", " "},
		{"{", `"time":"`, `",`, `"level":"`, `"`},
	} {
		rest, is := bytes.CutPrefix(line, []byte(form.begin+form.time))
		_, rest, ends := bytes.Cut(rest, []byte(form.end))
		if !is || !ends {
			continue
		}
		for _, p := range priorities {
			if bytes.HasPrefix(rest, []byte(form.level+p.level+form.after)) {
				return append([]byte(p.priority+form.begin), rest...)
			}
		}
	}
	return line
}
