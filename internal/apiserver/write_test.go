package apiserver

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func labelled(p *corev1.Pod, k, v string) *corev1.Pod {
	p.Labels = map[string]string{k: v}
	return p
}

// row: API-01
// row: API-06
// row: API-07
func TestCreateStoresProtobufUnderUpstreamsKey(t *testing.T) {
	s, c := shared(t)
	ns := newNamespace(t, c)
	made := mustCreate[*corev1.Pod](t)(c.CoreV1().Pods(ns).Create(t.Context(), pod("p"), metav1.CreateOptions{}))
	got := mustCreate[*corev1.Pod](t)(c.CoreV1().Pods(ns).Get(t.Context(), "p", metav1.GetOptions{}))
	if made.UID == "" || got.UID != made.UID || got.ResourceVersion != made.ResourceVersion ||
		got.CreationTimestamp.IsZero() {
		t.Errorf("created %+v, read %+v", made.ObjectMeta, got.ObjectMeta)
	}
	etcd, err := s.Store().Client()
	if err != nil {
		t.Fatal(err)
	}
	defer etcd.Close()
	res, err := etcd.Get(t.Context(), "/registry/pods/"+ns+"/p")
	if err != nil || len(res.Kvs) != 1 {
		t.Fatalf("etcd: %v, %v", res, err)
	}
	value := res.Kvs[0].Value
	if len(value) < 4 || string(value[:4]) != "k8s\x00" {
		t.Errorf("the stored value does not begin with the protobuf magic: % x", value[:min(8, len(value))])
	}
	if strings.Contains(string(value), "__internal") {
		t.Error("the stored value names the internal version")
	}
}

// row: API-03
func TestInvalidObjectIsNotStored(t *testing.T) {
	s, c := shared(t)
	ns := newNamespace(t, c)
	p := pod("Bad_Name")
	_, err := c.CoreV1().Pods(ns).Create(t.Context(), p, metav1.CreateOptions{})
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "metadata.name") {
		t.Errorf("got %v, want an error that names metadata.name", err)
	}
	etcd, err := s.Store().Client()
	if err != nil {
		t.Fatal(err)
	}
	defer etcd.Close()
	res, err := etcd.Get(t.Context(), "/registry/pods/"+ns+"/Bad_Name")
	if err != nil || len(res.Kvs) != 0 {
		t.Errorf("etcd holds %v, %v", res.Kvs, err)
	}
	for field, change := range map[string]func(*corev1.Pod){
		"spec.restartPolicy":                 func(p *corev1.Pod) { p.Spec.RestartPolicy = "Sometimes" },
		"spec.containers[0].name":            func(p *corev1.Pod) { p.Spec.Containers[0].Name = "No Name" },
		"spec.containers":                    func(p *corev1.Pod) { p.Spec.Containers = nil },
		"metadata.labels":                    func(p *corev1.Pod) { p.Labels = map[string]string{"a b": "c"} },
		"spec.containers[0].imagePullPolicy": func(p *corev1.Pod) { p.Spec.Containers[0].ImagePullPolicy = "Maybe" },
	} {
		p := pod("bad")
		change(p)
		_, err := c.CoreV1().Pods(ns).Create(t.Context(), p, metav1.CreateOptions{})
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), field+": ") {
			t.Errorf("got %v, want an error that names %s", err, field)
		}
		if res, err := etcd.Get(t.Context(), "/registry/pods/"+ns+"/bad"); err != nil || len(res.Kvs) != 0 {
			t.Errorf("%s: etcd holds %v, %v", field, res.Kvs, err)
		}
	}
}

