package gather

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/gantry-project/gantry/internal/doctor"
	"github.com/gantry-project/gantry/internal/options"
)

// A static Pod whose mirror the API server refuses, or whose name another Pod has, is named with
// its node; one that was just read, or is mirrored, is not.
func TestStaticPodsWithoutMirrorAreNamed(t *testing.T) {
	static := func(name, seen string) string {
		return `{"metadata":{"namespace":"kube-system","name":"` + name + `","annotations":{` +
			`"kubernetes.io/config.source":"file","kubernetes.io/config.seen":"` + seen + `"}}}`
	}
	const old, young = "2026-05-01T11:00:00Z", "2026-05-01T11:59:59.5Z"
	at := "/api/v1/namespaces/kube-system/pods/"
	pages := map[string]string{
		"/api/v1/nodes": `{"kind":"NodeList","apiVersion":"v1","items":[{"metadata":{"name":"n1"}},` +
			`{"metadata":{"name":"silent"}}]}`,
		"/api/v1/nodes/n1/proxy/pods": `{"items":[` + strings.Join([]string{static("refused", old),
			static("mirrored", old), static("young", young), static("taken", old),
			`{"metadata":{"namespace":"shop","name":"web","annotations":{"kubernetes.io/config.source":"api"}}}`},
			",") + `]}`,
		at + "mirrored": `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"mirrored","annotations":{` +
			`"kubernetes.io/config.mirror":"h"}}}`,
		at + "taken": `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"taken","uid":"u2"}}`,
	}
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		page, ok := pages[r.URL.Path]
		if !ok {
			w.WriteHeader(http.StatusNotFound)
			page = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`
		}
		fmt.Fprint(w, page)
	}))
	defer api.Close()
	client, err := kubernetes.NewForConfig(&rest.Config{Host: api.URL})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	nodes := (&Gatherer{Instance: &options.Instance{}}).Nodes(t.Context(), client)
	var texts []string
	for _, f := range doctor.Examine(doctor.Facts{Now: now, API: &doctor.API{}, Nodes: nodes}) {
		if f.Check == "static-pods" {
			texts = append(texts, f.About+" "+f.Level.String()+" "+f.Text+" → "+f.Fix)
		}
	}
	want := [][]string{{"n1 warning static Pod kube-system/refused runs since 2026-05-01 11:00:00", "log says why"},
		{"n1 warning static Pod kube-system/taken", "another Pod has its name (uid u2)",
			"kubectl -n kube-system delete pod taken"}}
	if len(texts) != len(want) {
		t.Fatalf("got %q, want %d findings", texts, len(want))
	}
	for i, words := range want {
		for _, w := range words {
			if !strings.Contains(texts[i], w) {
				t.Errorf("got %q, want it with %q", texts[i], w)
			}
		}
	}
}
