// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"causeway/config"
)

// TestAuto checks that workers sleep for a time where a port cannot wake them, and that the log says why.
func TestAuto(t *testing.T) { logTask(t, "auto") }

func taskAuto() (string, error) {
	cfg, err := config.Parse("bridge", []byte(strings.Replace(bridgeFile, "idle = \"sleep\"\n", "", 1)))
	if err != nil {
		return "", err
	}
	var log bytes.Buffer
	h, err := Build(cfg, Options{Log: slog.New(slog.NewTextHandler(&log, nil)), NoHuge: true})
	if err != nil {
		return "", err
	}
	const note = `msg=idle_workers idle=sleep note="not interrupt: dpdk: port \"ring\": its driver wakes nobody when frames come"`
	if h.Idle() != config.IdleSleep || !strings.Contains(log.String(), note) {
		err = fmt.Errorf("idle workers %s; log:\n%s", h.Idle(), &log)
	}
	return string(h.Idle()), errors.Join(err, h.Close())
}
