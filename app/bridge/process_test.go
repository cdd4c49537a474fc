// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// DPDK starts once in a process, so each bridge of these tests is built in one of its own: this test binary,
// started again with the name of a task.
const taskVariable = "CAUSEWAY_BRIDGE_TASK"

// tasks are what such a process does; each returns a line to print, or an error.
var tasks = map[string]func() (string, error){
	"carry":     taskCarry,
	"mirrors":   taskMirrors,
	"pending":   taskPending,
	"idle":      taskIdle,
	"never-run": taskNeverRun,
	"leak":      taskLeak,
	"again":     taskAgain,
	"rules":     taskRules,
	"counts":    taskCounts,
	"groups":    taskGroups,
	"cores":     taskCores, "management": taskManagement, "management-nowhere": taskManagementNowhere,
	"auto": taskAuto,
	"fail": taskFail,

	"reload-keys": taskReloadKeys, "reload-traffic": taskReloadTraffic, "single-changes": taskSingleChanges, "reload-ended": taskReloadEnded, "reload-pkeys": taskReloadPKeys,
	"tentative": taskTentative,
	"inject":    taskInject, "losses": taskLosses, "misses": taskMisses, "memory": func() (string, error) { return taskMemory(os.Getenv("MTU")) },
}

func TestMain(m *testing.M) {
	name, ok := os.LookupEnv(taskVariable)
	if !ok {
		flag.Parse()
		_ = flag.Set("test.parallel", "6") // those that say so wait more than they compute
		os.Exit(m.Run())
	}
	line, err := tasks[name]()
	if err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
	fmt.Println(line)
}

// taskLimit ends a task that never ends. The longest ones take a second of a CPU, and may have a hundredth of one.
const taskLimit = 5 * time.Minute

// task does a task in a process of its own and returns what it printed.
func task(t *testing.T, name string, environment ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), taskLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGQUIT) } // it then says where it is
	cmd.WaitDelay = time.Minute
	cmd.Env = append(append(os.Environ(), taskVariable+"="+name), environment...)
	out, err := cmd.CombinedOutput()
	text := strings.TrimSpace(string(out))
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 1 {
		return text, errors.New(text)
	}
	if err != nil {
		t.Fatalf("%s: %v\n%s", name, err, text)
	}
	return text, nil
}

// logTask runs a task that must succeed, and logs what it says.
func logTask(t *testing.T, name string, environment ...string) {
	t.Helper()
	text, err := task(t, name, environment...)
	if err != nil {
		t.Fatal(err)
	}
	t.Log("\n" + text)
}
