package gather

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/gantry-project/gantry/internal/explain"
	"github.com/gantry-project/gantry/internal/kubelet/eviction"
)

// pressedCluster is an API server in front of a kubelet whose node has so little memory left.
func pressedCluster(t *testing.T, available int64, asked *[]string) kubernetes.Interface {
	t.Helper()
	pod := func(name, request string) corev1.Pod {
		p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "shop"},
			Spec: corev1.PodSpec{NodeName: "n1", Containers: []corev1.Container{{Name: "app",
				Resources: corev1.ResourceRequirements{
					Requests: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(request)}}}}}}
		p.Status.Phase = corev1.PodRunning
		return p
	}
	web, db, old := pod("web", "100Mi"), pod("db", "1Gi"), pod("old", "1Gi")
	old.Status.Phase = corev1.PodFailed
	use := func(name string, mi int) string {
		return fmt.Sprintf(`{"podRef":{"name":%q,"namespace":"shop","uid":"x"},"memory":`+
			`{"workingSetBytes":%d},"containers":`+
			`[{"name":"app","memory":{"workingSetBytes":%[2]d},"rootfs":{"usedBytes":7,"inodesUsed":1}}],`+
			`"process_stats":{"process_count":3}}`, name, mi<<20)
	}
	answers := map[string]any{
		"/api/v1/nodes/n1": &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}, Status: corev1.NodeStatus{
			Capacity: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("4Gi")}}},
		"/api/v1/pods":                     &corev1.PodList{Items: []corev1.Pod{web, db, old}},
		"/api/v1/namespaces/shop/pods/web": &web, "/api/v1/namespaces/shop/pods/old": &old,
		"/api/v1/nodes/n1/proxy/configz": json.RawMessage(`{"kubeletconfig":` +
			`{"evictionHard":{"memory.available":"100Mi",` +
			`"imagefs.available":"15%","imagefs.inodesFree":"5%","nodefs.available":"10%","nodefs.inodesFree":"5%"},` +
			`"enforceNodeAllocatable":["pods"]}}`),
		"/api/v1/nodes/n1/proxy/metrics": json.RawMessage(`"gantry_eviction_signal_available"`),
		"/api/v1/nodes/n1/proxy/stats/summary": json.RawMessage(fmt.Sprintf(
			`{"node":{"memory":{"availableBytes":%d,"workingSetBytes":%d},`+
				`"rlimit":{"maxpid":1000,"curproc":200},"fs":{"availableBytes":50000000000,"capacityBytes":100000000000,`+
				`"inodesFree":10,"inodes":100},`+
				`"runtime":{"imageFs":{"availableBytes":5000000000,"capacityBytes":100000000001}},`+
				`"systemContainers":[{"name":"pods","memory":{"availableBytes":3000000000,"workingSetBytes":1000000000}}]},"pods":[%s,%s]}`,
			available, 4<<30-available, use("web", 300), use("db", 900))),
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*asked = append(*asked, r.URL.RequestURI())
		w.Header().Set("Content-Type", "application/json")
		o := answers[r.URL.Path]
		if o == nil {
			w.WriteHeader(http.StatusForbidden)
			o = &metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
				Status: metav1.StatusFailure,
				Reason: metav1.StatusReasonForbidden, Code: http.StatusForbidden}
		}
		if err := json.NewEncoder(w).Encode(o); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func TestNodeInNumbers(t *testing.T) {
	var asked []string
	client := pressedCluster(t, 300<<20, &asked)
	n, err := NodePressure(t.Context(), client, "n1", true)
	if err != nil {
		t.Fatal(err)
	}
	want := map[eviction.Signal]string{"memory.available": "314572800/4294967296",
		"allocatableMemory.available": "3000000000/4000000000",
		"pid.available":               "800/1000", "nodefs.available": "50000000000/100000000000",
		"nodefs.inodesFree": "10/100",
		"imagefs.available": "5000000000/100000000001"}
	if len(n.Signals) != len(want) {
		t.Errorf("got signals %v, want %v", n.Signals, want)
	}
	for signal, text := range want {
		if l := n.Signals[signal]; fmt.Sprintf("%d/%d", l.Available, l.Capacity) != text {
			t.Errorf("%s: got %v, want %s", signal, l, text)
		}
	}
	if len(n.Pods) != 2 || n.Pods[1].Pod.Name != "web" || *n.Pods[1].Use.Memory != 300<<20 ||
		n.Pods[1].Use.Processes != 3 ||
		n.Pods[1].Use.Containers[0].Layer.Bytes != 7 {
		t.Errorf("got Pods %+v, want db and web with what they take", n.Pods)
	}
	if !n.Disks.DedicatedImageFs || n.Disks.SplitImageFs {
		t.Errorf("got disks %+v, want images on one of their own", n.Disks)
	}
	i := slices.IndexFunc(n.Config.Thresholds,
		func(x eviction.Threshold) bool { return x.Signal == eviction.NodeFsAvailable })
	if q := n.Config.Thresholds[i].Value.Of(100e9); q.Value() != 1<<30 {
		t.Errorf("nodefs.available: got %s, want 1Gi: defaults of disks are capped", q.String())
	}
}

func TestPressureOfAPod(t *testing.T) {
	for _, c := range []struct {
		pod       string
		available int64
		asked     bool
		want      string
	}{
		{"web", 200 << 20, false, "would be evicted first for memory.available, at about 100Mi less"},
		{"web", 2 << 30, false, ""}, {"web", 2 << 30, true, "would be evicted first"},
		{"old", 200 << 20, false, ""}, {"none", 200 << 20, false, ""},
	} {
		var requests []string
		var a explain.Answer
		err := addNodePressure(t.Context(), pressedCluster(t, c.available, &requests), explain.PressureAsk{Kind: "pod",
			Namespace: "shop", Name: c.pod, Asked: c.asked}, &a)
		if got := strings.Join(a.Facts, "\n"); (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
			t.Errorf("%+v: got %q %v, want %q", c, got, err, c.want)
		}
		for _, r := range requests {
			if strings.Contains(r, "summary") && !strings.Contains(r, "only_cpu_and_memory=true") ||
				strings.Contains(r, "/metrics") {
				t.Errorf("%+v: the kubelet was asked %s: disks take time", c, r)
			}
		}
	}
	var requests []string
	err := addNodePressure(t.Context(), pressedCluster(t, 1, &requests), explain.PressureAsk{Kind: "pod",
		Namespace: "shop",
		Name:      "old", Asked: true}, &explain.Answer{})
	if err == nil || !strings.Contains(err.Error(), "does not run") {
		t.Errorf("got %v, want an error that the Pod does not run", err)
	}
}
