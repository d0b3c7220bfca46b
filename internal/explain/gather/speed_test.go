package gather

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
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
	manyNodes  = 1000
	mostAnswer = 300 * time.Millisecond
)

// manyImages are what a node has fetched.
func manyImages() []corev1.ContainerImage {
	var out []corev1.ContainerImage
	for i := range 20 {
		out = append(out, corev1.ContainerImage{Names: []string{fmt.Sprintf("registry.example.com/team/image-%d:v1", i),
			fmt.Sprintf("registry.example.com/team/image-%d@sha256:%064d", i, i)}, SizeBytes: 1 << 26})
	}
	return out
}

// encoded is an object as the API writes it in protobuf.
func encoded(t testing.TB, o runtime.Object) []byte {
	coder := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme)
	group := schema.GroupVersion{}
	if kinds, _, err := scheme.Scheme.ObjectKinds(o); err == nil {
		group = kinds[0].GroupVersion()
	}
	var b bytes.Buffer
	if err := scheme.Codecs.EncoderForVersion(coder, group).Encode(o, &b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// manyOthers are the lists, by path, of what a cluster of so many nodes has beside Pods and nodes.
func manyOthers() map[string]runtime.Object {
	var csi storagev1.CSINodeList
	var attached storagev1.VolumeAttachmentList
	var volumes corev1.PersistentVolumeList
	var claims corev1.PersistentVolumeClaimList
	var leases coordinationv1.LeaseList
	var policies admissionv1.ValidatingAdmissionPolicyList
	for i := range manyNodes {
		node := fmt.Sprintf("node-%d", i)
		csi.Items = append(csi.Items, storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: node},
			Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{Name: "disk.example.com", NodeID: node,
				TopologyKeys: []string{"topology.example.com/zone"}}}}})
		leases.Items = append(leases.Items, coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: node,
			Namespace: corev1.NamespaceNodeLease}})
	}
	for i := range 2 * manyNodes {
		name := fmt.Sprintf("volume-%d", i)
		attached.Items = append(attached.Items, storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: storagev1.VolumeAttachmentSpec{Attacher: "disk.example.com", NodeName: fmt.Sprintf("node-%d", i/2),
				Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &name}}})
		volumes.Items = append(volumes.Items, corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}})
		claims.Items = append(claims.Items, corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name,
			Namespace: fmt.Sprintf("ns-%d", i%50)}, Spec: corev1.PersistentVolumeClaimSpec{VolumeName: name}})
	}
	for i := range 200 {
		policies.Items = append(policies.Items, admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("policy-%d", i)}})
	}
	return map[string]runtime.Object{"/apis/storage.k8s.io/v1/csinodes": &csi,
		"/apis/storage.k8s.io/v1/volumeattachments": &attached, "/api/v1/persistentvolumes": &volumes,
		"/api/v1/persistentvolumeclaims":                                    &claims,
		"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases":    &leases,
		"/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies": &policies}
}

