package trace

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/gantry-project/gantry/internal/journal"
)

func object(t *testing.T, text string) map[string]any {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		t.Fatal(err)
	}
	return m
}

// The history has values from the store, field names from the journal for compacted revisions, and
// nothing else.
// row: OPS-14
func TestRevisionsNameTheWriter(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	wrote := func(n int64, verb, sub, user string, fields ...string) journal.Entry {
		return journal.Entry{At: at, Fact: journal.Written{Verb: verb, Subresource: sub, User: user,
			Agent: "kubectl/v1", Revision: n, Changed: fields}}
	}
	managed := func(manager, field string) string {
		return `{"metadata":{"managedFields":[{"manager":"` + manager +
			`","operation":"Update","fieldsV1":{"f:spec":{"f:containers":{"k:{\"name\":\"web\"}":{"f:` + field +
			`":{}}}}}}]},"spec":{"containers":[{"name":"web","image":"` + field + `"}]}}`
	}
	h := HistoryInput{
		What: "pod/web in default", OldestRevision: 20,
		Entries: []journal.Entry{wrote(10, "create", "", "ann"), wrote(12, "create", "binding", "system:kube-scheduler",
			"spec.nodeName"), wrote(15, "patch", "status", "system:node:a"), wrote(25, "patch", "", "bob")},
		States: []State{{Revision: 15, Object: object(t, managed("kubelet", "image"))},
			{Revision: 25, Object: object(t, managed("kubectl-edit", "other"))},
			{Revision: 30, Object: object(t, `{}`), Deleted: true}},
	}
	var out strings.Builder
	if err := h.History().WriteText(&out); err != nil {
		t.Fatal(err)
	}
	want := `pod/web in default: 5 revisions known
        10  2026-01-02T03:04:05.000Z  create by ann (kubectl/v1)
        12  2026-01-02T03:04:05.000Z  create binding by system:kube-scheduler (kubectl/v1)
      changed: spec.nodeName (values compacted)
        15  2026-01-02T03:04:05.000Z  patch status by system:node:a (kubelet, kubectl/v1)
      what it changed is compacted: the store keeps history from revision 20 on, some minutes
        25  2026-01-02T03:04:05.000Z  patch by bob (kubectl-edit, kubectl/v1)
      ~ spec.containers[web].image: "image" → "other"
        30                            remove
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}

// A request trace is printed with what each step changed and with a remedy if the write was
// refused.
func TestTraceText(t *testing.T) {
	s := journal.RequestTrace{
		Verb: "create", Resource: "pods", Namespace: "default", Name: "web", User: "ann", Code: 403,
		Took:    journal.Took(3 * time.Millisecond),
		Refusal: `pods "web" is forbidden: exceeded quota: small`, Steps: []journal.Step{
			{Name: journal.StepMutation, By: "NamespaceLifecycle"},
			{Name: journal.StepMutation, By: "Priority", At: journal.Took(time.Millisecond),
				Took: journal.Took(time.Millisecond), Changes: []journal.Change{{Path: "spec.priority", Now: 0}}},
			{Name: journal.StepAdmission, By: "ResourceQuota", Refused: true, Error: "exceeded quota: small"},
		},
	}
	var out strings.Builder
	if err := WriteRequestTrace(&out, s, false); err != nil {
		t.Fatal(err)
	}
	want := `create pods web in default: refused with 403 after 3ms
                        mutation: nothing to change or refuse for 1 more
  +      1ms       1ms  mutation by Priority
                          + spec.priority: 0
  +       0s        0s  admission by ResourceQuota REFUSED
                          exceeded quota: small
  refused: pods "web" is forbidden: exceeded quota: small
  → lower the requests or the number of objects, or raise the quota: kubectl describe resourcequota
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}
