package gather

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/gantry-project/gantry/test/expect"
)

// Bounds of the promise: an answer about a Pod of a cluster of that many Pods takes no longer.
const (
	manyPods   = 5000
	manyNodes  = 100
	mostAnswer = 300 * time.Millisecond
)

// manyPodsServer serves a cluster in which shop/web waits for more cpu than any node has free.
func manyPodsServer(t testing.TB) *kubernetes.Clientset {
	request := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"),
		corev1.ResourceMemory: resource.MustParse("64Mi")}
	pod := func(ns, name, node string) corev1.Pod {
		return corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name, UID: types.UID(name),
			Labels: map[string]string{
				"app": name}}, Spec: corev1.PodSpec{NodeName: node, SchedulerName: corev1.DefaultSchedulerName,
			Containers: []corev1.Container{{Name: "a", Image: "i", Resources: corev1.ResourceRequirements{
				Requests: request}}}}, Status: corev1.PodStatus{Phase: corev1.PodRunning}}
	}
	var nodes corev1.NodeList
	for i := range manyNodes {
		nodes.Items = append(nodes.Items, corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("node-%d", i)},
			Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("8"),
				corev1.ResourceMemory: resource.MustParse("64Gi"), corev1.ResourcePods: resource.MustParse("110")}}})
	}
	var pods corev1.PodList
	for i := range manyPods {
		pods.Items = append(pods.Items, pod(fmt.Sprintf("ns-%d", i%50), fmt.Sprintf("pod-%d", i),
			fmt.Sprintf("node-%d", i%manyNodes)))
	}
	web := pod("shop", "web", "")
	web.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("6")}
	web.Status = corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
		Message: "0/100 nodes are available: 100 Insufficient cpu."}}}
	pods.Items = append(pods.Items, web)
	coder := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme)
	encoded := func(o runtime.Object) []byte {
		var b bytes.Buffer
		if err := scheme.Codecs.EncoderForVersion(coder, corev1.SchemeGroupVersion).Encode(o, &b); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	answers := map[string][]byte{"/api/v1/pods": encoded(&pods), "/api/v1/nodes": encoded(&nodes),
		"/api/v1/namespaces/shop/pods/web": encoded(&web)}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, ok := answers[r.URL.Path]
		if !ok {
			http.Error(w, "not served", http.StatusNotFound)
			return
		}
		w.Header().Set("Content-Type", runtime.ContentTypeProtobuf)
		_, _ = w.Write(raw) // the test fails when it did not arrive
	}))
	t.Cleanup(server.Close)
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL, QPS: 1000, Burst: 1000,
		ContentConfig: rest.ContentConfig{ContentType: runtime.ContentTypeProtobuf}})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// An answer about a Pod among 5,000 is there within 300 ms.
func TestAnAnswerAmongManyPodsIsQuick(t *testing.T) {
	client := manyPodsServer(t)
	took := expect.Within(t, mostAnswer, "an answer", func() {
		a, err := AnswerWith(t.Context(), client, Question{Namespace: "shop", About: "pod/web", Now: time.Now()})
		if err != nil {
			t.Fatal(err)
		}
		if len(a.Findings) == 0 || a.Findings[0].Code != "NodeResourcesFit" {
			t.Fatalf("got %s: %+v", a.Cause, a.Findings)
		}
	})
	t.Logf("an answer takes %s", took)
}

func BenchmarkAnswerAmongManyPods(b *testing.B) {
	client := manyPodsServer(b)
	for b.Loop() {
		if _, err := AnswerWith(b.Context(), client, Question{Namespace: "shop", About: "pod/web",
			Now: time.Now()}); err != nil {
			b.Fatal(err)
		}
	}
}
