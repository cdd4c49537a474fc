// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"log/slog"

	"go.uber.org/zap/zapcore"
)

// A core is etcd's log as lines of ours: what warns, and worse. It implements zapcore.Core.
type core struct {
	log   *slog.Logger
	flush func() // before the process ends by a message
}

// Enabled implements zapcore.Core.
func (c core) Enabled(l zapcore.Level) bool { return l >= zapcore.WarnLevel }

// With implements zapcore.Core.
func (c core) With(fields []zapcore.Field) zapcore.Core {
	return core{c.log.With(attributes(fields)...), c.flush}
}

// Check implements zapcore.Core.
func (c core) Check(e zapcore.Entry, to *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if !c.Enabled(e.Level) {
		return to
	}
	return to.AddCore(e, c)
}

// Write implements zapcore.Core. zap panics, or ends the process, after some messages.
func (c core) Write(e zapcore.Entry, fields []zapcore.Field) error {
	level := slog.LevelWarn
	if e.Level >= zapcore.ErrorLevel {
		level = slog.LevelError
	}
	c.log.Log(context.Background(), level, "etcd", append([]any{"message", e.Message}, attributes(fields)...)...)
	if e.Level > zapcore.ErrorLevel {
		c.flush()
	}
	return nil
}

// Sync implements zapcore.Core.
func (c core) Sync() error { return nil }

// attributes returns fields as those of slog, in their order.
func attributes(fields []zapcore.Field) (all []any) {
	for _, f := range fields {
		m := zapcore.NewMapObjectEncoder()
		f.AddTo(m)
		if v, ok := m.Fields[f.Key]; ok { // an error also has a key with its details, which is left out
			all = append(all, slog.Any(f.Key, v))
		}
	}
	return all
}
