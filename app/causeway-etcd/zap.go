// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"log/slog"
	"slices"
	"sync/atomic"

	"go.uber.org/zap/zapcore"
)

// A core is etcd's log as lines of ours: what warns, and worse. It implements zapcore.Core.
type core struct {
	log   *slog.Logger
	flush func()       // before the process ends by a message
	ends  *atomic.Bool // etcd is told to end: that this and that is closed now is no news
}

// meant is what etcd warns of at each start, and is so on purpose: bridges use gRPC alone on the clients' port, and no
// passwords. The last two come when it looks for the version of its data before the first of it is written, and looks again.
var meant = []string{"Running http and grpc server on single port. This is not recommended for production.", "simple token is not cryptographically signed",
	"Failed to detect schema version", "failed to update storage version"}

// Enabled implements zapcore.Core.
func (c core) Enabled(l zapcore.Level) bool { return l >= zapcore.WarnLevel }

// With implements zapcore.Core.
func (c core) With(fields []zapcore.Field) zapcore.Core {
	return core{c.log.With(attributes(fields)...), c.flush, c.ends}
}

// Check implements zapcore.Core.
func (c core) Check(e zapcore.Entry, to *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if !c.Enabled(e.Level) || slices.Contains(meant, e.Message) || c.ends.Load() && e.Level <= zapcore.ErrorLevel {
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
