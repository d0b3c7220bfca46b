package metrics_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/kubelet/metrics"
)

func scrape(t *testing.T, h http.Handler) string {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	if w.Code != http.StatusOK {
		t.Fatalf("%d: got %s, want Code StatusOK", w.Code, w.Body)
	}
	return w.Body.String()
}

func want(t *testing.T, text string, lines ...string) {
	t.Helper()
	for _, l := range lines {
		if !strings.Contains("\n"+text, "\n"+l+"\n") {
			t.Errorf("missing: %s", l)
		}
	}
	if t.Failed() {
		t.Log(text)
	}
}

// row: OPS-11
func TestMetrics(t *testing.T) {
	m := metrics.New()
	m.RuntimeCall("RunPodSandbox", 30*time.Millisecond, nil)
	m.RuntimeCall("ContainerStatus", time.Millisecond, errors.New("no"))
	log := m.Sink(journal.Discard{})
	pod := journal.Ref{Namespace: "a", Name: "p", UID: "1"}
	log.Put(pod, journal.Accepted{Source: "api"})
	log.Put(pod, journal.Planned{})
	log.Put(pod, journal.Called{Service: "CRI", Method: "RunPodSandbox"})
	log.Put(pod, journal.Called{Service: "CRI", Method: "StartContainer", Error: "no"})
	log.Put(pod, journal.ContainerStarted{Container: "c", Restart: 1})
	log.Put(pod, journal.Pulled{Image: "i", Bytes: 20 << 20, Took: journal.Took(2 * time.Second)})
	log.Put(pod, journal.ContainerStarted{Container: "first", Init: true})
	log.Put(pod, journal.ContainerExited{Container: "first", Reason: "Completed"})
	log.Put(pod, journal.ContainerExited{Container: "c", ExitCode: 137, Reason: "OOMKilled"})
	log.Put(pod, journal.VolumeReady{Volume: "v", Type: "configMap", Took: journal.Took(2 * time.Second)})
	m.VolumeOperationDone(metrics.VolumeOperation{Plugin: "configMap", Operation: "volume_mount",
		Took: 2 * time.Second, Overall: 3 * time.Second})
	m.VolumeOperationDone(metrics.VolumeOperation{Plugin: "csi", Driver: "d.example.com", Operation: "unmount_device",
		Took: time.Second, Migrated: true, Err: errors.New("busy")})
	gone := journal.Ref{Namespace: "a", Name: "q", UID: "2"}
	log.Put(gone, journal.VolumeReady{Volume: "v", Type: "emptyDir"})
	log.Put(gone, journal.Released{})
	log.Put(pod, journal.PhaseChanged{Phase: "Pending"})
	log.Put(pod, journal.PhaseChanged{Phase: "Running"})
	log.Put(pod, journal.PhaseChanged{Phase: "Running"})
	m.PodWorkerDone("create", time.Millisecond)
	m.PLEGRelisted(time.Unix(100, 0), time.Millisecond)
	m.PLEGRelisted(time.Unix(160, 0), time.Millisecond)
	m.EventStreamConnected(nil)
	m.Cgroup("update", time.Millisecond)
	m.CredentialPluginDone("ecr", time.Millisecond, nil)
	m.CredentialPluginDone("ecr", time.Millisecond, errors.New("no luck"))
	m.CredentialConfig("sha256:abc")
	m.CSICalled("d.example.com", "/csi.v1.Node/NodeStageVolume", status.Error(codes.Aborted, "busy"), time.Millisecond)
	m.ProtectedMemory(7, 5)
	m.Request("GET", "pods", false)()
	m.Attach(metrics.Sources{
		NodeName: "n1", Version: "v1.37.2", Cgroups: 2, MissedEvents: func() int64 { return 3 },
		Pods: func() []*v1.Pod {
			return []*v1.Pod{
				{Spec: v1.PodSpec{
					Volumes: []v1.Volume{{VolumeSource: v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{}}},
						{VolumeSource: v1.VolumeSource{
							PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{}}}}},
					Status: v1.PodStatus{Phase: v1.PodRunning,
						ContainerStatuses: []v1.ContainerStatus{
							{State: v1.ContainerState{Running: &v1.ContainerStateRunning{}}},
							{State: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{}}}}}},
				{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"kubernetes.io/config.source": "file"}},
					Status: v1.PodStatus{Phase: v1.PodFailed}},
			}
		},
		Volumes: func(context.Context) []metrics.Volume {
			return []metrics.Volume{{Namespace: "a", Claim: "data", Used: 7}, {Namespace: "a", Claim: "data", Used: 7}}
		},
		Expiry:  func() map[string]time.Time { return map[string]time.Time{"server": time.Now().Add(-time.Hour)} },
		Plugins: func() map[string]bool { return map[string]bool{"/a.sock": true, "/b.sock": false} },
		Claims:  func() (int, map[string]int) { return 3, map[string]int{"gpu": 2} },
	})
	text := scrape(t, m.Handler())
	want(t, text,
		`kubelet_runtime_operations_total{operation_type="run_podsandbox"} 1`,
		`kubelet_runtime_operations_errors_total{operation_type="container_status"} 1`,
		`kubelet_runtime_operations_duration_seconds_count{operation_type="container_status"} 1`,
		`kubelet_started_pods_total 1`, `kubelet_started_containers_total{container_type="container"} 1`,
		`kubelet_started_containers_errors_total{code="RunContainerError",container_type="container"} 1`,
		`kubelet_image_pull_duration_seconds_sum{image_size_in_bytes="10MB-100MB"} 2`,
		`kubelet_pod_start_duration_seconds_count 1`, `kubelet_pod_worker_start_duration_seconds_count 1`,
		`kubelet_pod_worker_duration_seconds_count{operation_type="create"} 1`,
		`kubelet_pleg_relist_interval_seconds_sum 60`, `kubelet_pleg_relist_duration_seconds_count 2`,
		`kubelet_pleg_last_seen_seconds 160`,
		`kubelet_credential_provider_plugin_duration_count{plugin_name="ecr"} 2`,
		`kubelet_credential_provider_plugin_errors_total{plugin_name="ecr"} 1`,
		`kubelet_credential_provider_config_info{hash="sha256:abc"} 1`,
		`csi_operations_seconds_count{driver_name="d.example.com",grpc_status_code="Aborted",`+
			`method_name="/csi.v1.Node/NodeStageVolume",migrated="false"} 1`,
		`kubelet_memory_qos_node_memory_min_bytes 7`, `kubelet_memory_qos_node_memory_low_bytes 5`,
		`plugin_manager_total_plugins{socket_path="/a.sock",state="actual_state_of_world"} 1`,
		`plugin_manager_total_plugins{socket_path="/b.sock",state="desired_state_of_world"} 1`,
		`dra_resource_claims_in_use{driver_name="<any>"} 3`, `dra_resource_claims_in_use{driver_name="gpu"} 2`,
		`kubelet_evented_pleg_connection_success_count 1`,
		`kubelet_cgroup_manager_duration_seconds_count{operation_type="update"} 1`,
		`kubelet_http_requests_total{long_running="false",method="GET",path="pods",server_type="readwrite"} 1`,
		`kubelet_http_inflight_requests{long_running="false",method="GET",path="pods",server_type="readwrite"} 0`,
		`kubelet_node_name{node="n1"} 1`, `kubelet_running_pods 1`,
		`kubelet_running_containers{container_state="running"} 1`,
		`kubelet_desired_pods{static="true"} 1`, `kubelet_active_pods{static="true"} 0`,
		`kubelet_pleg_missed_events_total 3`,
		`kubelet_volume_stats_used_bytes{namespace="a",persistentvolumeclaim="data"} 7`,
		`kubelet_terminated_containers_total{container_type="init_container",exit_code="0",reason="Completed"} 1`,
		`kubelet_terminated_containers_total{container_type="container",exit_code="137",reason="OOMKilled"} 1`,
		`kubelet_cgroup_version 2`,
		`storage_operation_duration_seconds_sum{migrated="false",operation_name="volume_mount",status="success",`+
			`volume_plugin="kubernetes.io/configmap"} 2`,
		`storage_operation_duration_seconds_sum{migrated="true",operation_name="unmount_device",status="fail-unknown",`+
			`volume_plugin="kubernetes.io/csi:d.example.com"} 1`,
		`volume_operation_total_seconds_sum{operation_name="overall_volume_mount",`+
			`plugin_name="kubernetes.io/configmap"} 3`,
		`volume_manager_total_volumes{plugin_name="kubernetes.io/configmap",state="actual_state_of_world"} 1`,
		`volume_manager_total_volumes{plugin_name="kubernetes.io/configmap",state="desired_state_of_world"} 1`,
		`volume_manager_total_volumes{plugin_name="kubernetes.io/persistent-claim",state="desired_state_of_world"} 1`,
	)
	for _, name := range []string{"process_cpu_seconds_total", "kubernetes_build_info{", "go_goroutines",
		"kubelet_certificate_manager_server_ttl_seconds -"} {
		if !strings.Contains(text, "\n"+name) {
			t.Errorf("missing: %s", name)
		}
	}
}

