// SPDX-License-Identifier: Apache-2.0

package command_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"causeway/app/command"
)

// FuzzParse checks that any line is either a command or a mistake that is explained in one line, and can be completed.
func FuzzParse(f *testing.F) {
	for _, c := range lines {
		f.Add(c.line)
	}
	e, _ := env(3)
	f.Fuzz(func(t *testing.T, line string) {
		v, err := command.Standard.Parse(line)
		var usage *command.Usage
		if err != nil && (!errors.As(err, &usage) || strings.Contains(err.Error(), "\n")) {
			t.Errorf("%q: %v", line, err)
		}
		if v != nil && err == nil && v.Command == nil {
			t.Errorf("%q: a line without a command", line)
		}
		c := command.Standard.Choices(context.Background(), e, line)
		c.Complete()
		c.Lines(80)
	})
}
