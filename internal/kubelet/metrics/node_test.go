package metrics_test

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/kubelet/metrics"
)

// What the node does beside driving Pods is counted under upstream's names and labels.
func TestNodeWorkIsCounted(t *testing.T) {
	m := metrics.New()
	size := func(cpu, limit string) *v1.Pod {
		p := &v1.Pod{Spec: v1.PodSpec{Priority: new(int32(500)), Containers: []v1.Container{{Name: "a"}}}}
		r := &p.Spec.Containers[0].Resources
		r.Requests = v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu)}
		if limit != "" {
			r.Limits = v1.ResourceList{v1.ResourceMemory: resource.MustParse(limit)}
		}
		return p
	}
	m.Admitted(size("1", ""))
	m.ResizeRequested(size("1", ""), size("2", "1Gi"))
	m.ResizeRequested(size("2", "1Gi"), size("1", ""))
	m.ResizeInfeasible(`Resize is infeasible for Guaranteed Pods alongside CPU Manager policy "static"`)
	m.ResizeInfeasible("In-place resize of static-pods is not supported") // upstream counts none of these
	m.ResizeDeferred(size("1", ""), "accepted", 7*time.Second)
	m.Resized(20*time.Millisecond, nil)
	m.Preempted("cpu", 2)
	m.ImageCollected("age")
	m.Orphaned()
	m.Shutdown(true, time.Unix(100, 0))
	m.Shutdown(false, time.Unix(130, 0))
	m.Started(metrics.Startup{Boot: time.Unix(1, 0), Kubelet: time.Unix(3, 0), Attempt: time.Unix(6, 0),
		Registered: time.Unix(10, 0), Ready: time.Unix(15, 0)})
	m.Sink(journal.Discard{}).Put(journal.Ref{}, journal.StorageExceeded{Of: journal.OfVolume})
	waits := size("1", "")
	waits.Status.Conditions = []v1.PodCondition{{Type: v1.PodResizePending, Status: v1.ConditionTrue,
		Reason: "Deferred"}}
	runs := size("1", "")
	runs.Status.Conditions = []v1.PodCondition{{Type: v1.PodResizeInProgress, Status: v1.ConditionTrue}}
	m.Attach(metrics.Sources{Pods: func() []*v1.Pod { return []*v1.Pod{waits, runs} }})
	want(t, scrape(t, m.Handler()),
		`kubelet_containers_per_pod_count_sum 1`,
		`kubelet_pod_level_resources_admission_total{config_mode="container_level",qos_class="burstable"} 1`,
		`kubelet_container_requested_resizes_total{operation="increase",requirement="requests",resource="cpu"} 1`,
		`kubelet_container_requested_resizes_total{operation="add",requirement="limits",resource="memory"} 1`,
		`kubelet_container_requested_resizes_total{operation="remove",requirement="limits",resource="memory"} 1`,
		`kubelet_pod_infeasible_resizes_total{reason_detail="guaranteed_pod_cpu_manager_static_policy"} 1`,
		`kubelet_pod_deferred_resize_duration_seconds_sum{priority_bucket="medium",resolution="accepted"} 7`,
		`kubelet_pod_resize_duration_milliseconds_sum{success="true"} 20`,
		`kubelet_pod_pending_resizes{priority_bucket="medium",reason="deferred"} 1`,
		`kubelet_pod_in_progress_resizes 1`,
		`kubelet_preemptions{preemption_signal="cpu"} 2`, `kubelet_evictions{eviction_signal="emptydirfs.limit"} 1`,
		`kubelet_image_garbage_collected_total{reason="age"} 1`, `kubelet_orphaned_runtime_pods_total 1`,
		`kubelet_graceful_shutdown_start_time_seconds 100`, `kubelet_graceful_shutdown_end_time_seconds 130`,
		`kubelet_node_startup_pre_kubelet_duration_seconds 2`,
		`kubelet_node_startup_pre_registration_duration_seconds 3`,
		`kubelet_node_startup_registration_duration_seconds 4`,
		`kubelet_node_startup_post_registration_duration_seconds 5`,
		`kubelet_node_startup_duration_seconds 14`,
	)
}