// An invalid body is refused in each form of a write of what is there, of each kind, and what is
// stored stays.
//
// row: API-03
func TestInvalidChangeIsNotStored(t *testing.T) {
	_, c := shared(t)
	ns := newNamespace(t, c)
	pods, maps := c.CoreV1().Pods(ns), c.CoreV1().ConfigMaps(ns)
	p := mustCreate[*corev1.Pod](t)(pods.Create(t.Context(), pod("p"), metav1.CreateOptions{}))
	m := mustCreate[*corev1.ConfigMap](t)(maps.Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "m"}, Data: map[string]string{"a": "1"}}, metav1.CreateOptions{}))
	badPod, badMap := p.DeepCopy(), m.DeepCopy()
	badPod.Spec.ActiveDeadlineSeconds = new(int64(-1))
	badMap.Data = map[string]string{"no key": "1"}
	for form, write := range map[string]func() error{
		"spec.activeDeadlineSeconds: update": func() error {
			_, err := pods.Update(t.Context(), badPod, metav1.UpdateOptions{})
			return err
		},
		"spec.activeDeadlineSeconds: patch": func() error {
			_, err := pods.Patch(t.Context(), "p", types.MergePatchType,
				[]byte(`{"spec":{"activeDeadlineSeconds":-1}}`), metav1.PatchOptions{})
			return err
		},
		"spec.activeDeadlineSeconds: apply": func() error {
			_, err := pods.Patch(t.Context(), "p", types.ApplyPatchType,
				[]byte(`{"apiVersion":"v1","kind":"Pod","spec":{"activeDeadlineSeconds":-1}}`),
				metav1.PatchOptions{FieldManager: "test"})
			return err
		},
		"data[no key]: update": func() error {
			_, err := maps.Update(t.Context(), badMap, metav1.UpdateOptions{})
			return err
		},
		"data[no key]: patch": func() error {
			_, err := maps.Patch(t.Context(), "m", types.MergePatchType, []byte(`{"data":{"no key":"1"}}`),
				metav1.PatchOptions{})
			return err
		},
	} {
		field, _, _ := strings.Cut(form, ": ")
		if err := write(); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), field+": ") {
			t.Errorf("%s: got %v, want an error that names %s", form, err, field)
		}
	}
	if now := mustCreate[*corev1.Pod](t)(pods.Get(t.Context(), "p", metav1.GetOptions{})); now.ResourceVersion !=
		p.ResourceVersion {
		t.Errorf("the Pod is stored as %+v, want it as it was", now.Spec)
	}
	if now := mustCreate[*corev1.ConfigMap](t)(maps.Get(t.Context(), "m", metav1.GetOptions{})); now.ResourceVersion !=
		m.ResourceVersion {
		t.Errorf("the ConfigMap is stored with %v, want it as it was", now.Data)
	}
}

// row: API-19
func TestStatusAndSpecAreWrittenApart(t *testing.T) {
	_, c := shared(t)
	ns := newNamespace(t, c)
	pods := c.CoreV1().Pods(ns)
	made := mustCreate[*corev1.Pod](t)(pods.Create(t.Context(), pod("p"), metav1.CreateOptions{}))
	both := []byte(`{"status":{"phase":"Running"},"spec":{"activeDeadlineSeconds":60}}`)
	p := mustCreate[*corev1.Pod](t)(pods.Patch(t.Context(), "p", types.MergePatchType, both, metav1.PatchOptions{}))
	if p.Status.Phase != corev1.PodPending || p.Spec.ActiveDeadlineSeconds == nil || p.Generation != made.Generation+1 {
		t.Errorf("main endpoint: phase %s, deadline %v, generation %d", p.Status.Phase, p.Spec.ActiveDeadlineSeconds,
			p.Generation)
	}
	other := []byte(`{"status":{"phase":"Running"},"spec":{"activeDeadlineSeconds":30}}`)
	q := mustCreate[*corev1.Pod](t)(pods.Patch(t.Context(), "p", types.MergePatchType, other, metav1.PatchOptions{},
		"status"))
	if q.Status.Phase != corev1.PodRunning || *q.Spec.ActiveDeadlineSeconds != 60 || q.Generation != p.Generation {
		t.Errorf("status endpoint: phase %s, deadline %d, generation %d", q.Status.Phase, *q.Spec.ActiveDeadlineSeconds,
			q.Generation)
	}
}

