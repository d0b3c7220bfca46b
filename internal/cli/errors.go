package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	// client-go's metrics: informers, work queues, requests, leases
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
)

// Exit codes of every subcommand.
const (
	exitOK    = 0
	exitError = 1
	exitUsage = 2
)

// IO are the streams a subcommand talks to.
type IO struct{ Out, Err io.Writer }

// wrongUsage is a wrong call, as opposed to a call that failed.
type wrongUsage struct{ error }

func (u wrongUsage) Unwrap() error { return u.error }

// UsageError marks err as a wrong call, which ends with its own exit code.
func UsageError(err error) error { return wrongUsage{err} }

// IsUsageError tells whether err is a wrong call.
func IsUsageError(err error) bool {
	var u wrongUsage
	return errors.As(err, &u)
}

// ErrorWithFix is an error that carries what a person can do about it.
type ErrorWithFix struct {
	err error
	Fix string
}

func (r ErrorWithFix) Error() string { return r.err.Error() }

func (r ErrorWithFix) Unwrap() error { return r.err }

// WithFix attaches a remedy to an error; nil stays nil.
func WithFix(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return ErrorWithFix{err, fmt.Sprintf(format, args...)}
}

// Report prints an error as one sentence with its remedy and chooses the exit code.
func Report(w io.Writer, err error) int {
	if err == nil || errors.Is(err, context.Canceled) {
		return exitOK
	}
	fmt.Fprintf(w, "gantry: %v\n", err)
	var r ErrorWithFix
	if errors.As(err, &r) {
		fmt.Fprintf(w, "  → %s\n", r.Fix)
	}
	if IsUsageError(err) {
		return exitUsage
	}
	return exitError
}

const ConfigFix = "name a readable file, and correct the field that the message names; " +
	"kubescheduler.config.k8s.io/v1 documents all"
