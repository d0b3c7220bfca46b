package lifecycle

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
)

// history is every version of the Pod and every event that was delivered, in order.
type history struct {
	startedAt time.Time

	mu     sync.Mutex
	pods   []*corev1.Pod // nil: deleted
	events []*corev1.Event
	lines  []string
	more   chan struct{}
}

func watch(ctx context.Context, t testing.TB, client kubernetes.Interface, ns string) *history {
	t.Helper()
	h := &history{startedAt: time.Now(), more: make(chan struct{})}
	follow := func(open func() (kwatch.Interface, error)) {
		w, err := open()
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			for h.take(w); ctx.Err() == nil; h.take(w) {
				if w, err = open(); err != nil {
					h.record("watch: %v", err)
					return
				}
			}
		}()
	}
	follow(func() (kwatch.Interface, error) { return client.CoreV1().Pods(ns).Watch(ctx, metav1.ListOptions{}) })
	follow(func() (kwatch.Interface, error) { return client.CoreV1().Events(ns).Watch(ctx, metav1.ListOptions{}) })
	return h
}

func (h *history) record(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lines = append(h.lines, fmt.Sprintf("%9s  ", time.Since(h.startedAt).Round(time.Millisecond))+fmt.Sprintf(format,
		args...))
}

// take writes down what a watch delivers until it ends: with the case, or because the server ends
// it.
func (h *history) take(w kwatch.Interface) {
	defer w.Stop()
	defer h.record("a watch ended")
	for e := range w.ResultChan() {
		h.mu.Lock()
		at := time.Since(h.startedAt).Round(time.Millisecond)
		switch o := e.Object.(type) {
		case *corev1.Pod:
			if e.Type == kwatch.Deleted {
				h.lines = append(h.lines, fmt.Sprintf("%9s  gone; last %s %v %v", at, o.Status.Phase, states(o),
					conditions(o)))
				h.pods = append(h.pods, o, nil)
				break
			}
			h.lines = append(h.lines, fmt.Sprintf("%9s  %s %v %v deleting=%v", at, o.Status.Phase, states(o),
				conditions(o), o.DeletionTimestamp != nil))
			h.pods = append(h.pods, o)
		case *corev1.Event:
			h.lines = append(h.lines, fmt.Sprintf("%9s  event %s %s x%d: %s", at, o.InvolvedObject.FieldPath, o.Reason,
				o.Count, o.Message))
			// nobody set one
			if e.Type != kwatch.Deleted && o.InvolvedObject.Kind == "Pod" && o.Reason != "MissingClusterDNS" {
				h.events = append(h.events, o)
			}
		}
		close(h.more)
		h.more = make(chan struct{})
		h.mu.Unlock()
	}
}

func (h *history) transcript() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return strings.Join(h.lines, "\n")
}

// now is the newest version of the Pod (nil: gone or not there yet) and what wakes when there is
// another.
func (h *history) now() (pod *corev1.Pod, any bool, more <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if n := len(h.pods); n > 0 {
		return h.pods[n-1], true, h.more
	}
	return nil, false, h.more
}

// last is the newest version of the Pod that there was.
func (h *history) last() *corev1.Pod {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := len(h.pods) - 1; i >= 0; i-- {
		if h.pods[i] != nil {
			return h.pods[i]
		}
	}
	return nil
}

func (h *history) phases() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []string
	for _, p := range h.pods {
		if p != nil && (len(out) == 0 || out[len(out)-1] != string(p.Status.Phase)) {
			out = append(out, string(p.Status.Phase))
		}
	}
	return strings.Join(out, " ")
}

// reasons are the events by container, each reason where it was first seen.
func (h *history) reasons() map[string]string {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := map[string][]string{}
	for _, e := range h.events {
		name := container(e)
		if !slices.Contains(all[name], e.Reason) {
			all[name] = append(all[name], e.Reason)
		}
	}
	out := map[string]string{}
	for name, list := range all {
		out[name] = strings.Join(list, " ")
	}
	return out
}

// container reads the name out of spec.containers{name}.
func container(e *corev1.Event) string {
	_, rest, _ := strings.Cut(e.InvolvedObject.FieldPath, "{")
	return strings.TrimSuffix(rest, "}")
}

// containerEvent finds an event of a container by its reason.
func (h *history) containerEvent(name, reason string) *corev1.Event {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range slices.Backward(h.events) {
		if container(e) == name && e.Reason == reason {
			return e
		}
	}
	return nil
}

func conditions(p *corev1.Pod) (out []string) {
	if p == nil {
		return nil
	}
	for _, c := range p.Status.Conditions {
		s := string(c.Type) + "=" + string(c.Status)
		if c.Reason != "" {
			s += "/" + c.Reason
		}
		out = append(out, s)
	}
	return out
}

// allStatuses are the statuses of every container, in order.
func allStatuses(p *corev1.Pod) []corev1.ContainerStatus {
	return slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses,
		p.Status.EphemeralContainerStatuses)
}

func states(p *corev1.Pod) map[string]string {
	out := map[string]string{}
	if p == nil {
		return out
	}
	for _, s := range allStatuses(p) {
		out[s.Name] = state(s)
	}
	return out
}

func state(s corev1.ContainerStatus) string {
	text := "waiting"
	switch {
	case s.State.Running != nil:
		text = "running"
	case s.State.Terminated != nil:
		text = fmt.Sprintf("ended %d %s", s.State.Terminated.ExitCode, s.State.Terminated.Reason)
	case s.State.Waiting != nil:
		text = "waiting " + cmp.Or(s.State.Waiting.Reason, "?")
	}
	if s.RestartCount > 0 {
		text += fmt.Sprintf(" x%d", s.RestartCount)
	}
	return text
}