// row: API-20
func TestCustomConditionsAreMergedByType(t *testing.T) {
	_, c := shared(t)
	pods := c.CoreV1().Pods(newNamespace(t, c))
	p := mustCreate[*corev1.Pod](t)(pods.Create(t.Context(), pod("p"), metav1.CreateOptions{}))
	conditions := func(p *corev1.Pod) string {
		var out []string
		for _, c := range p.Status.Conditions {
			out = append(out, string(c.Type)+"="+string(c.Status))
		}
		slices.Sort(out)
		return strings.Join(out, " ")
	}
	for _, step := range []struct{ body, want string }{
		{`{"type":"Ready","status":"False"},{"type":"PodScheduled","status":"True"}`, "PodScheduled=True Ready=False"},
		{`{"type":"www.example.com/feature-1","status":"True"}`,
			"PodScheduled=True Ready=False www.example.com/feature-1=True"},
		{`{"type":"www.example.com/feature-1","status":"False"}`,
			"PodScheduled=True Ready=False www.example.com/feature-1=False"},
	} {
		body := []byte(`{"status":{"conditions":[` + step.body + `]}}`)
		mustCreate[*corev1.Pod](t)(pods.Patch(t.Context(), p.Name, types.StrategicMergePatchType, body,
			metav1.PatchOptions{}, "status"))
		if got := conditions(mustCreate[*corev1.Pod](t)(pods.Get(t.Context(), p.Name, metav1.GetOptions{}))); got !=
			step.want {
			t.Errorf("after %s: %s, want %s", step.body, got, step.want)
		}
	}
}

func TestPatchesOfAllKinds(t *testing.T) {
	_, c := shared(t)
	ns := newNamespace(t, c)
	cms := c.CoreV1().ConfigMaps(ns)
	mustCreate[*corev1.ConfigMap](t)(cms.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "x"},
		Data: map[string]string{"a": "1"}}, metav1.CreateOptions{}))
	for _, p := range []struct {
		typ  types.PatchType
		body string
		want string
	}{
		{types.JSONPatchType, `[{"op":"replace","path":"/data/a","value":"2"}]`, "2"},
		{types.MergePatchType, `{"data":{"a":"3"}}`, "3"},
		{types.StrategicMergePatchType, `{"data":{"a":"4"}}`, "4"},
	} {
		got, err := cms.Patch(t.Context(), "x", p.typ, []byte(p.body), metav1.PatchOptions{})
		if err != nil || got.Data["a"] != p.want {
			t.Errorf("%s: got %v, %v, want no error and Data[a] %v", p.typ, got.Data, err, p.want)
		}
	}
}

// row: API-43
func TestServerSideApply(t *testing.T) {
	_, c := shared(t)
	ns := newNamespace(t, c)
	cms := c.CoreV1().ConfigMaps(ns)
	apply := func(userName, value string, force bool) (*corev1.ConfigMap, error) {
		body := fmt.Appendf(nil, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"},"data":{"a":%q}}`,
			value)
		return cms.Patch(t.Context(), "x", types.ApplyPatchType, body,
			metav1.PatchOptions{FieldManager: userName, Force: &force})
	}
	mustCreate[*corev1.ConfigMap](t)(apply("one", "1", false))
	_, err := apply("two", "2", false)
	if !apierrors.IsConflict(err) || !strings.Contains(err.Error(), `conflict with "one": .data.a`) {
		t.Errorf("got %v, want a conflict that names the owner and the field", err)
	}
	if got, err := apply("two", "2", true); err != nil || got.Data["a"] != "2" {
		t.Errorf("forced: %v, %v", got, err)
	}
}

