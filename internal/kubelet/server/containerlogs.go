package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/klog/v2"

	"github.com/gantry-project/gantry/internal/kubelet/logs"
)

// containerLogs answers kubectl logs.
func (s *Server) containerLogs(w http.ResponseWriter, r *http.Request) {
	namespace, name, container := r.PathValue("namespace"), r.PathValue("pod"), r.PathValue("container")
	q := r.URL.Query()
	if tail := q.Get("tail"); tail == "all" { // the name before v1
		q.Del("tailLines")
	} else if tail != "" {
		q.Set("tailLines", tail)
	}
	o, err := logOptions(q)
	if err != nil {
		klog.FromContext(r.Context()).V(2).Info("Refusing a query for logs", "query", r.URL.RawQuery, "err", err)
		if errors.As(err, &badRequest{}) {
			http.Error(w, `{"message": "Invalid request."}`, http.StatusUnprocessableEntity)
			return
		}
		http.Error(w, `{"message": "Unable to decode query."}`, http.StatusBadRequest)
		return
	}
	pod, ok := s.opts.Pods.PodByName(namespace, name)
	if !ok {
		http.Error(w, fmt.Sprintf("pod %q does not exist", name), http.StatusNotFound)
		return
	}
	if !hasContainer(pod, container) {
		http.Error(w, fmt.Sprintf("container %q not found in pod %q", container, name), http.StatusNotFound)
		return
	}
	st, err := s.logStatus(r.Context(), pod, container, o.Previous)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	read := logs.Request{Path: st.LogPath, Options: logs.FromPod(o, time.Now()), IsRunning: s.isRunning(st.Id)}
	flush := &flusher{w: w}
	if o.Stream == nil || *o.Stream != v1.LogStreamStderr {
		read.Out = flush
	}
	if o.Stream == nil || *o.Stream != v1.LogStreamStdout {
		read.Err = flush
	}
	w.Header().Set("Content-Type", "text/plain")
	if err := logs.Read(r.Context(), read); err != nil {
		if !flush.started {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		klog.FromContext(r.Context()).V(2).Info("Reading logs ended early", "pod", klog.KObj(pod),
			"container", container, "err", err)
	}
}

// flusher sends what is written at once, so that a follower sees a line when it is written.
type flusher struct {
	w       http.ResponseWriter
	started bool
}

// Write writes and flushes.
func (f *flusher) Write(b []byte) (int, error) {
	f.started = true
	n, err := f.w.Write(b)
	if fl, ok := f.w.(http.Flusher); ok {
		fl.Flush()
	}
	return n, err
}

var _ io.Writer = (*flusher)(nil)

func (s *Server) isRunning(id string) logs.IsRunning {
	return func(ctx context.Context) (bool, error) {
		r, err := s.opts.Runtime.ContainerStatus(ctx, id, false)
		if err != nil {
			return false, err
		}
		return r.Status.State == runtimeapi.ContainerState_CONTAINER_RUNNING, nil
	}
}

// logStatus finds the container whose log is wanted, the current one or the one before it.
func (s *Server) logStatus(ctx context.Context, pod *v1.Pod, name string,
	previous bool) (*runtimeapi.ContainerStatus, error) {
	list, err := s.opts.Runtime.ListContainers(ctx,
		&runtimeapi.ContainerFilter{LabelSelector: map[string]string{labelPodUID: string(pod.UID),
			labelContainer: name}})
	if err != nil {
		return nil, err
	}
	id, err := logID(pod, name, previous, list)
	if err != nil {
		return nil, err
	}
	r, err := s.opts.Runtime.ContainerStatus(ctx, id, false)
	if err != nil {
		return nil, fmt.Errorf("unable to retrieve container logs for %s: %w", id, err)
	}
	if r.Status.LogPath == "" {
		return nil, fmt.Errorf("container %q in pod %q has no log", name, pod.Name)
	}
	return r.Status, nil
}

// logID decides by the Pod's status as upstream does, and by the runtime's list where the status is
// not written yet.
func logID(pod *v1.Pod, name string, previous bool, list []*runtimeapi.Container) (string, error) {
	st, known := statusOf(pod, name)
	if previous {
		if t := st.LastTerminationState.Terminated; t != nil && t.ContainerID != "" {
			return trimRuntimePrefix(t.ContainerID), nil
		}
		if older := newest(list, 1); older != nil {
			return older.Id, nil
		}
		return "", fmt.Errorf("previous terminated container %q in pod %q not found", name, pod.Name)
	}
	waiting := st.State.Waiting
	if now := newest(list, 0); now != nil && now.State != runtimeapi.ContainerState_CONTAINER_CREATED {
		return now.Id, nil
	}
	switch {
	case !known:
		return "", fmt.Errorf("container %q in pod %q is not available", name, pod.Name)
	case st.State.Running != nil:
		return trimRuntimePrefix(st.ContainerID), nil
	case st.State.Terminated != nil && st.State.Terminated.ContainerID != "":
		return trimRuntimePrefix(st.State.Terminated.ContainerID), nil
	case st.LastTerminationState.Terminated != nil && st.LastTerminationState.Terminated.ContainerID != "":
		return trimRuntimePrefix(st.LastTerminationState.Terminated.ContainerID), nil
	case waiting == nil:
		return "", fmt.Errorf("container %q in pod %q is not available", name, pod.Name)
	case waiting.Reason == "ErrImagePull":
		return "", fmt.Errorf("container %q in pod %q is waiting to start: image can't be pulled", name, pod.Name)
	case waiting.Reason == "ImagePullBackOff":
		return "", fmt.Errorf("container %q in pod %q is waiting to start: trying and failing to pull image", name,
			pod.Name)
	}
	return "", fmt.Errorf("container %q in pod %q is waiting to start: %s", name, pod.Name, waiting.Reason)
}

// newest returns the n-th newest container.
func newest(list []*runtimeapi.Container, n int) *runtimeapi.Container {
	sorted := slices.Clone(list)
	slices.SortStableFunc(sorted, func(a, b *runtimeapi.Container) int { return cmp.Compare(b.CreatedAt, a.CreatedAt) })
	if n < len(sorted) {
		return sorted[n]
	}
	return nil
}

// trimRuntimePrefix drops the runtime's name from containerd://id.
func trimRuntimePrefix(id string) string {
	if _, rest, found := strings.Cut(id, "://"); found {
		return rest
	}
	return id
}

// badRequest is a value that can be read and cannot be meant.
type badRequest struct{ error }

// logOptions reads PodLogOptions from a query, as the API server passes them on. Values that cannot
// be meant are refused.
func logOptions(q url.Values) (*v1.PodLogOptions, error) {
	o := &v1.PodLogOptions{}
	for name, field := range map[string]*bool{"follow": &o.Follow, "previous": &o.Previous,
		"timestamps": &o.Timestamps} {
		*field = q.Has(name) && q.Get(name) != "false" && q.Get(name) != "0"
	}
	for name, field := range map[string]**int64{"tailLines": &o.TailLines, "limitBytes": &o.LimitBytes,
		"sinceSeconds": &o.SinceSeconds} {
		text := q.Get(name)
		if text == "" {
			continue
		}
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if n < 0 || n < 1 && name != "tailLines" {
			return nil, badRequest{fmt.Errorf("%s: %d is too small", name, n)}
		}
		*field = &n
	}
	if text := q.Get("sinceTime"); text != "" {
		at, err := time.Parse(time.RFC3339, text)
		if err != nil {
			return nil, fmt.Errorf("sinceTime: %w", err)
		}
		o.SinceTime = &metav1.Time{Time: at}
	}
	if o.SinceTime != nil && o.SinceSeconds != nil {
		return nil, badRequest{errors.New("at most one of sinceTime or sinceSeconds may be specified")}
	}
	switch text := q.Get("stream"); text {
	case "", v1.LogStreamAll:
	case v1.LogStreamStdout, v1.LogStreamStderr:
		if o.Stream = &text; o.TailLines != nil {
			return nil, badRequest{errors.New("tailLines and specific stream are mutually exclusive for now")}
		}
	default:
		return nil, badRequest{fmt.Errorf("stream: %q is not All, Stdout or Stderr", text)}
	}
	return o, nil
}
