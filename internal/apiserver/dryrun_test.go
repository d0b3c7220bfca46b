package apiserver

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A dry run on a subresource answers as the write would, and leaves the object and its revision as they are.
func TestDryRunOfSubresources(t *testing.T) {
	_, c := shared(t)
	ns := space(t, c)
	pods, sets := c.CoreV1().Pods(ns), c.AppsV1().ReplicaSets(ns)
	p := pod("p")
	p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")}
	p = must[*corev1.Pod](t)(pods.Create(t.Context(), p, metav1.CreateOptions{}))
	labels := map[string]string{"app": "x"}
	set := must[*appsv1.ReplicaSet](t)(sets.Create(t.Context(), &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: "s"}, Spec: appsv1.ReplicaSetSpec{
		Replicas: new(int32(1)), Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: pod("x").Spec},
	}}, metav1.CreateOptions{}))
	all := []string{metav1.DryRunAll}
	patch := func(sub, body string) (*corev1.Pod, error) {
		return pods.Patch(t.Context(), "p", types.StrategicMergePatchType, []byte(body), metav1.PatchOptions{DryRun: all}, sub)
	}
	for name, ask := range map[string]func() (shown bool, err error){
		"binding": func() (bool, error) {
			return true, pods.Bind(t.Context(), &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Target: corev1.ObjectReference{Kind: "Node", Name: "n"}}, metav1.CreateOptions{DryRun: all})
		},
		"eviction by its options": func() (bool, error) {
			return true, pods.EvictV1(t.Context(), &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "p"}, DeleteOptions: &metav1.DeleteOptions{DryRun: all}})
		},
		"eviction by the request": func() (bool, error) {
			return true, c.CoreV1().RESTClient().Post().Namespace(ns).Resource("pods").Name("p").SubResource("eviction").Param("dryRun", metav1.DryRunAll).
				Body(&policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "p"}}).Do(t.Context()).Error()
		},
		"status": func() (bool, error) {
			got, err := patch("status", `{"status":{"message":"dry"}}`)
			return got.Status.Message == "dry", err
		},
		"ephemeralcontainers": func() (bool, error) {
			got, err := patch("ephemeralcontainers", `{"spec":{"ephemeralContainers":[{"name":"debug","image":"busybox"}]}}`)
			return len(got.Spec.EphemeralContainers) == 1, err
		},
		"resize": func() (bool, error) {
			got, err := patch("resize", `{"spec":{"containers":[{"name":"c","resources":{"requests":{"cpu":"200m"}}}]}}`)
			return err == nil && got.Spec.Containers[0].Resources.Requests.Cpu().MilliValue() == 200, err
		},
		"scale": func() (bool, error) {
			got, err := sets.UpdateScale(t.Context(), "s", &autoscalingv1.Scale{ObjectMeta: metav1.ObjectMeta{Name: "s", Namespace: ns}, Spec: autoscalingv1.ScaleSpec{Replicas: 3}}, metav1.UpdateOptions{DryRun: all})
			return err == nil && got.Spec.Replicas == 3, err
		},
	} {
		if shown, err := ask(); err != nil || !shown {
			t.Errorf("%s: the answer shows the write: %v, %v", name, shown, err)
		}
		if got := must[*corev1.Pod](t)(pods.Get(t.Context(), "p", metav1.GetOptions{})); got.ResourceVersion != p.ResourceVersion || got.DeletionTimestamp != nil {
			t.Errorf("%s wrote: %+v", name, got)
			p = got
		}
		if got := must[*appsv1.ReplicaSet](t)(sets.Get(t.Context(), "s", metav1.GetOptions{})); got.ResourceVersion != set.ResourceVersion {
			t.Errorf("%s wrote: %+v", name, got)
			set = got
		}
	}
}

// A collection is deleted as far as the selector goes, with the grace that was asked for.
func TestDeleteCollectionBySelector(t *testing.T) {
	_, c := shared(t)
	ns := space(t, c)
	pods := c.CoreV1().Pods(ns)
	for name, app := range map[string]string{"a": "web", "b": "web", "other": "db"} {
		p := pod(name)
		p.Labels, p.Spec.NodeName = map[string]string{"app": app}, "n"
		must[*corev1.Pod](t)(pods.Create(t.Context(), p, metav1.CreateOptions{}))
	}
	web := metav1.ListOptions{LabelSelector: "app in (web)"}
	if err := pods.DeleteCollection(t.Context(), metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}, web); err != nil {
		t.Fatal(err)
	}
	graces := func() map[string]int64 {
		out := map[string]int64{}
		for _, p := range must[*corev1.PodList](t)(pods.List(t.Context(), metav1.ListOptions{})).Items {
			out[p.Name] = -1
			if p.DeletionGracePeriodSeconds != nil {
				out[p.Name] = *p.DeletionGracePeriodSeconds
			}
		}
		return out
	}
	if got := graces(); len(got) != 3 || got["a"] != -1 {
		t.Errorf("after the dry run: %v", got)
	}
	if err := pods.DeleteCollection(t.Context(), metav1.DeleteOptions{GracePeriodSeconds: new(int64(7))}, web); err != nil {
		t.Fatal(err)
	}
	if got := graces(); got["a"] != 7 || got["b"] != 7 || got["other"] != -1 {
		t.Errorf("seconds of grace: %v, want 7 for a and b", got)
	}
	if err := pods.DeleteCollection(t.Context(), metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}, web); err != nil {
		t.Fatal(err)
	}
	if got := graces(); len(got) != 1 || got["other"] != -1 {
		t.Errorf("without grace: %v, want only the other", got)
	}
}
