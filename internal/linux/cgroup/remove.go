package cgroup

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// The kernel frees a cgroup shortly after its last process is gone; Remove retries until then.
const (
	removePatience = 10 * time.Second
	removePause    = 5 * time.Millisecond
)

// Remove kills all processes in the cgroup and below and removes its directories, also those that
// the runtime made in the hybrid unified hierarchy. It succeeds if there is nothing.
func (t *Tree) Remove(p string) error {
	p, err := t.absolutePath(p)
	if err != nil {
		return err
	}
	deadline := time.Now().Add(removePatience)
	for _, root := range t.hierarchy.roots() {
		dir := filepath.Join(root, p)
		for {
			removeErr := removeTree(dir)
			if removeErr == nil {
				break
			}
			if err := t.hierarchy.kill(dir); err != nil {
				return fmt.Errorf("cgroup %s: %w", p, err)
			}
			if time.Now().After(deadline) {
				pids, _ := processes(dir)
				return fmt.Errorf("cgroup %s cannot be removed, it holds processes %v: %w", p, pids, removeErr)
			}
			time.Sleep(removePause)
		}
	}
	return nil
}

// removeTree removes the directories bottom-up and returns the first error.
func removeTree(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() {
			if err := removeTree(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	if err := syscall.Rmdir(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return &fs.PathError{Op: "rmdir", Path: dir, Err: err}
	}
	return nil
}

// walk calls f for dir and every cgroup below it.
func walk(dir string, f func(dir string)) {
	_ = filepath.WalkDir(dir, func(p string, e fs.DirEntry, err error) error {
		if err == nil && e.IsDir() {
			f(p)
		}
		return nil // a cgroup that vanished meanwhile is none
	})
}

func processes(dir string) ([]int, error) {
	var pids []int
	var failed error
	walk(dir, func(d string) {
		f, err := os.Open(filepath.Join(d, "cgroup.procs"))
		if err != nil {
			return
		}
		defer f.Close()
		for s := bufio.NewScanner(f); s.Scan(); {
			pid, err := strconv.Atoi(s.Text())
			if err != nil {
				failed = fmt.Errorf("%s: %w", f.Name(), err)
				return
			}
			pids = append(pids, pid)
		}
	})
	return pids, failed
}

// killAll sends KILL to every process below dir, never to ourselves nor to init.
func killAll(dir string) error {
	pids, err := processes(dir)
	if err != nil {
		return err
	}
	for _, pid := range pids {
		if pid <= 1 || pid == os.Getpid() {
			return fmt.Errorf("process %d must not be killed and keeps %s", pid, dir)
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("kill %d: %w", pid, err)
		}
	}
	return nil
}
