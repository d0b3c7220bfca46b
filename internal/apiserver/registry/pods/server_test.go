package pods_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/transport/spdy"
)

// row: BND-02
// row: BND-03
// row: BND-04
// row: BND-05
// row: BND-06
// row: BND-07
func TestBinding(t *testing.T) {
	_, ns := startServer(t)
	p := newPod(t, ns)
	other := p.DeepCopy()
	other.UID = "another"
	if err := bind(t, ns, other); !apierrors.IsConflict(err) {
		t.Errorf("another Pod's UID: %v", err)
	}
	seen, err := testServer.client.CoreV1().Pods(ns).Watch(t.Context(),
		metav1.ListOptions{ResourceVersion: p.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	defer seen.Stop()
	code := 0
	body := fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Binding","metadata":{"name":"p","uid":%q},`+
		`"target":{"kind":"Node","name":"n","uid":"x"},"status":{"phase":"Running"},`+
		`"spec":{"containers":[{"name":"c","image":"other","env":[{"name":"A"}]}],"priority":7}}`, p.UID)
	answer, err := testServer.client.CoreV1().RESTClient().Post().Namespace(ns).Resource("pods").Name("p").
		SubResource("binding").SetHeader("Content-Type", "application/json").SetHeader("Accept", "application/json").
		Body(body).Do(t.Context()).StatusCode(&code).Raw()
	if err != nil || code != http.StatusCreated || !strings.Contains(string(answer), `"code":201`) {
		t.Fatalf("the binding: %d %s, %v, want 201", code, answer, err)
	}
	now := get(t, ns)
	want := p.Spec.DeepCopy()
	want.NodeName = "n"
	if !reflect.DeepEqual(now.Spec, *want) || now.Status.Phase != v1.PodPending {
		t.Errorf("bound: phase %s, %+v, want Pending and nothing but the node: %+v", now.Status.Phase, now.Spec, want)
	}
	if e := <-seen.ResultChan(); e.Type != watch.Modified || e.Object.(*v1.Pod).ResourceVersion != now.ResourceVersion {
		t.Errorf("the binding's first event is %s of %v, want MODIFIED and the Pod as it is in the end, at %s", e.Type,
			e.Object, now.ResourceVersion)
	}
	if now.Spec.NodeName != "n" || now.Generation != 1 || now.Labels[v1.LabelTopologyZone] != "z1" ||
		now.Status.Conditions[0].Type != v1.PodScheduled {
		t.Errorf("got %+v, want NodeName n, Generation 1, Labels z1 and Type PodScheduled", now)
	}
	for _, node := range []string{"n", "m"} {
		for _, uid := range []types.UID{p.UID, ""} {
			err := testServer.client.CoreV1().Pods(ns).Bind(t.Context(), &v1.Binding{
				ObjectMeta: metav1.ObjectMeta{Name: p.Name, UID: uid},
				Target:     v1.ObjectReference{Kind: "Node", Name: node}}, metav1.CreateOptions{})
			want := `Operation cannot be fulfilled on pods/binding "p": pod p is already assigned to node "n"`
			if !apierrors.IsConflict(err) || err.Error() != want {
				t.Errorf("a bound Pod, to node %s with UID %q: got %v, want a conflict: %s", node, uid, err, want)
			}
		}
	}
	if still := get(t, ns); still.ResourceVersion != now.ResourceVersion || still.Spec.NodeName != "n" {
		t.Errorf("after refused bindings the Pod is on %s at %s, want on n at %s", still.Spec.NodeName,
			still.ResourceVersion, now.ResourceVersion)
	}
	now.Spec.NodeName = "m"
	if _, err := testServer.client.CoreV1().Pods(ns).Update(t.Context(), now,
		metav1.UpdateOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("a bound Pod was moved by an update: got %v, want it invalid", err)
	}
	if _, err := testServer.client.CoreV1().Pods(ns).Patch(t.Context(), "p", types.MergePatchType,
		[]byte(`{"spec":{"nodeName":"m"}}`), metav1.PatchOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("a bound Pod was moved by a patch: got %v, want it invalid", err)
	}
}

// row: API-01
// row: API-03
// row: API-22
// row: API-23
// row: API-24
// row: API-29
// row: API-30
// row: API-34
func TestUIDNameAndGeneration(t *testing.T) {
	c, ns := startServer(t)
	first := newPod(t, ns, func(p *v1.Pod) { p.Finalizers = []string{"example.com/f"} })
	_, err := c.CoreV1().Pods(ns).Create(t.Context(), &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "A_b"},
		Spec: first.Spec}, metav1.CreateOptions{})
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "a lowercase RFC 1123 subdomain must consist of") {
		t.Errorf("name A_b: %v", err)
	}
	if list, err := c.CoreV1().Pods(ns).List(t.Context(), metav1.ListOptions{}); err != nil || len(list.Items) != 1 {
		t.Errorf("%d Pods after a refusal, %v, want 1", len(list.Items), err)
	}
	if now := get(t, ns); first.UID == "" || first.ResourceVersion == "" || first.CreationTimestamp.IsZero() ||
		first.Spec.NodeName != "" || now.UID != first.UID || now.ResourceVersion != first.ResourceVersion ||
		now.CreationTimestamp != first.CreationTimestamp || now.Spec.NodeName != "" {
		t.Errorf("created %+v on %q, stored %+v on %q, want the same identity, a creation time and no node",
			first.ObjectMeta, first.Spec.NodeName, now.ObjectMeta, now.Spec.NodeName)
	}
	newPod(t, ns, func(p *v1.Pod) { p.Name = "a.b" })
	now := first.DeepCopy()
	now.UID = "11111111-1111-1111-1111-111111111111"
	if _, err := c.CoreV1().Pods(ns).Update(t.Context(), now, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("another UID: %v", err)
	}
	now = first.DeepCopy()
	now.Name = "q"
	if err := c.CoreV1().RESTClient().Put().Namespace(ns).Resource("pods").Name("p").Body(now).Do(
		t.Context()).Error(); !apierrors.IsBadRequest(err) {
		t.Errorf("another name: %v", err)
	}
	now = first.DeepCopy()
	now.Namespace = "default"
	if err := c.CoreV1().RESTClient().Put().Namespace(ns).Resource("pods").Name("p").Body(now).Do(
		t.Context()).Error(); !apierrors.IsBadRequest(err) {
		t.Errorf("another namespace: %v", err)
	}
	now = first.DeepCopy()
	now.CreationTimestamp = metav1.NewTime(first.CreationTimestamp.Add(-time.Hour))
	if got, err := c.CoreV1().Pods(ns).Update(t.Context(), now, metav1.UpdateOptions{}); err == nil &&
		got.CreationTimestamp != first.CreationTimestamp {
		t.Errorf("the creation time was changed from %v to %v", first.CreationTimestamp, got.CreationTimestamp)
	}
	if got, err := c.CoreV1().Pods(ns).UpdateStatus(t.Context(), now, metav1.UpdateOptions{}); err == nil &&
		got.CreationTimestamp != first.CreationTimestamp {
		t.Errorf("with the status the creation time was changed from %v to %v", first.CreationTimestamp,
			got.CreationTimestamp)
	}
	now = first.DeepCopy()
	now.Generation = 7
	if got, err := c.CoreV1().Pods(ns).Update(t.Context(), now, metav1.UpdateOptions{}); err != nil ||
		got.Generation != 1 {
		t.Errorf("generation 7 of a spec that did not change: %v %v, want 1", got.Generation, err)
	}
	now = first.DeepCopy()
	now.Generation, now.CreationTimestamp = 0, metav1.Time{}
	if got, err := c.CoreV1().Pods(ns).Update(t.Context(), now, metav1.UpdateOptions{}); err != nil ||
		got.Generation != 1 || got.CreationTimestamp != first.CreationTimestamp {
		t.Errorf("generation and creation time: %v %v", got, err)
	}
	now = get(t, ns)
	now.Spec.Containers[0].Image, now.Generation = "nginx:2", 0
	if now, err = c.CoreV1().Pods(ns).Update(t.Context(), now, metav1.UpdateOptions{}); err != nil ||
		now.Generation != 2 {
		t.Errorf("generation %d after a change of the spec, %v, want 2", now.Generation, err)
	}
	now.Generation = 9
	if now, err = c.CoreV1().Pods(ns).UpdateStatus(t.Context(), now, metav1.UpdateOptions{}); err != nil ||
		now.Generation != 2 {
		t.Errorf("generation %d after generation 9 with the status, %v, want 2", now.Generation, err)
	}
	if err := c.CoreV1().Pods(ns).Delete(t.Context(), "p", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	now = get(t, ns) // its finalizer keeps it
	if now.DeletionTimestamp == nil {
		t.Error("a deleted Pod with a finalizer has no deletionTimestamp")
	}
	now.Finalizers = append(now.Finalizers, "example.com/g")
	if _, err := c.CoreV1().Pods(ns).Update(t.Context(), now, metav1.UpdateOptions{}); !apierrors.IsInvalid(err) ||
		!strings.Contains(err.Error(), "no new finalizers can be added if the object is being deleted") {
		t.Errorf("a finalizer for a deleting Pod: %v", err)
	}
	now.Finalizers = nil
	if _, err := c.CoreV1().Pods(ns).Update(t.Context(), now, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.CoreV1().Pods(ns).Get(t.Context(), "p", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("without its finalizer: got %v, want not found", err)
	}
	if second := newPod(t, ns); second.UID == first.UID {
		t.Error("the name's next Pod has the same UID")
	}
}

// TestDelete deletes right after the bind, when the watch cache may not have seen it: the Pod must
// not count as never placed.
//
// row: API-31
// row: API-32
// row: API-33
func TestDelete(t *testing.T) {
	c, ns := startServer(t)
	p := newPod(t, ns)
	if err := bind(t, ns, p); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		options metav1.DeleteOptions
		grace   int64
	}{{metav1.DeleteOptions{}, 30}, {*metav1.NewDeleteOptions(7), 7}, {*metav1.NewDeleteOptions(9), 7}} {
		began := time.Now()
		if err := c.CoreV1().Pods(ns).Delete(t.Context(), "p", step.options); err != nil {
			t.Fatal(err)
		}
		now, grace := get(t, ns), time.Duration(step.grace)*time.Second
		if now.DeletionTimestamp == nil || now.DeletionGracePeriodSeconds == nil ||
			*now.DeletionGracePeriodSeconds != step.grace || now.Generation < 2 || now.UID != p.UID {
			t.Fatalf("deletion %v, grace %v, generation %d, want %d s", now.DeletionTimestamp,
				now.DeletionGracePeriodSeconds, now.Generation, step.grace)
		}
		if step.options.GracePeriodSeconds != nil && *step.options.GracePeriodSeconds != step.grace {
			continue // it changes nothing
		}
		if at := now.DeletionTimestamp.Time; at.Before(began.Add(grace-2*time.Second)) || at.After(time.Now().Add(
			grace+2*time.Second)) {
			t.Errorf("deletionTimestamp %v, want %d s after now, %v", at, step.grace, began)
		}
	}
	if err := c.CoreV1().Pods(ns).Delete(t.Context(), "p", *metav1.NewDeleteOptions(0)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.CoreV1().Pods(ns).Get(t.Context(), "p", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("with a grace period of 0: got %v, want not found at once", err)
	}
	// its own grace period, and what is asked for in its place
	for want, options := range map[int64]metav1.DeleteOptions{45: {}, 7: *metav1.NewDeleteOptions(7),
		60: *metav1.NewDeleteOptions(60), 1: *metav1.NewDeleteOptions(1)} {
		again := newPod(t, ns, func(p *v1.Pod) { p.Spec.TerminationGracePeriodSeconds = new(int64(45)) })
		if again.UID == p.UID {
			t.Error("the Pod is still there")
		}
		if err := bind(t, ns, again); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if err := c.CoreV1().Pods(ns).Delete(t.Context(), "p", options); err != nil {
			t.Fatal(err)
		}
		now, grace := get(t, ns), time.Duration(want)*time.Second
		if now.DeletionTimestamp == nil || now.DeletionGracePeriodSeconds == nil ||
			*now.DeletionGracePeriodSeconds != want {
			t.Fatalf("grace %v of a Pod with 45 s of its own, want %d", now.DeletionGracePeriodSeconds, want)
		}
		if at := now.DeletionTimestamp.Time; at.Before(began.Add(grace-2*time.Second)) || at.After(time.Now().Add(
			grace+2*time.Second)) {
			t.Errorf("deletionTimestamp %v, want %d s after %v", at, want, began)
		}
		if err := c.CoreV1().Pods(ns).Delete(t.Context(), "p", *metav1.NewDeleteOptions(0)); err != nil {
			t.Fatal(err)
		}
	}
	if err := bind(t, ns, newPod(t, ns)); err != nil {
		t.Fatal(err)
	}
	if err := c.CoreV1().Pods(ns).Delete(t.Context(), "p", *metav1.NewDeleteOptions(0)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.CoreV1().Pods(ns).Get(t.Context(), "p", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the first deletion, with a grace period of 0: got %v, want not found at once", err)
	}
}

// TestFieldSelectors lists by each field a selector may ask for, watches by node, and deletes by
// phase.
//
// row: API-14
// row: API-15
// row: API-35
func TestFieldSelectors(t *testing.T) {
	c, ns := startServer(t)
	p := newPod(t, ns)
	newPod(t, ns, func(p *v1.Pod) { p.Name, p.Spec.RestartPolicy = "q", v1.RestartPolicyNever })
	if err := bind(t, ns, p); err != nil {
		t.Fatal(err)
	}
	for selector, want := range map[string]int{
		"spec.nodeName=n": 1, "spec.nodeName=": 1, "status.phase=Pending": 2, "status.phase!=Pending": 0,
		"spec.restartPolicy=Never":             1,
		"spec.schedulerName=default-scheduler": 2, "spec.serviceAccountName=default": 2, "spec.hostNetwork=false": 2,
		"status.podIP=": 2, "metadata.name=q": 1,
	} {
		list, err := c.CoreV1().Pods(ns).List(t.Context(), metav1.ListOptions{FieldSelector: selector})
		if err != nil || len(list.Items) != want {
			t.Errorf("%s: %d Pods, %v; want %d", selector, len(list.Items), err, want)
		}
	}
	if _, err := c.CoreV1().Pods(ns).List(t.Context(),
		metav1.ListOptions{FieldSelector: "spec.color=red"}); !apierrors.IsBadRequest(err) {
		t.Errorf("an unknown field: %v", err)
	}
	for node, want := range map[string]string{"": "ADDED q", "n": "ADDED p"} {
		w, err := c.CoreV1().Pods(ns).Watch(t.Context(), metav1.ListOptions{FieldSelector: "spec.nodeName=" + node,
			SendInitialEvents: new(true), ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
			AllowWatchBookmarks: true})
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for e := range w.ResultChan() {
			if e.Type == watch.Bookmark {
				break
			}
			got += string(e.Type) + " " + e.Object.(*v1.Pod).Name
		}
		w.Stop()
		if got != want {
			t.Errorf("the watch of node %q got %q, want %q", node, got, want)
		}
	}
	q, err := c.CoreV1().Pods(ns).Get(t.Context(), "q", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	q.Status.Phase = v1.PodFailed
	if _, err := c.CoreV1().Pods(ns).UpdateStatus(t.Context(), q, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := c.CoreV1().Pods(ns).DeleteCollection(t.Context(), metav1.DeleteOptions{},
		metav1.ListOptions{FieldSelector: "status.phase=Failed"}); err != nil {
		t.Fatal(err)
	}
	if list, err := c.CoreV1().Pods(ns).List(t.Context(), metav1.ListOptions{}); err != nil || len(list.Items) != 1 ||
		list.Items[0].Name != "p" {
		t.Errorf("after the deletion of failed Pods: %d Pods, %v, want p", len(list.Items), err)
	}
}

// TestEviction goes through budgets: refused with the cause, allowed once, refused again, and facts
// for the refusals.
//
// row: PDB-01
// row: PDB-02
// row: PDB-03
// row: PDB-13
func TestEviction(t *testing.T) {
	c, ns := startServer(t)
	p := newPod(t, ns, func(p *v1.Pod) {
		p.Labels, p.Spec.TerminationGracePeriodSeconds = map[string]string{"app": "a"}, new(int64(45))
	})
	if err := bind(t, ns, p); err != nil {
		t.Fatal(err)
	}
	p = get(t, ns)
	p.Status.Phase, p.Status.Conditions = v1.PodRunning,
		[]v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue}}
	if _, err := c.CoreV1().Pods(ns).UpdateStatus(t.Context(), p, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	b, err := c.PolicyV1().PodDisruptionBudgets(ns).Create(t.Context(), &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "b"},
		Spec: policyv1.PodDisruptionBudgetSpec{MinAvailable: new(intstr.FromInt32(1)),
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "a"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	allow := func(n int32) {
		t.Helper()
		if b, err = c.PolicyV1().PodDisruptionBudgets(ns).Get(t.Context(), "b", metav1.GetOptions{}); err != nil {
			t.Fatal(err)
		}
		b.Status = policyv1.PodDisruptionBudgetStatus{ObservedGeneration: b.Generation, DisruptionsAllowed: n,
			CurrentHealthy: 1 + n, DesiredHealthy: 1, ExpectedPods: 1}
		if b, err = c.PolicyV1().PodDisruptionBudgets(ns).UpdateStatus(t.Context(), b, metav1.UpdateOptions{}); err !=
			nil {
			t.Fatal(err)
		}
	}
	evict := func(dry ...string) error {
		return c.CoreV1().Pods(ns).EvictV1(t.Context(), &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "p"},
			DeleteOptions: &metav1.DeleteOptions{DryRun: dry}})
	}
	allow(0)
	var refused *apierrors.StatusError
	if err := evict(); !errors.As(err, &refused) || !apierrors.IsTooManyRequests(err) ||
		refused.ErrStatus.Details.Causes[0].Message != "The disruption budget b needs 1 healthy pods and has 1 "+
			"currently" {
		t.Errorf("got %v", err)
	}
	testServer.facts.Lock()
	if all := testServer.facts.refused; len(all) == 0 || all[len(all)-1].Budget != "b" {
		t.Errorf("got the refusals %v, want the last to be by budget b", all)
	}
	testServer.facts.Unlock()
	allow(1)
	if err := evict(metav1.DryRunAll); err != nil {
		t.Errorf("dry run: %v", err)
	}
	if got := get(t, ns); got.DeletionTimestamp != nil {
		t.Error("a dry run deleted the Pod")
	}
	if err := evict(); err != nil {
		t.Fatal(err)
	}
	got := get(t, ns)
	if n := len(got.Status.Conditions); got.DeletionTimestamp == nil ||
		*got.DeletionGracePeriodSeconds != 45 || got.Status.Conditions[n-1].Type != v1.DisruptionTarget ||
		got.Status.Conditions[n-1].Status != v1.ConditionTrue ||
		got.Status.Conditions[n-1].Reason != "EvictionByEvictionAPI" {
		t.Errorf("got %v, %+v, want a deletion in 45 s and DisruptionTarget True EvictionByEvictionAPI",
			got.DeletionGracePeriodSeconds, got.Status.Conditions)
	}
	if b, err = c.PolicyV1().PodDisruptionBudgets(ns).Get(t.Context(), "b", metav1.GetOptions{}); err != nil ||
		b.Status.DisruptionsAllowed != 0 || len(b.Status.DisruptedPods) != 1 {
		t.Errorf("got %+v %v, want no error, DisruptionsAllowed 0 and 1 in DisruptedPods", b.Status, err)
	}
}

// A Pod that no budget selects is evicted, with the grace period that was asked for.
//
// row: PDB-01
// row: PDB-03
// row: PDB-05
func TestEvictionWithoutABudget(t *testing.T) {
	c, ns := startServer(t)
	for _, selector := range []map[string]string{{"app": "b"}, {"app": "a", "tier": "x"}} {
		if _, err := c.PolicyV1().PodDisruptionBudgets(ns).Create(t.Context(), &policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "b"}, Spec: policyv1.PodDisruptionBudgetSpec{
				MinAvailable: new(intstr.FromInt32(9)), Selector: &metav1.LabelSelector{MatchLabels: selector}},
		}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for name, options := range map[string]*metav1.DeleteOptions{"own": nil, "asked": metav1.NewDeleteOptions(5)} {
		p := newPod(t, ns, func(p *v1.Pod) { p.Name, p.Labels = name, map[string]string{"app": "a"} })
		if err := bind(t, ns, p); err != nil {
			t.Fatal(err)
		}
		p, err := c.CoreV1().Pods(ns).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		p.Status.Phase, p.Status.Conditions = v1.PodRunning,
			[]v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue}}
		if _, err := c.CoreV1().Pods(ns).UpdateStatus(t.Context(), p, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := c.CoreV1().Pods(ns).EvictV1(t.Context(), &policyv1.Eviction{
			ObjectMeta: metav1.ObjectMeta{Name: name}, DeleteOptions: options}); err != nil {
			t.Fatalf("%s: %v, want no refusal", name, err)
		}
		want := int64(30)
		if options != nil {
			want = *options.GracePeriodSeconds
		}
		p, err = c.CoreV1().Pods(ns).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil || p.DeletionGracePeriodSeconds == nil || *p.DeletionGracePeriodSeconds != want {
			t.Errorf("%s: got %v, %v, want it to end within %d s", name, p.DeletionGracePeriodSeconds, err, want)
		}
	}
}

// row: API-46
func TestLog(t *testing.T) {
	c, ns := startServer(t)
	p := newPod(t, ns,
		func(p *v1.Pod) { p.Spec.Containers = append(p.Spec.Containers, v1.Container{Name: "late", Image: "x"}) })
	read := func(o v1.PodLogOptions) string {
		r, err := c.CoreV1().Pods(ns).GetLogs("p", &o).Stream(t.Context())
		if err != nil {
			return err.Error()
		}
		defer r.Close()
		b, err := io.ReadAll(r)
		if err != nil {
			return err.Error()
		}
		return string(b)
	}
	if got := read(v1.PodLogOptions{Container: "c"}); got != "" {
		t.Errorf("a Pod without a node: %q", got)
	}
	if err := bind(t, ns, p); err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		o    v1.PodLogOptions
		want string
	}{
		{v1.PodLogOptions{Container: "c", TailLines: new(int64(5)), Timestamps: true},
			"log of c?tailLines=5&timestamps=true\n"},
		{v1.PodLogOptions{}, "a container name must be specified for pod p, choose one of: [c late]"},
		{v1.PodLogOptions{Container: "zz"}, "container zz is not valid for pod p"},
		{v1.PodLogOptions{Container: "late"}, `container "late" in pod "p" is waiting to start: ContainerCreating` +
			"\n"},
		{v1.PodLogOptions{Container: "c", LimitBytes: new(int64(0))},
			`PodLogOptions "p" is invalid: limitBytes: Invalid value: 0: must be greater than 0`},
	} {
		if got := read(x.o); got != x.want {
			t.Errorf("%+v: got %q, want %q", x.o, got, x.want)
		}
	}
	b, err := c.CoreV1().RESTClient().Get().AbsPath("/api/v1/nodes/n/proxy/healthz").DoRaw(t.Context())
	if err != nil || string(b) != "kubelet says /healthz" {
		t.Errorf("nodes/proxy: %q %v", b, err)
	}
}

