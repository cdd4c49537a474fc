// SPDX-License-Identifier: Apache-2.0

package logs

import (
	"bytes"
	"context"
	"log/slog"
)

// Unwritten returns the number of lines that could not be written, because nobody read them, or a disk was full.
func (k *Control) Unwritten() uint64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.unwritten
}

// unwrittenLines counts lines that could not be written.
func (k *Control) unwrittenLines(n uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.unwritten += n
	k.unreported += n
}

// takeUnreported returns how many of them are to be reported now.
func (k *Control) takeUnreported() uint64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	n := k.unreported
	k.unreported = 0
	return n
}

// reportLater has lines reported later, whose report could not be written.
func (k *Control) reportLater(n uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.unreported += n
}

// written reports the lines that could not be written before one that was.
func (k *Control) written() {
	if n := k.takeUnreported(); n > 0 {
		k.note("log_lost", slog.Uint64("lines", n))
	}
}

// lostReport returns the same as a line for an Output, and how many lines it tells of.
func (k *Control) lostReport() (line []byte, lines uint64) {
	n := k.takeUnreported()
	if n == 0 || !k.lost.Enabled(context.Background(), slog.LevelWarn) {
		return nil, 0
	}
	r := slog.NewRecord(k.now(), slog.LevelWarn, "log_lost", 0)
	r.AddAttrs(slog.Uint64("lines", n))
	k.keep(context.Background(), k.splitter, r)
	k.lostLine.Reset()
	_ = k.lost.Handle(context.Background(), r) // a buffer takes all
	k.lines.add(trimmed(k.lostLine.Bytes()))
	if k.journal {
		return forJournal(k.lostLine.Bytes()), n // a copy
	}
	return bytes.Clone(k.lostLine.Bytes()), n
}