func TestProbeMetrics(t *testing.T) {
	m := metrics.New()
	log := m.Sink(journal.Discard{})
	pod := journal.Ref{Namespace: "a", Name: "p", UID: "1"}
	log.Put(pod, journal.Accepted{})
	m.ProbeDone(metrics.Probe{Namespace: "a", Pod: "p", UID: "1", Container: "c", Kind: "liveness"},
		"failure", time.Millisecond)
	want(t, scrape(t, m.ProbesHandler()),
		`prober_probe_total{container="c",namespace="a",pod="p",pod_uid="1",probe_type="Liveness",result="failed"} 1`,
		`prober_probe_duration_seconds_count{container="c",namespace="a",pod="p",probe_type="Liveness"} 1`)
	log.Put(pod, journal.Released{})
	if text := scrape(t, m.ProbesHandler()); strings.Contains(text, "prober_probe") {
		t.Errorf("a Pod that is gone has probes: got %s, want it free of %q", text, "prober_probe")
	}
}

func TestNilMetricsCountNothing(t *testing.T) {
	var m *metrics.Metrics
	m.RuntimeCall("Version", 0, nil)
	m.PodWorkerDone("sync", 0)
	m.PLEGRelisted(time.Now(), 0)
	m.EventStreamConnected(nil)
	m.ProbeDone(metrics.Probe{}, "success", 0)
	m.Request("GET", "pods", false)()
	m.Attach(metrics.Sources{})
	if s := m.Sink(journal.Discard{}); s != (journal.Discard{}) {
		t.Errorf("nobody stands in the way of facts: got %v, want %v", s, (journal.Discard{}))
	}
}