// manyPodsServer serves a cluster in which shop/web waits for more cpu than any node has free.
// asked is told the path of each request; nil: nobody is.
func manyPodsServer(t testing.TB, asked func(path string)) *kubernetes.Clientset {
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
			Status: corev1.NodeStatus{Images: manyImages(), Allocatable: corev1.ResourceList{
				corev1.ResourceCPU:    resource.MustParse("8"),
				corev1.ResourceMemory: resource.MustParse("64Gi"), corev1.ResourcePods: resource.MustParse("110")}}})
	}
	var pods corev1.PodList
	for i := range manyPods {
		pods.Items = append(pods.Items, pod(fmt.Sprintf("ns-%d", i%50), fmt.Sprintf("pod-%d", i),
			fmt.Sprintf("node-%d", i%manyNodes)))
	}
	web := pod("shop", "web", "")
	web.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("7800m")}
	web.Status = corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
		Message: "0/1000 nodes are available: 1000 Insufficient cpu."}}}
	pods.Items = append(pods.Items, web)
	answers := map[string][]byte{"/api/v1/pods": encoded(t, &pods), "/api/v1/nodes": encoded(t, &nodes),
		"/api/v1/namespaces/shop/pods/web": encoded(t, &web)}
	for path, list := range manyOthers() {
		answers[path] = encoded(t, list)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked != nil {
			asked(r.URL.Path)
		}
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

// An answer about a Pod among 5,000 on 1,000 nodes is there within 300 ms.
func TestAnAnswerAmongManyPodsIsQuick(t *testing.T) {
	client := manyPodsServer(t, nil)
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

// longLists are as long as the cluster is large.
var longLists = []string{"/apis/storage.k8s.io/v1/csinodes", "/apis/storage.k8s.io/v1/volumeattachments",
	"/api/v1/persistentvolumes", "/api/v1/persistentvolumeclaims", "/apis/resource.k8s.io/v1/resourceslices",
	"/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
	"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"}

func claimed(name string) corev1.Volume {
	return corev1.Volume{Name: "v", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}}}
}

// What is as long as the cluster is large is read when the Pod's spec has what it is about, and not
// for a Pod that has nothing of it.
func TestLongListsAreReadWhenAPodNeedsThem(t *testing.T) {
	var mu sync.Mutex
	asked := map[string]bool{}
	client := manyPodsServer(t, func(path string) {
		mu.Lock()
		defer mu.Unlock()
		asked[path] = true
	})
	if _, err := AnswerWith(t.Context(), client, Question{Namespace: "shop", About: "pod/web",
		Now: time.Now()}); err != nil {
		t.Fatal(err)
	}
	for _, path := range longLists {
		if asked[path] {
			t.Errorf("%s was read for a Pod that has no volumes", path)
		}
	}
	for _, x := range []struct {
		spec corev1.PodSpec
		want demand
	}{
		{corev1.PodSpec{}, demand{}},
		{corev1.PodSpec{Volumes: []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
			EmptyDir: &corev1.EmptyDirVolumeSource{}}}}}, demand{}},
		{corev1.PodSpec{Volumes: []corev1.Volume{claimed("data")}}, demand{storage: true}},
		{corev1.PodSpec{Volumes: []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
			CSI: &corev1.CSIVolumeSource{Driver: "d"}}}}}, demand{storage: true}},
		{corev1.PodSpec{ResourceClaims: []corev1.PodResourceClaim{{Name: "d"}}}, demand{devices: true}},
		{corev1.PodSpec{InitContainers: []corev1.Container{{Resources: corev1.ResourceRequirements{
			Limits: corev1.ResourceList{"example.com/gpu": resource.MustParse("1")}}}}}, demand{devices: true}},
	} {
		if got := demandOf(&x.spec); got != x.want {
			t.Errorf("%+v: got %+v, want %+v", x.spec, got, x.want)
		}
	}
	for _, c := range []struct {
		of   demand
		kind string
		want bool
	}{{everything, "CSINode", true}, {demand{}, "CSINode", false}, {demand{}, "ConfigMap", true}} {
		if got := c.of.wants(c.kind); got != c.want {
			t.Errorf("%+v wants %s: got %v, want %v", c.of, c.kind, got, c.want)
		}
	}
	for _, c := range []struct {
		of, other demand
		want      bool
	}{{demand{}, demand{storage: true}, false}, {everything, demand{devices: true}, true}} {
		if got := c.of.covers(c.other); got != c.want {
			t.Errorf("%+v covers %+v: got %v, want %v", c.of, c.other, got, c.want)
		}
	}
}

func BenchmarkAnswerAmongManyPods(b *testing.B) {
	client := manyPodsServer(b, nil)
	for b.Loop() {
		if _, err := AnswerWith(b.Context(), client, Question{Namespace: "shop", About: "pod/web",
			Now: time.Now()}); err != nil {
			b.Fatal(err)
		}
	}
}
