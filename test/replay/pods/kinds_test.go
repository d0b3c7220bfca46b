package pods

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
)

// Every kind that the server serves has its path, with or without a namespace, whichever it is:
// none is in a list of this program.
func TestEveryServedKindHasAPath(t *testing.T) {
	var lists []*metav1.APIResourceList
	served := map[string]bool{}
	for _, gv := range scheme.Scheme.PrioritizedVersionsAllGroups() {
		l := &metav1.APIResourceList{GroupVersion: gv.String()}
		for kind := range scheme.Scheme.KnownTypes(gv) {
			if strings.HasSuffix(kind, "List") || strings.HasSuffix(kind, "Options") {
				continue
			}
			served[gv.String()+" "+kind] = true
			l.APIResources = append(l.APIResources,
				metav1.APIResource{Name: strings.ToLower(kind) + "s", Kind: kind, Namespaced: kind != "PriorityClass"},
				metav1.APIResource{Name: strings.ToLower(kind) + "s/status", Kind: kind})
		}
		lists = append(lists, l)
	}
	k, err := kindsOf(lists)
	if err != nil {
		t.Fatal(err)
	}
	for key := range served {
		apiVersion, kind, _ := strings.Cut(key, " ")
		p, err := k.path(apiVersion, kind, "ns")
		if err != nil || strings.HasSuffix(p, "/status") || !strings.Contains(p, "/"+apiVersion+"/") {
			t.Errorf("%s: got %q %v, want no error, p not ending in /status and p with %v", key, p, err,
				"/"+apiVersion+"/")
		}
	}
	for kind, want := range map[string]string{
		"CronJob":       "/apis/batch/v1/namespaces/ns/cronjobs",
		"PriorityClass": "/apis/scheduling.k8s.io/v1/priorityclasss",
		"Pod":           "/api/v1/namespaces/ns/pods",
		"Event":         "/api/v1/namespaces/ns/events",
	} {
		if p, err := k.path("", kind, "ns"); p != want || err != nil {
			t.Errorf("%s: %s %v, want %s", kind, p, err, want)
		}
	}
	if _, err := k.path("", "Gadget", "ns"); err == nil || !strings.Contains(err.Error(), `"Gadget"`) {
		t.Errorf("a kind that nobody serves: %v", err)
	}
}

// A step that this replay does not know, one with two actions, a misspelt field, and a wait for
// what it cannot check are refused when the case is read; nothing of it passes or fails silently.
func TestUnknownFormsAreRefused(t *testing.T) {
	for _, known := range []string{
		`{"wait": {"pod": "web", "until": "ready", "timeout": 3}}`,
		`{"wait": {"pod": "web", "until": "cond=A=True", "timeout": 3}}`,
		`{"wait": {"object": "Job/j", "until": "cond=Failed=True"}}`,
		`{"wait": {"object": "Deployment/w", "until": "replicas=2"}}`,
		`{"wait": {"pod": "web", "until": "restarts>=2"}}`, `{"wait": {"pod": "web", "until": "event=Pulled:2"}}`,
		`{"wait": {"pod": "web", "until": "gone"}}`, `{"sleep": 0}`, `{"create": {"kind": "Any", "x": 1}}`,
		`{"patch": {"name": "web", "body": [{"op": "add"}], "type": "json"}}`, `{"get": {"kind": "Job", "name": "j"}}`,
	} {
		if err := checkStep([]byte(known)); err != nil {
			t.Errorf("%s: got error %v, want none", known, err)
		}
	}
	for unknown, want := range map[string]string{
		`{"restart": {"pod": "web"}}`:     `"restart"`,
		`{"sleep": 1, "kubelet": "stop"}`: "one deed",
		`{}`:                              "one deed",
		`{"delete": {"name": "web", "graze": 3}}`:                      `"graze"`,
		`{"wait": {"pod": "web", "until": "happy"}}`:                   `"happy"`,
		`{"wait": {"pod": "web", "until": "phase"}}`:                   `"phase"`,
		`{"wait": {"pod": "web", "until": "restarts>=many"}}`:          `"restarts>=many"`,
		`{"wait": {"object": "Job/j", "until": "soon"}}`:               `"soon"`,
		`{"wait": {"object": "Job/j", "until": "replicas>=x"}}`:        `"replicas>=x"`,
		`{"wait": {"until": "ready"}}`:                                 "a Pod or an object",
		`{"patch": {"name": "web", "type": "magic", "body": {"a":1}}}`: `"magic"`,
		`{"kubelet": "pause"}`:                                         `"pause"`,
	} {
		if err := checkStep([]byte(unknown)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", unknown, err, want)
		}
	}
}
