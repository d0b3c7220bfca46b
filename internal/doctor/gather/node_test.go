package gather

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/gantry-project/gantry/internal/doctor"
	"github.com/gantry-project/gantry/internal/options"
)

// The doctor reads the number of goroutines from each kubelet's metrics, and prints it.
//
// row: KSL-34
// row: EVC-36
func TestEachNodesMetricsAreRead(t *testing.T) {
	pages := map[string]string{
		"/api/v1/nodes": `{"kind":"NodeList","apiVersion":"v1","items":[{"metadata":{"name":"quiet"}},` +
			`{"metadata":{"name":"busy"}}]}`,
		"/api/v1/nodes/quiet/proxy/metrics": "go_threads 7\ngo_goroutines 52\n",
		"/api/v1/nodes/busy/proxy/metrics": "go_threads 9\ngo_goroutines 612\n" +
			"gantry_evictions_fruitless{eviction_signal=\"memory.available\"} 3\n" +
			"kubelet_evictions{eviction_signal=\"memory.available\"} 3\n" +
			"kubelet_evictions{eviction_signal=\"nodefs.available\"} 2\n",
	}
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		page, ok := pages[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, page)
	}))
	defer api.Close()
	client, err := kubernetes.NewForConfig(&rest.Config{Host: api.URL})
	if err != nil {
		t.Fatal(err)
	}
	nodes := (&Gatherer{Instance: &options.Instance{}}).Nodes(t.Context(), client)
	if len(nodes) != 2 || nodes[0].Goroutines != 52 || nodes[1].Goroutines != 612 || nodes[1].Evictions != 5 ||
		nodes[1].Fruitless["memory.available"] != 3 {
		t.Errorf("got %+v, want 52 and 612 goroutines, and of busy 5 evictions, 3 in vain", nodes)
	}
	var texts []string
	for _, f := range doctor.Examine(doctor.Facts{API: &doctor.API{}, Nodes: nodes}) {
		if f.Check == "goroutines" {
			texts = append(texts, fmt.Sprintf("%s: %v %s", f.About, f.Level == doctor.OK, f.Text))
		}
	}
	if got, want := fmt.Sprintf("%q", texts), `["quiet: true 52 goroutines" "busy: true 612 goroutines"]`; got != want {
		t.Errorf("the doctor says %s, want %s", got, want)
	}
}
