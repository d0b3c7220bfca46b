package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

// measure runs a program with arguments and appends what it cost to a file, as a line of the
// directory from the top of the module, seconds and seconds of the processor. It returns the
// program's exit code.
func measure(file, program string, args ...string) (code int, err error) {
	dir, err := fromTop()
	if err != nil {
		return 0, err
	}
	c := exec.Command(program, args...)
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	ends := make(chan os.Signal, 1)
	signal.Notify(ends, syscall.SIGQUIT, syscall.SIGINT, syscall.SIGTERM)
	defer signal.Stop(ends)
	begin := time.Now()
	if err := c.Start(); err != nil {
		return 0, err
	}
	go func() {
		for s := range ends {
			_ = c.Process.Signal(s)
		}
	}()
	if err := c.Wait(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		return 0, err
	}
	took := time.Since(begin)
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return 0, err
	}
	_, err = fmt.Fprintf(f, "%s %.1f %.1f\n", dir, took.Seconds(),
		(c.ProcessState.UserTime() + c.ProcessState.SystemTime()).Seconds())
	if code = c.ProcessState.ExitCode(); code < 0 { // a signal ended it
		code = 1
	}
	return code, errors.Join(err, f.Close())
}

// fromTop is the working directory from the directory of its go.mod.
func fromTop() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for top := dir; top != filepath.Dir(top); top = filepath.Dir(top) {
		if _, err := os.Stat(filepath.Join(top, "go.mod")); err == nil {
			return filepath.Rel(top, dir)
		}
	}
	return "", fmt.Errorf("no go.mod above %s", dir)
}
