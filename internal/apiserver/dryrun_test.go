package apiserver

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A dry run on a subresource answers as the write would, and leaves the object and its revision as
// they are.
func TestDryRunOfSubresources(t *testing.T) {
	_, c := shared(t)
	ns := newNamespace(t, c)
	pods, sets := c.CoreV1().Pods(ns), c.AppsV1().ReplicaSets(ns)
	p := pod("p")
	p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")}
	p = mustCreate[*corev1.Pod](t)(pods.Create(t.Context(), p, metav1.CreateOptions{}))
	labels := map[string]string{"app": "x"}
	set := mustCreate[*appsv1.ReplicaSet](t)(sets.Create(t.Context(),
		&appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: "s"}, Spec: appsv1.ReplicaSetSpec{
			Replicas: new(int32(1)), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: pod("x").Spec},
		}}, metav1.CreateOptions{}))
	all := []string{metav1.DryRunAll}
	patch := func(sub, body string) (*corev1.Pod, error) {
		return pods.Patch(t.Context(), "p", types.StrategicMergePatchType, []byte(body),
			metav1.PatchOptions{DryRun: all}, sub)
	}
	for name, ask := range map[string]func() (shown bool, err error){
		"binding": func() (bool, error) {
			return true,
				pods.Bind(t.Context(), &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "p"},
					Target: corev1.ObjectReference{Kind: "Node", Name: "n"}}, metav1.CreateOptions{DryRun: all})
		},
		"eviction by its options": func() (bool, error) {
			return true,
				pods.EvictV1(t.Context(), &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "p"},
					DeleteOptions: &metav1.DeleteOptions{DryRun: all}})
		},
		"eviction by the request": func() (bool, error) {
			return true, c.CoreV1().RESTClient().Post().Namespace(ns).Resource("pods").Name("p").SubResource(
				"eviction").Param("dryRun", metav1.DryRunAll).
				Body(&policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "p"}}).Do(t.Context()).Error()
		},
		"status": func() (bool, error) {
			got, err := patch("status", `{"status":{"message":"dry"}}`)
			return got.Status.Message == "dry", err
		},
		"ephemeralcontainers": func() (bool, error) {
			got, err := patch("ephemeralcontainers",
				`{"spec":{"ephemeralContainers":[{"name":"debug","image":"busybox"}]}}`)
			return len(got.Spec.EphemeralContainers) == 1, err
		},
		"resize": func() (bool, error) {
			got, err := patch("resize",
				`{"spec":{"containers":[{"name":"c","resources":{"requests":{"cpu":"200m"}}}]}}`)
			return err == nil && got.Spec.Containers[0].Resources.Requests.Cpu().MilliValue() == 200, err
		},
		"scale": func() (bool, error) {
			got, err := sets.UpdateScale(t.Context(),
				"s", &autoscalingv1.Scale{ObjectMeta: metav1.ObjectMeta{Name: "s", Namespace: ns},
					Spec: autoscalingv1.ScaleSpec{Replicas: 3}}, metav1.UpdateOptions{DryRun: all})
			return err == nil && got.Spec.Replicas == 3, err
		},
	} {
		if shown, err := ask(); err != nil || !shown {
			t.Errorf("%s: the answer shows the write: got %v, %v, want no error and true", name, shown, err)
		}
		if got := mustCreate[*corev1.Pod](t)(pods.Get(t.Context(), "p", metav1.GetOptions{})); got.ResourceVersion !=
			p.ResourceVersion || got.DeletionTimestamp != nil {
			t.Errorf("%s wrote: %+v", name, got)
			p = got
		}
		if got := mustCreate[*appsv1.ReplicaSet](t)(sets.Get(t.Context(),
			"s", metav1.GetOptions{})); got.ResourceVersion != set.ResourceVersion {
			t.Errorf("%s wrote: %+v", name, got)
			set = got
		}
	}
}

// A collection is deleted as far as the selector goes, with the grace that was asked for.
//
// row: API-35
func TestDeleteCollectionBySelector(t *testing.T) {
	_, c := shared(t)
	ns := newNamespace(t, c)
	pods := c.CoreV1().Pods(ns)
	for name, app := range map[string]string{"a": "web", "b": "web", "other": "db"} {
		p := pod(name)
		p.Labels, p.Spec.NodeName = map[string]string{"app": app}, "n"
		mustCreate[*corev1.Pod](t)(pods.Create(t.Context(), p, metav1.CreateOptions{}))
	}
	web := metav1.ListOptions{LabelSelector: "app in (web)"}
	if err := pods.DeleteCollection(t.Context(), metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}, web); err !=
		nil {
		t.Fatal(err)
	}
	graces := func() map[string]int64 {
		out := map[string]int64{}
		for _, p := range mustCreate[*corev1.PodList](t)(pods.List(t.Context(), metav1.ListOptions{})).Items {
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
	if err := pods.DeleteCollection(t.Context(), metav1.DeleteOptions{GracePeriodSeconds: new(int64(7))}, web); err !=
		nil {
		t.Fatal(err)
	}
	if got := graces(); got["a"] != 7 || got["b"] != 7 || got["other"] != -1 {
		t.Errorf("seconds of grace: %v, want 7 for a and b", got)
	}
	if err := pods.DeleteCollection(t.Context(), metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}, web); err !=
		nil {
		t.Fatal(err)
	}
	if got := graces(); len(got) != 1 || got["other"] != -1 {
		t.Errorf("without grace: %v, want only the other", got)
	}
}

