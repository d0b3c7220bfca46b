package crifake

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// Fault makes an RPC misbehave. Terms are used up from left to right, then the RPC works:
// "2*error(no space)->ok", "delay(2s)", "1*drop".
//
//	[N*]ok            works
//	[N*]error(text)   fails with code Unknown; error(NotFound: text) with that code
//	[N*]delay(D)      works after D
//	[N*]hang          answers only when the caller gives up
//	[N*]late(D)       works after D, also when the caller has given up by then; not
//	                  when the runtime is killed meanwhile
//	[N*]drop          works, but the answer is lost: the caller sees Unavailable
//
// A term without N holds for good. Method is the RPC's name (StartContainer). An empty terms string
// ends the fault.
func (f *Fake) Fault(method, terms string) error {
	list, err := parseFaults(terms)
	if err != nil {
		return fmt.Errorf("crifake: fault %s %q: %w", method, terms, err)
	}
	f.faults.set(method, list)
	return nil
}

type term struct {
	remaining int // negative: for good
	action    string
	arg       string
}

func parseFaults(terms string) ([]term, error) {
	if strings.TrimSpace(terms) == "" {
		return nil, nil
	}
	var list []term
	for _, s := range strings.Split(terms, "->") {
		t := term{remaining: -1}
		s = strings.TrimSpace(s)
		if n, rest, found := strings.Cut(s, "*"); found && !strings.Contains(n, "(") {
			count, err := strconv.Atoi(n)
			if err != nil || count < 1 {
				return nil, fmt.Errorf("term %q: the number before * is not a count", s)
			}
			t.remaining, s = count, rest
		}
		name, arg, hasArg := strings.Cut(s, "(")
		if hasArg {
			if !strings.HasSuffix(arg, ")") {
				return nil, fmt.Errorf("term %q: ) is missing", s)
			}
			arg = strings.TrimSuffix(arg, ")")
		}
		t.action, t.arg = name, arg
		switch name {
		case "ok", "hang", "drop", "error":
		case "delay", "late":
			if _, err := time.ParseDuration(arg); err != nil {
				return nil, fmt.Errorf("term %q: %w", s, err)
			}
		default:
			return nil, fmt.Errorf("term %q: unknown action; known are ok, error, delay, late, hang, drop", s)
		}
		list = append(list, t)
	}
	return list, nil
}

// faultPlan says how calls go wrong; *faults is one.
type faultPlan interface {
	// set has a method's next calls go as the terms say, one after another.
	set(method string, list []term)
	next(method string) term
}

// faults is the faultPlan of tests' scripts.
type faults struct {
	mu       sync.Mutex
	byMethod map[string][]term
}

func newFaults() *faults { return &faults{byMethod: map[string][]term{}} }

func (f *faults) set(method string, list []term) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.byMethod[method] = list
}

// next uses up one term.
func (f *faults) next(method string) term {
	f.mu.Lock()
	defer f.mu.Unlock()
	list := f.byMethod[method]
	if len(list) == 0 {
		return term{action: "ok"}
	}
	t := list[0]
	if t.remaining > 0 {
		if list[0].remaining--; list[0].remaining == 0 {
			f.byMethod[method] = list[1:]
		}
	}
	return t
}

// intercept applies faults and records the call.
func (f *Fake) intercept(ctx context.Context, req any, info *grpc.UnaryServerInfo,
	handler grpc.UnaryHandler) (any, error) {
	method := path.Base(info.FullMethod)
	t := f.faultOf(method, req)
	if t.action == "late" {
		defer f.reserve(req)()
	}
	resp, err := f.inject(ctx, t, func() (any, error) { return handler(ctx, req) })
	f.calls.add(method, req, err)
	return resp, err
}

func (f *Fake) inject(ctx context.Context, t term, do func() (any, error)) (any, error) {
	switch t.action {
	case "error":
		return nil, faultError(t.arg)
	case "delay":
		d, _ := time.ParseDuration(t.arg)
		select {
		case <-time.After(d):
		case <-ctx.Done():
			return nil, status.FromContextError(ctx.Err()).Err()
		}
	case "late":
		d, _ := time.ParseDuration(t.arg)
		life := f.currentServer()
		<-time.After(d)
		if f.currentServer() != life {
			return nil, status.Error(codes.Unavailable, "error reading from server: EOF")
		}
	case "hang":
		<-ctx.Done()
		return nil, status.FromContextError(ctx.Err()).Err()
	case "drop":
		if _, err := do(); err != nil {
			return nil, err
		}
		return nil, status.Error(codes.Unavailable, "error reading from server: EOF")
	}
	resp, err := do()
	if err != nil && status.Code(err) == codes.Unknown && (errors.Is(err, context.Canceled) || errors.Is(err,
		context.DeadlineExceeded)) {
		err = status.FromContextError(err).Err()
	}
	return resp, err
}

func faultError(text string) error {
	name, rest, found := strings.Cut(text, ":")
	if found {
		for c := codes.OK; c <= codes.Unauthenticated; c++ {
			if c.String() == name {
				return status.Error(c, strings.TrimSpace(rest))
			}
		}
	}
	return status.Error(codes.Unknown, text)
}

// Call is one RPC the fake answered.
type Call struct {
	At      time.Time
	Method  string
	Request proto.Message
	Err     error
}

const maxCalls = 4096

// callRecorder keeps the RPCs that were answered; *callLog is one.
type callRecorder interface {
	add(method string, req any, err error)
	// acting are the last RPCs that did not only ask, oldest first.
	acting() []Call
	times(method string) int
}

// callLog counts all RPCs and keeps the last acting ones.
type callLog struct {
	mu    sync.Mutex
	list  []Call
	count map[string]int
}

func newCallLog() *callLog { return &callLog{count: map[string]int{}} }

func (l *callLog) acting() []Call {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]Call(nil), l.list...)
}

func (l *callLog) times(method string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.count[method]
}

func (l *callLog) add(method string, req any, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count[method]++
	if !isMutation(method) {
		return
	}
	m, _ := req.(proto.Message)
	if len(l.list) == maxCalls {
		l.list = append(l.list[:0:0], l.list[maxCalls/2:]...)
	}
	l.list = append(l.list, Call{At: time.Now(), Method: method, Request: m, Err: err})
}

// isMutation tells RPCs that ask from RPCs that act.
func isMutation(method string) bool {
	switch method {
	case "Version", "Status", "RuntimeConfig", "ImageStatus", "ImageFsInfo", "PodSandboxStatus", "ContainerStatus",
		"ContainerStats", "PodSandboxStats":
		return false
	}
	return !strings.HasPrefix(method, "List")
}

// Calls returns the last acting RPCs (not those that only ask), oldest first.
func (f *Fake) Calls() []Call { return f.calls.acting() }

// Count says how often a method was called since the start.
func (f *Fake) Count(method string) int { return f.calls.times(method) }
