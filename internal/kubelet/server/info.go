package server

import (
	"context"
	"encoding/json"
	"net/http"
	"sort"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/component-base/metrics/prometheus/slis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// healthChecks are what /healthz asks, as upstream names them.
func (s *Server) healthChecks() http.Handler {
	mux := http.NewServeMux()
	healthz.InstallHandler(mux, healthz.PingHealthz, healthz.LogHealthz,
		healthz.NamedCheck("syncloop", func(*http.Request) error {
			if s.opts.Healthz == nil {
				return nil
			}
			return s.opts.Healthz()
		}))
	return mux
}

// slisOf serves /metrics/slis: how often each check of the process held.
func slisOf() http.Handler {
	mux := http.NewServeMux()
	slis.SLIMetricsWithReset{}.Install(mux)
	return mux
}

// healthz answers ok, or 500 and which check failed; one check by its name.
func (s *Server) healthz(w http.ResponseWriter, r *http.Request) { s.health.ServeHTTP(w, r) }

// HealthHandler answers /healthz to everybody: for the port that healthzPort names.
func (s *Server) HealthHandler() http.Handler { return s.health }

func writeJSON(w http.ResponseWriter, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(b)
}

// configz shows the configuration in force.
func (s *Server) configz(w http.ResponseWriter, r *http.Request) {
	if s.opts.Configz == nil {
		http.NotFound(w, r)
		return
	}
	writeJSON(w, map[string]any{"kubeletconfig": s.opts.Configz()})
}

// pods lists the Pods the kubelet has, with the status it knows.
func (s *Server) pods(w http.ResponseWriter, _ *http.Request) {
	list := v1.PodList{TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"}, Items: []v1.Pod{}}
	for _, p := range s.opts.Pods.Pods() {
		list.Items = append(list.Items, *p)
	}
	writeJSON(w, list)
}

// runningPods lists what the runtime runs, whether or not the kubelet wants it.
func (s *Server) runningPods(w http.ResponseWriter, r *http.Request) {
	pods, err := s.fromRuntime(r.Context())
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	writeJSON(w, v1.PodList{TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"}, Items: pods})
}

func (s *Server) fromRuntime(ctx context.Context) ([]v1.Pod, error) {
	sandboxes, err := s.opts.Runtime.ListPodSandbox(ctx,
		&runtimeapi.PodSandboxFilter{
			State: &runtimeapi.PodSandboxStateValue{State: runtimeapi.PodSandboxState_SANDBOX_READY}})
	if err != nil {
		return nil, err
	}
	up, err := s.opts.Runtime.ListContainers(ctx,
		&runtimeapi.ContainerFilter{
			State: &runtimeapi.ContainerStateValue{State: runtimeapi.ContainerState_CONTAINER_RUNNING}})
	if err != nil {
		return nil, err
	}
	out := []v1.Pod{}
	for _, b := range sandboxes {
		p := v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: b.Metadata.GetName(), Namespace: b.Metadata.GetNamespace(),
			UID: types.UID(b.Metadata.GetUid())}}
		for _, c := range up {
			if c.PodSandboxId == b.Id {
				p.Spec.Containers = append(p.Spec.Containers,
					v1.Container{Name: c.Metadata.GetName(), Image: c.Image.GetImage()})
			}
		}
		out = append(out, p)
	}
	sort.Slice(out, func(a, b int) bool {
		return out[a].Namespace < out[b].Namespace || out[a].Namespace == out[b].Namespace && out[a].Name < out[b].Name
	})
	return out, nil
}
