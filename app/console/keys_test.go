// SPDX-License-Identifier: Apache-2.0

package console

import (
	"bytes"
	"context"
	"strings"
	"testing"
)

// TestKeys checks that a question takes the keys up to the end of its answer, that the session has all others, and that
// the bridge's end is no answer.
func TestKeys(t *testing.T) {
	for typed, want := range map[string]struct{ answer, session string }{
		"yes\rshow hosts\r":             {"yes", "show hosts\r"},
		"yep\x7f\x08es\r\x03":           {"yes", "\x03"},
		"\x7fno\rq":                     {"no", "q"},
		"ye\x1b\x00s\r":                 {"yes", ""},
		"yes\x03yes\r":                  {"", "yes\r"},
		strings.Repeat("y", 100) + "\r": {strings.Repeat("y", 80), ""},
	} {
		var out, session bytes.Buffer
		k := &keys{out: &out, send: func(b []byte) { session.Write(b) }}
		k.typed([]byte("before"))
		answered := make(chan string)
		go func() { answered <- k.ask(t.Context(), "Sure? ") }()
		for asked := false; !asked; {
			k.mu.Lock()
			asked = k.answer != nil
			k.mu.Unlock()
		}
		k.typed([]byte(typed))
		if got := <-answered; got != want.answer || session.String() != "before"+want.session || !strings.HasPrefix(out.String(), "Sure? ") {
			t.Errorf("%q: answered %q, the session got %q, shown %q", typed, got, &session, &out)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	k := &keys{out: &bytes.Buffer{}}
	if got := k.ask(ctx, "Sure? "); got != "" {
		t.Errorf("answered %q", got)
	}
}
