package simulate

import (
	"cmp"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gantry-project/gantry/internal/simulate/capacity"
	"github.com/gantry-project/gantry/internal/simulate/forecast"
)

// zones are two zones of two nodes, a Deployment that a budget guards, one that only zone-a may
// run, and an autoscaler.
const zones = `
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Node, metadata: {name: a-1, labels: {topology.kubernetes.io/zone: zone-a}},
   status: {capacity: {cpu: "4", memory: 8Gi}}}
- {apiVersion: v1, kind: Node, metadata: {name: a-2, labels: {topology.kubernetes.io/zone: zone-a}},
   status: {capacity: {cpu: "4", memory: 8Gi}}}
- {apiVersion: v1, kind: Node, metadata: {name: b-1, labels: {topology.kubernetes.io/zone: zone-b}},
   status: {capacity: {cpu: "4", memory: 8Gi}}}
- {apiVersion: v1, kind: Node, metadata: {name: b-2, labels: {topology.kubernetes.io/zone: zone-b}},
   status: {capacity: {cpu: "4", memory: 8Gi}}}
- apiVersion: apps/v1
  kind: Deployment
  metadata: {name: web, namespace: default}
  spec:
    replicas: 8
    selector: {matchLabels: {app: web}}
    template:
      metadata: {labels: {app: web}}
      spec: {containers: [{name: app, image: app, resources: {requests: {cpu: 500m}}}]}
- apiVersion: policy/v1
  kind: PodDisruptionBudget
  metadata: {name: guard, namespace: default}
  spec: {minAvailable: 7, selector: {matchLabels: {app: web}}}
- apiVersion: apps/v1
  kind: Deployment
  metadata: {name: pinned, namespace: default}
  spec:
    replicas: 1
    selector: {matchLabels: {app: pinned}}
    template:
      metadata: {labels: {app: pinned}}
      spec:
        nodeSelector: {topology.kubernetes.io/zone: zone-a}
        containers: [{name: app, image: app, resources: {requests: {cpu: 100m}}}]
- apiVersion: autoscaling/v2
  kind: HorizontalPodAutoscaler
  metadata: {name: web, namespace: default}
  spec:
    maxReplicas: 10
    scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
    metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 100}}}]
`

const added = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: more, namespace: default}
spec:
  replicas: 2
  selector: {matchLabels: {app: more}}
  template:
    metadata: {labels: {app: more}}
    spec: {containers: [{name: app, image: app, resources: {requests: {cpu: "5"}}}]}