// The status endpoint does not take ownership of fields it ignores, nor the main one of status.
func TestApplyDoesNotOwnWhatItIgnores(t *testing.T) {
	_, c := shared(t)
	ns := newNamespace(t, c)
	body := []byte(
		`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i"}]},` +
			`"status":{"phase":"Failed"}}`)
	p := mustCreate[*corev1.Pod](t)(c.CoreV1().Pods(ns).Patch(t.Context(), "p", types.ApplyPatchType, body,
		metav1.PatchOptions{FieldManager: "one"}))
	for _, f := range p.ManagedFields {
		if strings.Contains(f.FieldsV1.GetRawString(), "f:status") {
			t.Errorf("manager %s owns status: got %s, want it free of %q", f.Manager, f.FieldsV1.GetRawString(),
				"f:status")
		}
	}
	if p.Status.Phase != corev1.PodPending {
		t.Errorf("phase: got %s, want %s", p.Status.Phase, corev1.PodPending)
	}
}

func TestDryRunWritesNothing(t *testing.T) {
	_, c := shared(t)
	ns := newNamespace(t, c)
	dry := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	if p := mustCreate[*corev1.Pod](t)(c.CoreV1().Pods(ns).Create(t.Context(), pod("p"), dry)); p.UID == "" {
		t.Error("the answer is not what would be stored")
	}
	if _, err := c.CoreV1().Pods(ns).Get(t.Context(), "p", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("got %v, want not found", err)
	}
}

// row: API-24
// row: API-34
func TestFinalizersHoldAndCannotBeAddedLate(t *testing.T) {
	_, c := shared(t)
	ns := newNamespace(t, c)
	pods := c.CoreV1().Pods(ns)
	p := pod("p")
	p.Finalizers = []string{"example.com/hold", "example.com/too"}
	mustCreate[*corev1.Pod](t)(pods.Create(t.Context(), p, metav1.CreateOptions{}))
	if err := pods.Delete(t.Context(), "p", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	got := mustCreate[*corev1.Pod](t)(pods.Get(t.Context(), "p", metav1.GetOptions{}))
	if got.DeletionTimestamp == nil {
		t.Error("no deletionTimestamp")
	}
	for _, of := range [][]string{nil, {"status"}} {
		_, err := pods.Patch(t.Context(), "p", types.MergePatchType,
			[]byte(`{"metadata":{"finalizers":["example.com/hold","example.com/too","example.com/more"]}}`),
			metav1.PatchOptions{}, of...)
		if err == nil ||
			!strings.Contains(err.Error(), "no new finalizers can be added if the object is being deleted") {
			t.Errorf("a write of %v: got %v, want a refusal of a new finalizer", of, err)
		}
	}
	if err := pods.Delete(t.Context(), "p", *metav1.NewDeleteOptions(0)); err != nil {
		t.Fatal(err)
	}
	mustCreate[*corev1.Pod](t)(pods.Patch(t.Context(), "p", types.MergePatchType,
		[]byte(`{"metadata":{"finalizers":["example.com/too"]}}`), metav1.PatchOptions{}))
	mustCreate[*corev1.Pod](t)(pods.Get(t.Context(), "p", metav1.GetOptions{})) // the other holds it still
	mustCreate[*corev1.Pod](t)(pods.Patch(t.Context(), "p", types.MergePatchType,
		[]byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}))
	if _, err := pods.Get(t.Context(), "p", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("got %v, want not found", err)
	}
}