// What becomes of dependents is asked by a policy: the object stays with the policy's finalizer
// until the collector of garbage has done its part, or is gone at once. A deletion whose
// preconditions do not hold is refused and leaves the object alone.
func TestDeletionPoliciesAndPreconditions(t *testing.T) {
	_, c := shared(t)
	ns := newNamespace(t, c)
	sets := c.AppsV1().ReplicaSets(ns)
	labels := map[string]string{"app": "x"}
	for name, tt := range map[string]struct {
		o         func(*appsv1.ReplicaSet) metav1.DeleteOptions
		finalizer string // that keeps it; "" with no error: it is gone
		refused   string
		is        func(error) bool
	}{
		"foreground": {o: func(*appsv1.ReplicaSet) metav1.DeleteOptions {
			return metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationForeground)}
		}, finalizer: metav1.FinalizerDeleteDependents},
		"orphan": {o: func(*appsv1.ReplicaSet) metav1.DeleteOptions {
			return metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationOrphan)}
		}, finalizer: metav1.FinalizerOrphanDependents},
		"orphan, the old way": {o: func(*appsv1.ReplicaSet) metav1.DeleteOptions {
			return metav1.DeleteOptions{OrphanDependents: new(true)}
		}, finalizer: metav1.FinalizerOrphanDependents},
		"background": {o: func(*appsv1.ReplicaSet) metav1.DeleteOptions {
			return metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)}
		}},
		"by default": {o: func(*appsv1.ReplicaSet) metav1.DeleteOptions { return metav1.DeleteOptions{} }},
		"both ways": {o: func(*appsv1.ReplicaSet) metav1.DeleteOptions {
			return metav1.DeleteOptions{OrphanDependents: new(true),
				PropagationPolicy: new(metav1.DeletePropagationOrphan)}
		}, refused: "orphanDependents and deletionPropagation cannot be both set", is: apierrors.IsInvalid},
		"another policy": {o: func(*appsv1.ReplicaSet) metav1.DeleteOptions {
			return metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletionPropagation("Odd"))}
		}, refused: `propagationPolicy: Unsupported value: "Odd": supported values: "Foreground", "Background",` +
			` "Orphan", "nil"`, is: apierrors.IsInvalid},
		"its UID": {o: func(s *appsv1.ReplicaSet) metav1.DeleteOptions {
			return metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &s.UID,
				ResourceVersion: &s.ResourceVersion}}
		}},
		"another UID": {o: func(*appsv1.ReplicaSet) metav1.DeleteOptions {
			return *metav1.NewPreconditionDeleteOptions("old")
		},
			refused: "the UID in the precondition (old) does not match the UID in record (", is: apierrors.IsConflict},
		"another revision": {o: func(*appsv1.ReplicaSet) metav1.DeleteOptions {
			return *metav1.NewRVDeletionPrecondition("1")
		},
			refused: "the ResourceVersion in the precondition (1) does not match the ResourceVersion in record (",
			is:      apierrors.IsConflict},
	} {
		set := mustCreate[*appsv1.ReplicaSet](t)(sets.Create(t.Context(),
			&appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{GenerateName: "s-"}, Spec: appsv1.ReplicaSetSpec{
				Selector: &metav1.LabelSelector{MatchLabels: labels},
				Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: pod("x").Spec},
			}}, metav1.CreateOptions{}))
		err := sets.Delete(t.Context(), set.Name, tt.o(set))
		left, gone := sets.Get(t.Context(), set.Name, metav1.GetOptions{})
		switch {
		case tt.refused != "":
			if err == nil || !tt.is(err) || !strings.Contains(err.Error(), tt.refused) || gone != nil ||
				left.DeletionTimestamp != nil {
				t.Errorf("%s: %v, want %s; left is %v, %v", name, err, tt.refused, left.DeletionTimestamp, gone)
			}
		case tt.finalizer != "":
			if err != nil || gone != nil || left.DeletionTimestamp == nil || len(left.Finalizers) != 1 ||
				left.Finalizers[0] != tt.finalizer {
				t.Errorf("%s: %v; left with %v, %v", name, err, left.Finalizers, gone)
			}
		case err != nil || !apierrors.IsNotFound(gone):
			t.Errorf("%s: %v; it is left: %v", name, err, gone)
		}
	}
}
