package main

import (
	"bufio"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// asProgram makes the test's own binary run main.
const asProgram = "AGNHOST_TEST_RUNS_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	os.Exit(m.Run())
}

func TestServersExitCleanlyOnTerm(t *testing.T) {
	for _, args := range [][]string{{"netexec", "--http-port=0", "--udp-port=0"}, {"exit", "3", "1h"}} {
		t.Run(args[0], func(t *testing.T) {
			p := exec.CommandContext(t.Context(), os.Args[0], args...)
			p.Env = append(os.Environ(), asProgram+"=1")
			out, err := p.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := p.Start(); err != nil {
				t.Fatal(err)
			}
			said, _ := bufio.NewReader(out).ReadString('\n')
			if strings.TrimSpace(said) == "" {
				t.Error("it did not say that it began")
			}
			if err := p.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			if err := p.Wait(); err != nil {
				t.Errorf("%v, want exit code 0", err)
			}
		})
	}
}