// row: KAP-02
func TestRunningPodsAndContainers(t *testing.T) {
	m := metrics.New()
	if err := m.PLEGHealthy(time.Now()); err != nil {
		t.Error(err)
	}
	if err := m.PLEGHealthy(time.Now().Add(4 * time.Minute)); err == nil {
		t.Error("a runtime that never answers is fine")
	}
	at := time.Now().Add(time.Hour)
	m.PLEGRelisted(at, time.Millisecond)
	if err := m.PLEGHealthy(at.Add(2 * time.Minute)); err != nil {
		t.Error(err)
	}
	if err := m.PLEGHealthy(at.Add(4 * time.Minute)); err == nil ||
		err.Error() != "pleg was last seen active 4m0s ago; threshold is 3m0s" {
		t.Errorf(`got %v, want error "pleg was last seen active 4m0s ago; threshold is 3m0s"`, err)
	}
}

// A Pod with user namespaces counts once for each sandbox, and once more when the sync that makes
// it fails, there or at a container; other Pods and later syncs do not.
//
// row: OPS-11
func TestPodsWithUserNamespaces(t *testing.T) {
	m := metrics.New()
	log := m.Sink(journal.Discard{})
	no, yes := false, true
	call := func(uid types.UID, method, failure string) {
		log.Put(journal.Ref{Name: "p", UID: string(uid)},
			journal.Called{Service: "CRI", Method: method, Error: failure})
	}
	for uid, users := range map[types.UID]*bool{"own": &no, "twice": &no, "well": &no, "host": &yes, "silent": nil} {
		m.Admitted(&v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: uid}, Spec: v1.PodSpec{HostUsers: users}})
	}
	for _, uid := range []types.UID{"own", "host", "silent"} {
		call(uid, "RunPodSandbox", "no")
	}
	call("twice", "RunPodSandbox", "")
	call("twice", "CreateContainer", "no")
	call("twice", "CreateContainer", "no")
	call("well", "RunPodSandbox", "")
	log.Put(journal.Ref{Name: "p", UID: "well"}, journal.Planned{})
	call("well", "StartContainer", "no")
	want(t, scrape(t, m.Handler()), "kubelet_started_user_namespaced_pods_total 3",
		"kubelet_started_user_namespaced_pods_errors_total 2")
}
