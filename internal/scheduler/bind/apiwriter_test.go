package bind

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"

	"github.com/gantry-project/gantry/internal/scheduler/apiwriter"
)

// What victims need is written over the line: the condition as a strategic merge patch, the
// deletion with the Pod's UID, the event. What the server asks to do later, the ordinary client
// does.
//
// row: BND-12
func TestVictimsArePatchedByAPIWriter(t *testing.T) {
	type got struct {
		method, path, kind, body string
	}
	calls := make(chan got, 10)
	answer := http.StatusOK
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // what is missing shows
		calls <- got{r.Method, r.URL.Path, r.Header.Get("Content-Type"), string(body)}
		if answer == http.StatusTooManyRequests {
			w.Header().Set("Retry-After", "1")
		}
		w.WriteHeader(answer)
	}))
	s.EnableHTTP2 = true
	s.StartTLS()
	defer s.Close()
	line := apiwriter.New(&rest.Config{Host: s.URL, QPS: -1, TLSClientConfig: rest.TLSClientConfig{Insecure: true}})
	q := NewAPIWriter(line)
	defer q.Close(t.Context())
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "low", UID: "u1"}}
	ordinary := fake.NewClientset(p)

	if err := q.PatchStatus(t.Context(), ordinary, p, []byte(`{"status":{}}`)); err != nil {
		t.Fatal(err)
	}
	if c := <-calls; c != (got{"PATCH", "/api/v1/namespaces/ns/pods/low/status",
		"application/strategic-merge-patch+json", `{"status":{}}`}) {
		t.Errorf("status: %+v", c)
	}
	if err := q.DeletePod(t.Context(), ordinary, p); err != nil {
		t.Fatal(err)
	}
	if c := <-calls; c.method != "DELETE" || c.path != "/api/v1/namespaces/ns/pods/low" ||
		c.kind != "application/vnd.kubernetes.protobuf" || !strings.Contains(c.body, "DeleteOptions") ||
		!strings.Contains(c.body, "u1") {
		t.Errorf("deletion: %+v", c)
	}
	q.PreemptedEvent(t.Context(), &eventsv1.Event{ReportingController: "default-scheduler",
		Regarding: objectReferenceOf(p), Note: "Preempted by somebody"},
		func() { t.Error("the ordinary way was taken") })
	if c := <-calls; c.method != "POST" || c.path != "/apis/events.k8s.io/v1/namespaces/ns/events" ||
		!strings.Contains(c.body, "Preempted by somebody") || !strings.Contains(c.body, "Preempting") {
		t.Errorf("event: %+v", c)
	}
	if len(ordinary.Actions()) != 0 {
		t.Errorf("the ordinary client wrote too: %v", ordinary.Actions())
	}
	answer = http.StatusNotFound
	if err := q.DeletePod(t.Context(), ordinary, p); !apierrors.IsNotFound(err) {
		t.Errorf("a Pod that is gone: %v", err)
	}
	answer = http.StatusTooManyRequests
	if err := q.DeletePod(t.Context(), ordinary, p); err != nil {
		t.Error(err)
	}
	if _, err := ordinary.CoreV1().Pods("ns").Get(context.Background(),
		"low", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the ordinary client did not delete: %v", err)
	}
}

// A patch, merged as the API server merges it, gives the desired status, whatever was
// there before.
func TestPatchesGiveTheDesiredStatus(t *testing.T) {
	then := metav1.NewTime(time.Unix(1, 0))
	of := func(kind v1.PodConditionType, status v1.ConditionStatus, reason, message string,
		generation int64) v1.PodCondition {
		return v1.PodCondition{Type: kind, Status: status, Reason: reason, Message: message,
			ObservedGeneration: generation, LastTransitionTime: then}
	}
	ready := of(v1.PodReady, v1.ConditionFalse, "ContainersNotReady", "", 0)
	for name, c := range map[string]struct {
		before v1.PodStatus
		update StatusUpdate
		same   bool
	}{
		"the first condition": {
			update: StatusUpdate{Condition: of(v1.PodScheduled, v1.ConditionFalse, "Unschedulable", "0/1 \"nodes\"",
				2)}},
		"beside another": {v1.PodStatus{Conditions: []v1.PodCondition{ready}},
			StatusUpdate{Condition: of(v1.DisruptionTarget, v1.ConditionTrue, "PreemptionByScheduler", "x", 0)}, false},
		"another message": {
			v1.PodStatus{Conditions: []v1.PodCondition{of(v1.PodScheduled, v1.ConditionFalse, "Unschedulable",
				"old", 2), ready}},
			StatusUpdate{Condition: of(v1.PodScheduled, v1.ConditionFalse, "Unschedulable", "new", 2)}, false},
		"without what was there": {
			v1.PodStatus{Conditions: []v1.PodCondition{of(v1.PodScheduled, v1.ConditionFalse, "Unschedulable",
				"old", 2)}}, StatusUpdate{Condition: of(v1.PodScheduled, v1.ConditionTrue, "", "", 0)}, false},
		"a node": {v1.PodStatus{Conditions: []v1.PodCondition{ready}},
			StatusUpdate{Nominated: new("n1")}, false},
		"no node any more": {v1.PodStatus{NominatedNodeName: "n1"}, StatusUpdate{Nominated: new("")}, false},
		"a node and a condition": {v1.PodStatus{NominatedNodeName: "n1"},
			StatusUpdate{Nominated: new("n2"), Condition: of(v1.PodScheduled, v1.ConditionFalse, "Unschedulable",
				"m", 1)}, false},
		"what it says already": {v1.PodStatus{NominatedNodeName: "n1", Conditions: []v1.PodCondition{ready}},
			StatusUpdate{Nominated: new("n1"), Condition: ready}, true},
		"a node that stays, no other": {v1.PodStatus{NominatedNodeName: "n1"}, StatusUpdate{Condition: ready}, false},
	} {
		p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u"}, Status: c.before}
		want := c.before.DeepCopy()
		if c.update.Condition.Type != "" {
			SetCondition(want, c.update.Condition)
		}
		if c.update.Nominated != nil {
			want.NominatedNodeName = *c.update.Nominated
		}
		patch, err := patchOf(p, c.update)
		if err != nil || (patch == nil) != c.same {
			t.Errorf("%s: patch %s, %v", name, patch, err)
			continue
		}
		if patch == nil {
			continue
		}
		raw, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		merged, err := strategicpatch.StrategicMergePatch(raw, patch, &v1.Pod{})
		if err != nil {
			t.Errorf("%s: %s: got error %v, want none", name, patch, err)
			continue
		}
		var now v1.Pod
		if err := json.Unmarshal(merged, &now); err != nil {
			t.Fatal(err)
		}
		// a transition of now and an earlier one compare equal
		for i := range min(len(now.Status.Conditions), len(want.Conditions)) {
			if got, at := &now.Status.Conditions[i].LastTransitionTime, want.Conditions[i].LastTransitionTime; at.Sub(
				got.Time).Abs() < time.Minute {
				*got = at
			}
		}
		if !equality.Semantic.DeepEqual(now.Status, *want) || now.UID != "u" {
			t.Errorf("%s: %s gives %+v, want %+v", name, patch, now.Status, *want)
		}
	}
}