// row: API-22
func TestIdentityIsImmutable(t *testing.T) {
	_, c := shared(t)
	ns := newNamespace(t, c)
	p := mustCreate[*corev1.Pod](t)(c.CoreV1().Pods(ns).Create(t.Context(), pod("p"), metav1.CreateOptions{}))
	first := p.DeepCopy()
	p.UID = "other"
	if _, err := c.CoreV1().Pods(ns).Update(t.Context(), p, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("PUT with another uid: %v, want a conflict", err)
	}
	for _, part := range []string{`"uid":"other"`, `"name":"other"`, `"namespace":"other"`,
		`"creationTimestamp":"2001-01-01T00:00:00Z"`} {
		for _, subresources := range [][]string{nil, {"status"}} {
			_, err := c.CoreV1().Pods(ns).Patch(t.Context(), "p", types.MergePatchType,
				[]byte(`{"metadata":{`+part+`}}`), metav1.PatchOptions{}, subresources...)
			now := mustCreate[*corev1.Pod](t)(c.CoreV1().Pods(ns).Get(t.Context(), "p", metav1.GetOptions{}))
			if now.UID != first.UID || now.CreationTimestamp != first.CreationTimestamp {
				t.Errorf("PATCH of %v with %s: got %+v, want it as it was", subresources, part, now.ObjectMeta)
			}
			// what a writer says of the time of creation is left out, as by upstream
			if !apierrors.IsInvalid(err) && !apierrors.IsBadRequest(err) && !strings.Contains(part, "Timestamp") {
				t.Errorf("PATCH of %v with %s: got %v, want a refusal", subresources, part, err)
			}
		}
	}
}

// row: API-30
func TestIdentityIsTheUID(t *testing.T) {
	t.Parallel()
	_, c := shared(t)
	ns := newNamespace(t, c)
	a := mustCreate[*corev1.Pod](t)(c.CoreV1().Pods(ns).Create(t.Context(), pod("p"), metav1.CreateOptions{}))
	if err := c.CoreV1().Pods(ns).Delete(t.Context(), "p", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	b := mustCreate[*corev1.Pod](t)(c.CoreV1().Pods(ns).Create(t.Context(), pod("p"), metav1.CreateOptions{}))
	if a.UID == b.UID {
		t.Error("a new Pod of the same name has the old uid")
	}
	// Whoever means the old Pod does nothing to the new one.
	pods, old := c.CoreV1().Pods(ns), metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(a.UID))}
	if err := pods.Bind(t.Context(), &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: a.UID},
		Target: corev1.ObjectReference{Name: "n"}}, metav1.CreateOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("a binding of the old Pod: %v, want a conflict", err)
	}
	if err := pods.EvictV1(t.Context(), &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "p"},
		DeleteOptions: &old}); !apierrors.IsConflict(err) {
		t.Errorf("an eviction of the old Pod: %v, want a conflict", err)
	}
	if err := pods.Delete(t.Context(), "p", old); !apierrors.IsConflict(err) {
		t.Errorf("a deletion of the old Pod: %v, want a conflict", err)
	}
	now := mustCreate[*corev1.Pod](t)(pods.Get(t.Context(), "p", metav1.GetOptions{}))
	if now.UID != b.UID || now.Spec.NodeName != "" || now.DeletionTimestamp != nil {
		t.Errorf("the new Pod is %s on %q, deleted %v; want it as it was", now.UID, now.Spec.NodeName,
			now.DeletionTimestamp)
	}
}

// row: API-35
func TestDeleteCollectionByPhase(t *testing.T) {
	_, c := shared(t)
	ns := newNamespace(t, c)
	pods := c.CoreV1().Pods(ns)
	for _, n := range []string{"good", "failed", "done", "failed2"} {
		mustCreate[*corev1.Pod](t)(pods.Create(t.Context(), pod(n), metav1.CreateOptions{}))
	}
	for n, phase := range map[string]string{"failed": "Failed", "failed2": "Failed", "done": "Succeeded"} {
		mustCreate[*corev1.Pod](t)(pods.Patch(t.Context(), n, types.MergePatchType,
			[]byte(`{"status":{"phase":"`+phase+`"}}`), metav1.PatchOptions{}, "status"))
	}
	failed := mustCreate[*corev1.PodList](t)(pods.List(t.Context(),
		metav1.ListOptions{FieldSelector: "status.phase=Failed"}))
	if len(failed.Items) != 2 || failed.Items[0].Name != "failed" || failed.Items[1].Name != "failed2" {
		t.Errorf("listed: %d Pods, want failed and failed2", len(failed.Items))
	}
	if err := pods.DeleteCollection(t.Context(), metav1.DeleteOptions{},
		metav1.ListOptions{FieldSelector: "status.phase=Failed"}); err != nil {
		t.Fatal(err)
	}
	list := mustCreate[*corev1.PodList](t)(pods.List(t.Context(), metav1.ListOptions{}))
	if len(list.Items) != 2 || list.Items[0].Name != "done" || list.Items[1].Name != "good" {
		t.Errorf("left: %d Pods, want done and good", len(list.Items))
	}
}

