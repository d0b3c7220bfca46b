package probe

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Purpose is what a probe's result is used for.
type Purpose string

// The three probes of a container.
const (
	Liveness  Purpose = "liveness"
	Readiness Purpose = "readiness"
	Startup   Purpose = "startup"
)

// Kind is the contract's name for Purpose.
type Kind = Purpose

// Key names one probe of one container.
type Key struct {
	UID       types.UID
	Container string
	Kind      Kind
}

// Result is one answer.
type Result int

// Answers. Warning counts as Success and is reported. An Outcome with Err set is no answer: it is
// reported and counts for nothing.
const (
	Unknown Result = iota
	Success
	Warning
	Failure
)

// Outcome is what came of asking once.
type Outcome struct {
	Result Result
	Output string // what the container said; goes into events
	Err    error  // it could not be asked
	// Connection is how connecting went where Output does not tell: journal.ProbeConnected,
	// journal.ProbeRefused, or empty
	Connection string
}

// Health is what the answers add up to.
type Health int

// Results. Pending is a startup probe that has not succeeded yet, or any probe before its first
// result (see InitialHealth).
const (
	Pending Health = iota
	Healthy
	Unhealthy
)

// Spec is how a probe counts and when it asks, with the API's defaults filled in.
type Spec struct {
	InitialDelay, Period, Timeout      time.Duration
	SuccessThreshold, FailureThreshold int
}

// Target is whom a kind asks, and how.
type Target struct {
	Probe       *v1.Probe
	Pod         *v1.Pod
	Container   *v1.Container
	ContainerID string // without the runtime's prefix
	PodIP       string
	Timeout     time.Duration
}

// Prober is one kind of question: http, tcp, exec, grpc.
type Prober interface {
	Probe(ctx context.Context, t Target) Outcome
}
