// SPDX-License-Identifier: Apache-2.0

package command_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"causeway/app/command"
)

// TestConfirm checks that each command that changes the configuration can wait for confirmation, that it says so, as
// "show status" does, and that such a change is not written to the file.
func TestConfirm(t *testing.T) {
	for _, line := range []string{
		"add host 10.9.0.8 gid fe80::8", "add group 239.1.2.4", "add service 7174", "set policing 239.1.2.3 5k", "remove host 10.9.0.7",
		"remove group 239.1.2.3", "remove service 7175", "reload", "reload undo",
	} {
		e, b := env(3)
		if line == "reload undo" {
			run(t, e, "reload")
		}
		if text := run(t, e, line+" confirm 90").Text(0); !strings.Contains(text, "This goes back in 1m30s, unless you say confirm before.") {
			t.Errorf("%s:\n%s", line, text)
		}
		if !slices.Contains(b.Notes(), "tentatively 1m30s") {
			t.Errorf("%s: %q", line, b.Notes())
		}
		if text := run(t, e, "show status").Text(0); !strings.Contains(text, `a change waits for "confirm"; without it, it goes back at `) || !strings.Contains(text, "confirm within  1m") {
			t.Errorf("%s: %s", line, text)
		}
		if err := fails(t, e, "write"); !strings.Contains(err, "is not confirmed") {
			t.Errorf("%s: write: %s", line, err)
		}
		run(t, e, "confirm")
		if text := run(t, e, "show status").Text(0); strings.Contains(text, "confirm") {
			t.Errorf("%s: %s", line, text)
		}
	}
	e, b := env(3)
	run(t, e, "add group 239.1.2.4")
	if len(b.Notes()) > 0 {
		t.Errorf("without confirm: %q", b.Notes())
	}
	if err := fails(t, e, "reload check confirm 5"); !strings.Contains(err, "leave confirm out") {
		t.Error(err)
	}
}

// fails runs a line that must fail, and returns its error.
func fails(t *testing.T, e *command.Env, line string) string {
	t.Helper()
	v, err := command.Standard.Parse(line)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = v.Command.Run(context.Background(), v.Call(e, command.Admin, "test")); err == nil {
		t.Fatalf("%s: no error", line)
	}
	return err.Error()
}
