package gather

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/gantry-project/gantry/internal/cri/crifake"
	"github.com/gantry-project/gantry/internal/options"
)

// Each hop is tried, whether or not those before it answer, and whether or not a container is
// named: API server, kubelet, runtime, and the shim with the process.
//
// row: KAP-09
// row: KAP-10
func TestEachHopOfExecIsTried(t *testing.T) {
	fake, err := crifake.Start(crifake.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer fake.Close()
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch r.URL.Path {
		case "/api/v1/namespaces/ns/pods/web":
			fmt.Fprint(w, `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"web"},"spec":{"nodeName":"n1"}}`)
		case "/api/v1/namespaces/ns/pods/other":
			fmt.Fprint(w, `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"other"},"spec":{"nodeName":"n2"}}`)
		case "/api/v1/nodes/n1/proxy/healthz":
			fmt.Fprint(w, "ok")
		default: // the kubelet of n2, too
			http.NotFound(w, r)
		}
	}))
	defer api.Close()
	there, err := kubernetes.NewForConfig(&rest.Config{Host: api.URL})
	if err != nil {
		t.Fatal(err)
	}
	away, err := kubernetes.NewForConfig(&rest.Config{Host: "http://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	const none = "shim and process of web: no container of Pod ns/web runs on this machine"
	const noneOther = "shim and process of other: no container of Pod ns/other runs on this machine"
	for _, c := range []struct {
		name           string
		client         kubernetes.Interface
		pod, container string
		want           []string // of each hop what its line begins with
	}{
		{"all answer", there, "web", "",
			[]string{"API server: <nil>", "kubelet of n1: <nil>", "container runtime: <nil>", none}},
		{"of a container", there, "web", "app",
			[]string{"API server: <nil>", "kubelet of n1: <nil>", "container runtime: <nil>", none}},
		{"no kubelet", there, "other", "", []string{"API server: <nil>", "kubelet of n2: the server could not find",
			"container runtime: <nil>", noneOther}},
		{"no API server", away, "web", "", []string{"API server: Get", "container runtime: <nil>", none}},
	} {
		s := &Gatherer{Instance: &options.Instance{Runtime: fake.Endpoint()}}
		hops := s.ExecHops(t.Context(), c.client, ExecTarget{Namespace: "ns", Pod: c.pod, Container: c.container})
		var got []string
		for _, h := range hops {
			got = append(got, fmt.Sprintf("%s: %v", h.Name, h.Err))
		}
		ok := len(got) == len(c.want)
		for i := range min(len(got), len(c.want)) {
			ok = ok && strings.HasPrefix(got[i], c.want[i])
		}
		if !ok {
			t.Errorf("%s: got %q, want hops that begin %q", c.name, got, c.want)
		}
	}
}