`

// files writes texts into a directory and returns their paths.
func files(t *testing.T, texts ...string) []string {
	t.Helper()
	dir := t.TempDir()
	var out []string
	for i, text := range texts {
		file := filepath.Join(dir, fmt.Sprint(i, ".yaml"))
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		out = append(out, file)
	}
	return out
}

// generated is what controllers add to names, which depends on the time of a rollout.
var generated = regexp.MustCompile(`-[0-9a-z]+-[0-9a-z]{5}$`)

// textsOf parses a picture as XML and returns what it says, a text of an element each.
func textsOf(t *testing.T, picture string) []string {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(picture))
	var out []string
	root, depth := "", 0
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("the picture is no XML: %v\n%s", err, picture)
		}
		switch e := token.(type) {
		case xml.StartElement:
			if depth++; depth == 1 {
				root = e.Name.Space + " " + e.Name.Local
			}
		case xml.EndElement:
			depth--
		case xml.CharData:
			out = append(out, string(e))
		}
	}
	if root != "http://www.w3.org/2000/svg svg" {
		t.Errorf("got root %s, want svg", root)
	}
	return out
}

// row: TOO-06
// Each verb tells the same as text, as data and as a picture: the outcome, every Pod with its node,
// what is held up and what does not become ready.
func TestEveryVerbInEveryOutput(t *testing.T) {
	in := files(t, zones, added)
	for _, c := range []struct {
		args, target string
		want         []string // of the text and of the picture
	}{
		{"drain node/b-1", "drain node/b-1", nil},
		{"drain zone/zone-a", "drain zone/zone-a", []string{"held up by budgets:",
			"The disruption budget guard needs 7", "does not become ready:", "default/pinned-", "uncordon a-1"}},
		{"lose node/b-1", "lose node/b-1", nil},
		{"lose zone/zone-a", "lose zone/zone-a", []string{"does not become ready:", "default/pinned-"}},
		{"apply -f " + in[1], "apply ", []string{"does not become ready:", "default/more-", "2000m short of cpu",
			"→ "}},
		{"delete deployment/web", "delete deployment/web", nil},
		{"scale deployment/web --replicas 3", "scale deployment/web", nil},
		{"set image deployment/web app=app:2", "set image deployment/web", []string{"ready Pods: at least 6 of 8"}},
		{"rollout deployment/web --max-surge 1", "rollout deployment/web", []string{"ready Pods: at least 6 of 8"}},
		{"load deployment/web=2x", "load deployment/web=2x", []string{
			"deployment/web: 4 of cores and 0 in 8 Pods before",
			"the desired replica count is more than the maximum replica count"}},
	} {
		t.Run(c.args, func(t *testing.T) {
			args := append(strings.Fields(c.args), "--from", in[0], "--seeds", "1", "--horizon", "15m")
			outputs := map[string]string{}
			for _, form := range []string{"text", "json", "svg"} {
				out, err := run(t, append(args, "-o", form)...)
				if err != nil {
					t.Fatalf("-o %s: %v, want no error", form, err)
				}
				outputs[form] = out
			}
			var f forecast.Forecast
			strict := json.NewDecoder(strings.NewReader(outputs["json"]))
			strict.DisallowUnknownFields()
			if err := strict.Decode(&f); err != nil {
				t.Fatalf("-o json: got error %v, want a forecast", err)
			}
			if f.Format != forecast.Format || !strings.HasPrefix(f.Verb+" "+strings.Join(f.Target, " "), c.target) ||
				len(f.Pods) == 0 {
				t.Errorf("-o json: got format %d, %s %v of %d Pods, want %d, %s of some", f.Format, f.Verb, f.Target,
					len(f.Pods), forecast.Format, c.target)
			}
			drawn := textsOf(t, outputs["svg"])
			said := strings.Join(drawn, "\n")
			first, _, _ := strings.Cut(f.Sentence(), "\n")
			for form, text := range map[string]string{"text": outputs["text"], "svg": said} {
				for _, want := range append(slices.Clone(c.want), first) {
					if !strings.Contains(text, want) {
						t.Errorf("-o %s: got\n%s\nwant %q in it", form, text, want)
					}
				}
			}
			var want, labels, rows []string
			for _, p := range f.Pods {
				node := p.Node
				if node == "" {
					node = "none"
				}
				want = append(want, generated.ReplaceAllString(p.Key(), "")+" on "+node)
			}
			for _, text := range drawn {
				if pod, node, _ := strings.Cut(text, " on "); generated.MatchString(pod) {
					labels = append(labels, generated.ReplaceAllString(pod, "")+" on "+cmp.Or(node, "none"))
				}
			}
			_, table, _ := strings.Cut(outputs["text"], "REPLACES\n")
			table, _, _ = strings.Cut(table, "\n\n")
			for line := range strings.Lines(table) {
				words := strings.Fields(line)
				rows = append(rows, generated.ReplaceAllString(words[0], "")+" on "+words[1])
			}
			if !slices.Equal(labels, want) || !slices.Equal(rows, want) {
				t.Errorf("got Pods %q drawn and %q in the text, want those of the data %q", labels, rows, want)
			}
		})
	}
}

// row: TOO-06
// So does capacity: how many fit, what runs out, and the shapes of nodes.
func TestCapacityInEveryOutput(t *testing.T) {
	in := files(t, cluster, added)
	var a capacity.Answer
	out, err := run(t, "capacity", "-f", in[0], "--from", in[0], "-o", "json")
	if err != nil {
		t.Fatal(err)
	}
	strict := json.NewDecoder(strings.NewReader(out))
	strict.DisallowUnknownFields()
	if err := strict.Decode(&a); err != nil || a.Fits != 3 || a.Nodes != 2 || len(a.Shapes) != 2 ||
		len(a.RunsOut) == 0 {
		t.Errorf("-o json: got %+v and error %v, want 3 that fit on 2 nodes of 2 shapes, and what runs out", a, err)
	}
	for _, form := range []string{"text", "svg"} {
		if out, err = run(t, "capacity", "-f", in[0], "--from", in[0], "-o", form); err != nil {
			t.Fatal(err)
		}
		if form == "svg" {
			out = strings.Join(textsOf(t, out), "\n")
		}
		wants := []string{"3 fit on 2 nodes", "cpu"}
		for _, s := range a.Shapes {
			wants = append(wants, s.Allocatable)
		}
		for _, want := range wants {
			if !strings.Contains(out, want) {
				t.Errorf("-o %s: got\n%s\nwant %q in it", form, out, want)
			}
		}
	}
}

// A drain and a loss of a zone by the flag are those by the argument.
func TestZoneByFlag(t *testing.T) {
	in := files(t, zones)
	for _, verb := range []string{"drain", "lose"} {
		byFlag, err := run(t, verb, "--zone", "zone-a", "--from", in[0], "--seeds", "1", "--horizon", "9m")
		if err != nil {
			t.Fatal(err)
		}
		byName, err := run(t, verb, "zone/zone-a", "--from", in[0], "--seeds", "1", "--horizon", "9m")
		if err != nil || byFlag != byName {
			t.Errorf("%s: got error %v and by the flag\n%s, want as by the argument\n%s", verb, err, byFlag, byName)
		}
	}
}
