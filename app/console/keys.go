// SPDX-License-Identifier: Apache-2.0

package console

import (
	"context"
	"fmt"
	"io"
	"sync"
)

// keys are those of a terminal in raw mode. They go to the session, or answer a question of ctl's own, which the bridge
// can neither hear nor answer.
type keys struct {
	out    io.Writer
	send   func([]byte)
	mu     sync.Mutex
	line   []byte
	answer chan string // of a question; nil: there is none
}

// ask asks a question, and returns the line that is typed; "" after Ctrl-C, or when ctx ends.
func (k *keys) ask(ctx context.Context, question string) string {
	answer := make(chan string, 1)
	k.mu.Lock()
	fmt.Fprint(k.out, question)
	k.line, k.answer = nil, answer
	k.mu.Unlock()
	select {
	case line := <-answer:
		return line
	case <-ctx.Done():
		return ""
	}
}

// typed takes keys.
func (k *keys) typed(b []byte) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for i, x := range b {
		if k.answer == nil {
			k.send(b[i:])
			return
		}
		k.key(x)
	}
}

// key takes a key of an answer.
func (k *keys) key(x byte) {
	const backspace, del = 8, 127
	switch {
	case x == '\r' || x == interrupt:
		if x == interrupt {
			k.line = nil
		}
		fmt.Fprint(k.out, "\r\n")
		k.answer <- string(k.line)
		k.answer = nil
	case x == backspace || x == del:
		if n := len(k.line); n > 0 {
			k.line = k.line[:n-1]
			fmt.Fprint(k.out, "\b \b")
		}
	case x >= ' ' && x < del && len(k.line) < 80:
		k.line = append(k.line, x)
		fmt.Fprintf(k.out, "%c", x)
	}
}