func TestScale(t *testing.T) {
	_, c := shared(t)
	ns := newNamespace(t, c)
	l := map[string]string{"a": "b"}
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "d"},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(2)), Selector: &metav1.LabelSelector{MatchLabels: l},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: l}, Spec: pod("x").Spec},
		},
	}
	deployments := c.AppsV1().Deployments(ns)
	mustCreate[*appsv1.Deployment](t)(deployments.Create(t.Context(), d, metav1.CreateOptions{}))
	sc := mustCreate[*autoscalingv1.Scale](t)(deployments.GetScale(t.Context(), "d", metav1.GetOptions{}))
	if sc.Spec.Replicas != 2 || sc.Status.Selector != "a=b" {
		t.Errorf("scale: got %+v, want Spec.Replicas 2 and Status.Selector a=b", sc)
	}
	sc.Spec.Replicas = 7
	mustCreate[*autoscalingv1.Scale](t)(deployments.UpdateScale(t.Context(), "d", sc, metav1.UpdateOptions{}))
	got := mustCreate[*appsv1.Deployment](t)(deployments.Get(t.Context(), "d", metav1.GetOptions{}))
	if *got.Spec.Replicas != 7 || got.Generation != 2 {
		t.Errorf("replicas %d, generation %d", *got.Spec.Replicas, got.Generation)
	}
	sc.Spec.Replicas = -1
	if _, err := deployments.UpdateScale(t.Context(), "d", sc, metav1.UpdateOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("negative scale: %v, want invalid", err)
	}
	patched, err := deployments.Patch(t.Context(), "d", types.MergePatchType, []byte(`{"spec":{"replicas":3}}`),
		metav1.PatchOptions{}, "scale")
	if err == nil && patched.Kind == "Deployment" {
		t.Error("the scale endpoint answered with the object")
	}
}

// Unknown field selectors are refused in upstream's words.
func TestFieldSelectorsUnknown(t *testing.T) {
	_, c := shared(t)
	for _, x := range []struct {
		path, want string
	}{
		{"/api/v1/pods?fieldSelector=spec.nope%3D1", "field label not supported: spec.nope"},
		{"/api/v1/namespaces?fieldSelector=name%3Drec", "field label not supported: name"},
		{"/apis/batch/v1/jobs?fieldSelector=status.nope%3D1", `field label "status.nope" not supported for Job`},
		{"/api/v1/persistentvolumes?fieldSelector=spec.nope%3D1",
			`"spec.nope" is not a known field selector: only "metadata.name", "metadata.namespace"`},
		{"/apis/events.k8s.io/v1/events?fieldSelector=involvedObject.name%3Dx",
			"field label not supported: involvedObject.name"},
	} {
		raw, err := c.Discovery().RESTClient().Get().RequestURI(x.path).DoRaw(t.Context())
		var s metav1.Status
		if err == nil || json.Unmarshal(raw, &s) == nil && !strings.Contains(s.Message, x.want) {
			t.Errorf("%s: %v %q, want %q", x.path, err, s.Message, x.want)
		}
	}
}