// TestStreams runs exec and attach over SPDY and over WebSockets, and a forwarded port.
//
// row: API-46
func TestStreams(t *testing.T) {
	_, ns := startServer(t)
	if err := bind(t, ns, newPod(t, ns)); err != nil {
		t.Fatal(err)
	}
	tls := kubernetes.NewForConfigOrDie(testServer.config)
	request := func(sub string) *rest.Request {
		return tls.CoreV1().RESTClient().Post().Resource("pods").Namespace(ns).Name("p").SubResource(sub)
	}
	exec := request("exec").VersionedParams(&v1.PodExecOptions{Container: "c", Command: []string{"echo", "hi"},
		Stdin: true, Stdout: true, Stderr: true}, scheme.ParameterCodec).URL()
	attach := request("attach").VersionedParams(&v1.PodAttachOptions{Stdin: true, Stdout: true},
		scheme.ParameterCodec).URL()
	for name, make := range map[string]func(url string) (remotecommand.Executor, error){
		"SPDY": func(string) (remotecommand.Executor, error) {
			return remotecommand.NewSPDYExecutor(testServer.config, "POST", exec)
		},
		"WebSocket": func(string) (remotecommand.Executor, error) {
			return remotecommand.NewWebSocketExecutor(testServer.config, "GET", exec.String())
		},
		"attach": func(string) (remotecommand.Executor, error) {
			return remotecommand.NewWebSocketExecutor(testServer.config, "GET", attach.String())
		},
	} {
		e, err := make("")
		if err != nil {
			t.Fatal(err)
		}
		var out, stderr bytes.Buffer
		o := remotecommand.StreamOptions{Stdin: strings.NewReader("typed"), Stdout: &out}
		want := "attached to c:typed"
		if name != "attach" {
			o.Stderr, want = &stderr, "c:echo hi:typed"
		}
		if err := e.StreamWithContext(t.Context(), o); err != nil || out.String() != want ||
			name != "attach" && stderr.String() != "to stderr" {
			t.Errorf(`%s: got %q on stdout, %q on stderr, error %v; want %q, "to stderr" and none`, name, out.String(),
				stderr.String(), err, want)
		}
	}
	forward(t, request("portforward"))
}

func forward(t *testing.T, r *rest.Request) {
	t.Helper()
	round, upgrader, err := spdy.RoundTripperFor(testServer.config)
	if err != nil {
		t.Fatal(err)
	}
	stop, ready := make(chan struct{}), make(chan struct{})
	defer close(stop)
	f, err := portforward.New(spdy.NewDialer(upgrader, &http.Client{Transport: round}, "POST", r.URL()),
		[]string{"0:8080"}, stop, ready, io.Discard, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	failed := make(chan error, 1)
	go func() { failed <- f.ForwardPorts() }()
	select {
	case <-ready:
	case err := <-failed:
		t.Fatal(err)
	}
	ports, err := f.GetPorts()
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", ports[0].Local))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if b, err := io.ReadAll(conn); err != nil || string(b) != "port 8080" {
		t.Errorf("forwarded port: %q %v", b, err)
	}
}
