// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"causeway/config"
	"causeway/ibside"
)

func TestPoolFitsMemory(t *testing.T) {
	t.Parallel()
	for _, mtu := range []string{"1500", "4200", "5000", "7000"} {
		if out, err := task(t, "memory", "MTU="+mtu); err != nil {
			t.Errorf("MTU %s: %v", mtu, err)
		} else {
			t.Log(out)
		}
	}
}

// keeping is a port that keeps receive buffers posted.
type keeping struct{ ibside.OpenPort }

func (keeping) Info() ibside.Info { return ibside.Info{Receives: 8192} }

// taskMemory checks that packet buffers of a number that the memory bounds take half of it, as config takes for
// granted, but for a little; and that the log says what the buffers take, and those that are posted at a device.
func taskMemory(mtu string) (string, error) {
	const memory = 256
	text := strings.NewReplacer("memory_mib = 64\nmbufs = 2048", fmt.Sprintf("memory_mib = %d", memory), "mtu = 4200", "mtu = "+mtu,
		"lcores = [0]", "lcores = [0, 1, 2, 3, 4, 5, 6, 7]").Replace(bridgeFile)
	cfg, err := config.Parse("bridge", []byte(text))
	if err != nil {
		return "", err
	}
	cfg.Workers.LCores = []int{0}
	var log bytes.Buffer
	b := &Bridge{cfg: cfg, log: slog.New(slog.NewJSONHandler(&log, nil)), ibPort: keeping{}}
	for _, step := range []func() error{func() error { return b.startEAL(true) }, b.makePool, b.makeTables} {
		if err := step(); err != nil {
			return "", errors.Join(err, b.teardown.run())
		}
	}
	logSizes(b)
	taken, each := b.pool.Bytes(), b.pool.Bytes()/b.pool.Size()
	if half := memory << 20 / 2; taken > half || taken < half*95/100 {
		err = fmt.Errorf("%d packet buffers of %d bytes take %d MiB of %d", b.pool.Size(), each, taken>>20, memory)
	}
	var said struct {
		Msg                                 string
		Packets, Receives, MiB, ReceivesMiB int
	}
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	line := strings.NewReplacer(`"receive_buffers"`, `"receives"`, `"packets_mib"`, `"mib"`, `"receive_buffers_mib"`, `"receivesmib"`).
		Replace(lines[len(lines)-1])
	err = errors.Join(err, json.Unmarshal([]byte(line), &said))
	if said.Msg != "sizes" || said.Packets != b.pool.Size() || said.MiB != taken>>20 || said.Receives != 8192 || said.ReceivesMiB != 8192*each>>20 {
		err = errors.Join(err, fmt.Errorf("the log says %s", line))
	}
	return fmt.Sprintf("%d of %d bytes: %d MiB", b.pool.Size(), each, taken>>20), errors.Join(err, b.teardown.run())
}
