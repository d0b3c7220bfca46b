package apiserver

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/gantry-project/gantry/internal/journal"
)

// Each acknowledged write of a Pod is one fact, whichever endpoint it came through; what was not
// written is none.
//
// row: API-11
func TestEachPodWriteIsOneFact(t *testing.T) {
	_, c := shared(t)
	ns := newNamespace(t, c)
	pods := c.CoreV1().Pods(ns)
	p := mustCreate[*corev1.Pod](t)(pods.Create(t.Context(), pod("p"), metav1.CreateOptions{}))
	bind(t, c, p, "n1")
	label := []byte(`{"metadata":{"labels":{"a":"b"}}}`)
	for range 2 { // the second changes nothing
		mustCreate[*corev1.Pod](t)(pods.Patch(t.Context(), "p", types.MergePatchType, label, metav1.PatchOptions{}))
	}
	mustCreate[*corev1.Pod](t)(pods.Patch(t.Context(), "p", types.MergePatchType, []byte(`{"status":{"message":"m"}}`),
		metav1.PatchOptions{DryRun: []string{"All"}}, "status"))
	mustCreate[*corev1.Pod](t)(pods.Patch(t.Context(), "p", types.MergePatchType, []byte(`{"status":{"message":"m"}}`),
		metav1.PatchOptions{}, "status"))
	for _, grace := range []int64{30, 0} {
		if err := pods.Delete(t.Context(), "p", metav1.DeleteOptions{GracePeriodSeconds: &grace}); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for _, e := range sharedServer.notes.Read(journal.Query{Namespace: ns, Name: "p"}) {
		if w, ok := e.Fact.(journal.Written); ok {
			got = append(got, strings.TrimSpace(w.Verb+" "+w.Subresource))
			if w.User != "admin" || w.Revision == 0 || w.Stored <= 0 || w.Took < w.Stored || !strings.HasPrefix(w.Agent,
				"apiserver.test/") || e.Ref.UID != string(p.UID) {
				t.Errorf("incomplete: %+v about %+v", w, e.Ref)
			}
			continue
		}
		got = append(got, e.Fact.Line()[:12])
	}
	want := "create, create binding, patch, patch status, delete, deletion ask, delete, removed from"
	if s := strings.Join(got, ", "); s != want {
		t.Errorf("facts:\n%s, want\n%s", s, want)
	}
}

// The journal is read and written through the API.
func TestPodJournals(t *testing.T) {
	_, c := shared(t)
	ns := newNamespace(t, c)
	p := mustCreate[*corev1.Pod](t)(c.CoreV1().Pods(ns).Create(t.Context(), pod("p"), metav1.CreateOptions{}))
	client := c.Discovery().RESTClient()
	base := "/apis/journal.gantry.dev/v1alpha1/namespaces/" + ns + "/podjournals"
	entry := journal.Entry{At: time.Now(), By: "kubelet", Node: "n1",
		Ref: journal.Ref{Namespace: ns, Name: "p", UID: string(p.UID)}, Fact: journal.Waiting{}}
	body, err := json.Marshal(map[string]any{
		"apiVersion": "journal.gantry.dev/v1alpha1", "kind": "PodJournal", "metadata": map[string]any{"name": "p"},
		"entries": []journal.Entry{entry},
	})
	if err != nil {
		t.Fatal(err)
	}
	mustCreate[[]byte](t)(client.Post().AbsPath(base).SetHeader("Content-Type", "application/json").Body(body).DoRaw(
		t.Context()))
	read := func(query string) (out struct{ Entries []journal.Entry }) {
		raw := mustCreate[[]byte](t)(client.Get().RequestURI(base + "/p" + query).DoRaw(context.Background()))
		if err := json.Unmarshal(raw, &out); err != nil {
			t.Fatal(err)
		}
		return out
	}
	all := read("?uid=" + string(p.UID)).Entries
	if len(all) != 2 || all[0].By != "apiserver" || all[1].By != "kubelet" || all[1].Node != "n1" {
		t.Errorf("entries: got %+v, want 2 of them and [0].By apiserver and [1].By kubelet and [1].Node n1", all)
	}
	otherNamespace := strings.Replace(string(body), `"namespace":"`+ns, `"namespace":"elsewhere`, 1)
	if _, err := client.Post().AbsPath(base).SetHeader("Content-Type", "application/json").Body(
		[]byte(otherNamespace)).DoRaw(
		t.Context()); err == nil {
		t.Error("an entry about another namespace was taken")
	}
}

// Entries about Pods are taken while their namespace ends and after it is gone, and nothing is
// logged about the owners of fields, which a journal has none of.
func TestJournalEntriesAreTakenToTheEnd(t *testing.T) {
	log := &logBuffer{}
	klog.SetOutput(log)
	defer klog.SetOutput(discard{})
	_, c := shared(t)
	ns := newNamespace(t, c)
	mustCreate[*corev1.ConfigMap](t)(c.CoreV1().ConfigMaps(ns).Create(t.Context(),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "x"}}, metav1.CreateOptions{}))
	say := func() error {
		entry := journal.Entry{At: time.Now(), By: "kubelet", Node: "n1", Ref: journal.Ref{Namespace: ns, Name: "p"},
			Fact: journal.Waiting{}}
		body, err := json.Marshal(map[string]any{
			"apiVersion": "journal.gantry.dev/v1alpha1", "kind": "PodJournal", "metadata": map[string]any{"name": "p"},
			"entries": []journal.Entry{entry},
		})
		if err != nil {
			return err
		}
		_, err = c.Discovery().RESTClient().Post().AbsPath("/apis/journal.gantry.dev/v1alpha1/namespaces/"+ns+
			"/podjournals").
			SetHeader("Content-Type", "application/json").Body(body).DoRaw(t.Context())
		return err
	}
	if err := say(); err != nil {
		t.Error(err)
	}
	if err := c.CoreV1().Namespaces().Delete(t.Context(), ns, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := say(); err != nil {
		t.Errorf("in a namespace that ends: %v, want no error", err)
	}
	left := mustCreate[*corev1.Namespace](t)(c.CoreV1().Namespaces().Get(t.Context(), ns, metav1.GetOptions{}))
	left.Spec.Finalizers = nil
	mustCreate[*corev1.Namespace](t)(c.CoreV1().Namespaces().Finalize(t.Context(), left, metav1.UpdateOptions{}))
	if err := say(); err != nil {
		t.Errorf("in a namespace that is gone: %v, want no error", err)
	}
	if n := len(sharedServer.notes.Read(journal.Query{Namespace: ns, Name: "p"})); n != 3 {
		t.Errorf("%d entries are kept, want 3", n)
	}
	klog.Flush()
	log.mu.Lock()
	defer log.mu.Unlock()
	for line := range strings.Lines(log.text.String()) {
		if strings.Contains(line, "managedFields") {
			t.Errorf("logged: got %s, want it free of %q", line, "managedFields")
		}
	}
}
