package cgroup_test

import (
	"os"
	"os/exec"
	"strconv"
	"testing"
)

const holdEnv = "GANTRY_TEST_HOLD_MEMORY"

// memoryHolder is a child process that takes memory once it may begin.
type memoryHolder struct {
	pid   string
	begin func()
}

func holdMemory(t *testing.T, bytes int) memoryHolder {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", "-test.run=TestHoldMemory$")
	cmd.Env = append(os.Environ(), holdEnv+"="+strconv.Itoa(bytes))
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close() // the child ends with it
		_ = cmd.Wait()
	})
	return memoryHolder{strconv.Itoa(cmd.Process.Pid), func() {
		if _, err := in.Write([]byte("x")); err != nil {
			t.Error(err)
		}
	}}
}

// TestHoldMemory is the child of holdMemory.
func TestHoldMemory(t *testing.T) {
	bytes, err := strconv.Atoi(os.Getenv(holdEnv))
	if err != nil {
		t.Skip("the child of other tests")
	}
	var b [1]byte
	if _, err := os.Stdin.Read(b[:]); err != nil {
		return
	}
	memory := make([]byte, bytes)
	for i := 0; i < len(memory); i += 4096 {
		memory[i] = 1
	}
	_, _ = os.Stdin.Read(b[:]) // until the test ends
	_ = memory[len(memory)-1]
}