func TestTables(t *testing.T) {
	_, c := shared(t)
	ns := newNamespace(t, c)
	mustCreate[*corev1.Pod](t)(c.CoreV1().Pods(ns).Create(t.Context(), labelled(pod("p"), "a", "b"),
		metav1.CreateOptions{}))
	raw := mustCreate[[]byte](t)(c.CoreV1().RESTClient().Get().AbsPath("/api/v1/namespaces", ns, "pods").
		SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").DoRaw(t.Context()))
	var table metav1.Table
	if err := json.Unmarshal(raw, &table); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, col := range table.ColumnDefinitions {
		names = append(names, col.Name)
	}
	if got := strings.Join(names, " "); got != "Name Ready Status Restarts Age IP Node Nominated Node Readiness Gates" {
		t.Errorf("columns: got %s, want %s", got,
			"Name Ready Status Restarts Age IP Node Nominated Node Readiness Gates")
	}
	if len(table.Rows) != 1 || table.Rows[0].Cells[0] != "p" || table.Rows[0].Cells[2] != "Pending" {
		t.Errorf("rows: got %v, want one of them and [0].Cells[0] p and [0].Cells[2] Pending", table.Rows)
	}
}

// What a body has twice, or what nobody knows, is refused, warned of or passed over as the request
// asks, in JSON and in YAML, whatever the verb.
//
// row: API-03
func TestFieldValidation(t *testing.T) {
	sharedFuzzSession.prepare(t)
	const list, item = "/api/v1/namespaces/fuzz/configmaps", "/api/v1/namespaces/fuzz/configmaps/x"
	asJSON := `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"},"data":{"a":"1","a":"2"},"odd":1}`
	asYAML := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndata:\n  a: \"1\"\n  a: \"2\"\nodd: 1\n"
	fields, lines := `duplicate field "data.a", unknown field "odd"`,
		"yaml: unmarshal errors:\n  line 6: key \"a\" already set in map, unknown field \"odd\""
	const decoding = `400 ConfigMap in version "v1" cannot be handled as a ConfigMap: strict decoding error: `
	warned := []string{`warning: "duplicate field \"data.a\""`, `warning: "unknown field \"odd\""`, "accepted"}
	for _, tt := range []struct {
		method, path, contentType, directive, body string
		want                                       []string
	}{
		{http.MethodPost, list, "json", "Strict", asJSON, []string{decoding + fields}},
		{http.MethodPost, list, "json", "Warn", asJSON, warned},
		{http.MethodPost, list, "json", "", asJSON, warned},
		{http.MethodPost, list, "json", "Ignore", asJSON, []string{"accepted"}},
		{http.MethodPost, list, "yaml", "Strict", asYAML, []string{decoding + lines}},
		{http.MethodPost, list, "yaml", "Warn", asYAML, []string{`warning: "line 6: key \"a\" already set in map"`,
			`warning: "unknown field \"odd\""`, "accepted"}},
		{http.MethodPost, list, "yaml", "Ignore", asYAML, []string{"accepted"}},
		{http.MethodPut, item, "json", "Strict", asJSON, []string{decoding + fields}},
		{http.MethodPut, item, "json", "Warn", asJSON, warned},
		{http.MethodPatch, item, "strategic-merge-patch+json", "Strict", `{"data":{"a":"1","a":"2"},"odd":1}`,
			[]string{`patch: Invalid value: "map[data:map[a:2] odd:1]": strict decoding error: ` + fields}},
		{http.MethodPatch, item, "strategic-merge-patch+json", "Warn", `{"data":{"a":"1","a":"2"},"odd":1}`, warned},
		{http.MethodPatch, item, "merge-patch+json", "Ignore", `{"data":{"a":"1","a":"2"},"odd":1}`,
			[]string{"accepted"}},
	} {
		if tt.method == http.MethodPost { // x is there
			tt.body = strings.NewReplacer(`"name":"x"`, `"name":"new"`, "name: x", "name: new").Replace(tt.body)
		}
		got := sharedFuzzSession.requestCauses(t, tt.method, tt.path+"?dryRun=All&fieldValidation="+tt.directive,
			"application/"+tt.contentType, []byte(tt.body))
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s %s %q:\n%q\nwant\n%q", tt.method, tt.contentType, tt.directive, got, tt.want)
		}
	}
}
