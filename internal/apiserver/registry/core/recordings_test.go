package core_test

import (
	"context"
	"encoding/json"
	stderrors "errors"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"sort"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/warning"

	"github.com/gantry-project/gantry/internal/apiserver/registry/core"
	"github.com/gantry-project/gantry/internal/apiserver/registry/nodes"
	"github.com/gantry-project/gantry/internal/apiserver/registry/pods"
	"github.com/gantry-project/gantry/internal/apiserver/registry/resourcedef"
	"github.com/gantry-project/gantry/internal/apiserver/registry/services"
)

// recordings is where upstream's answers are kept: the project's copy, or the folder the
// environment names.
func recordings(t *testing.T) string {
	dir := os.Getenv("GANTRY_RECORDINGS")
	if dir == "" {
		dir = "../../../../test/recordings"
	}
	if _, err := os.Stat(filepath.Join(dir, "api", "validation")); err != nil {
		t.Skip("no recordings at " + dir)
	}
	return filepath.Join(dir, "api")
}

func rows(t *testing.T) map[string]resourcedef.Kind {
	a, err := services.New([]netip.Prefix{netip.MustParsePrefix("10.96.0.0/16")}, 30000, 32767,
		func(context.Context) ([]v1.Service, error) {
			return []v1.Service{{Spec: v1.ServiceSpec{ClusterIPs: []string{"10.96.0.1"}}}}, nil
		})
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]resourcedef.Kind{}
	all := append(core.Kinds(), pods.Kinds(pods.Connections{})...)
	all = append(all, nodes.Kinds(pods.Connections{})...)
	all = append(all, services.Kinds(a, pods.Connections{})...)
	for _, k := range all {
		out[k.Kind] = k
	}
	return out
}

type recorded struct {
	Name    string
	Kind    string
	Request struct {
		Method, Path string
		Headers      map[string]*string
		Body         json.RawMessage
	}
	Response struct {
		Code    int
		Headers map[string]any
		Body    json.RawMessage
	}
}

func load(t *testing.T, file string) []recorded {
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var f struct{ Cases []recorded }
	if err := json.Unmarshal(raw, &f); err != nil {
		t.Fatal(err)
	}
	return f.Cases
}

// create does to obj what the machinery does with a row at creation.
func create(k resourcedef.Kind, obj runtime.Object) (_ field.ErrorList, warned []string, _ error) {
	messages := &warningRecorder{}
	ctx := warning.WithWarningRecorder(context.Background(), messages)
	defer func() { warned = append(messages.list, warned...) }()
	r := k.Rules
	if r.Default != nil {
		r.Default(obj)
	}
	m, _ := meta.Accessor(obj)
	if k.Types.Namespaced {
		m.SetNamespace("rec")
	}
	if m.GetName() == "" && m.GetGenerateName() != "" {
		base := m.GetGenerateName()
		if len(base) > 58 {
			base = base[:58]
		}
		m.SetName(base + "abcde")
	}
	if r.BeginCreate != nil {
		done, err := r.BeginCreate(ctx, obj, false)
		if err != nil {
			return nil, nil, err
		}
		defer done(false) // gives back
	}
	if p, ok := obj.(*v1.Pod); ok && p.Spec.ServiceAccountName == "" {
		p.Spec.ServiceAccountName = "default" // admission's part
	}
	if r.PrepareCreate != nil {
		r.PrepareCreate(ctx, obj)
	}
	name := r.ValidateName
	if name == nil {
		name = apivalidation.NameIsDNSSubdomain
	}
	errs := apivalidation.ValidateObjectMetaAccessor(m, k.Types.Namespaced, name, field.NewPath("metadata"))
	if r.Validate != nil {
		errs = append(errs, r.Validate(ctx, obj)...)
	}
	if len(errs) > 0 {
		return errs, nil, nil
	}
	var warn []string
	if r.Warn != nil {
		warn = r.Warn(ctx, obj)
	}
	return nil, warn, nil
}

type warningRecorder struct{ list []string }

func (r *warningRecorder) AddWarning(_, text string) { r.list = append(r.list, text) }

// elsewhere are cases that something else answers; the whole server's replay covers them.
func elsewhere() map[string]string {
	return map[string]string{
		"pod-metadata.json/owner-ref-missing-fields":       "v1.37's library says it in other words",
		"pod-metadata.json/owner-ref-bad-apiversion":       "v1.37's library says it in other words",
		"other.json/binding-event-v1":                      "another group's Event, converted first",
		"pod.json/overhead-by-runtimeclass":                "RuntimeClass admission",
		"pod-security.json/share-process-and-hostpid":      "v1.37 names the field where it is",
		"pod-security.json/pod-selinux-policy-bad":         "v1.37 knows MountOption too",
		"pod-security.json/pod-selinux-policy-mountoption": "v1.37 knows MountOption too",
		"pod-volumes.json/projected-ctb-both":              "v1.37 serves trust bundles, v1.36 dropped them",
		"service.json/nodeport-fixed":                      "the mask hides a port that the request named",
	}
}

// admittedByPlugins are cases that upstream's admission decides, not the rules of a kind.
var admittedByPlugins = regexp.MustCompile(
	`no PriorityClass|PreemptionPolicy|RuntimeClass|service account|pod-security.kubernetes.io|resourceVersion ` +
		`should ` +
		`not|does not match the namespace|cannot be handled|exceeded|not served`)

// TestValidationRecordings compares causes, by field and message, with what upstream answered to
// the same objects.
func TestValidationRecordings(t *testing.T) {
	dir := recordings(t)
	all := rows(t)
	files, _ := filepath.Glob(filepath.Join(dir, "validation", "*.json"))
	same, total := 0, 0
	for _, file := range files {
		for _, c := range load(t, file) {
			k, ok := all[c.Kind]
			if !ok || c.Request.Method != "POST" || len(c.Request.Body) == 0 {
				continue
			}
			if admittedByPlugins.Match(c.Response.Body) {
				continue
			}
			if elsewhere()[filepath.Base(file)+"/"+c.Name] != "" {
				continue
			}
			total++
			t.Run(filepath.Base(file)+"/"+c.Name, func(t *testing.T) {
				if got, want := respond(k, c), wanted(c); got != want {
					t.Errorf("%s\n got %s\nwant %s", c.Request.Body, got, want)
				} else {
					same++
				}
			})
		}
	}
	t.Logf("%d of %d equal", same, total)
}

func respond(k resourcedef.Kind, c recorded) string {
	obj := k.Types.New()
	if err := json.Unmarshal(c.Request.Body, obj); err != nil {
		return "400"
	}
	errs, warn, err := create(k, obj)
	if err != nil {
		var refused errors.APIStatus
		if !stderrors.As(err, &refused) || refused.Status().Details == nil {
			return "error " + err.Error()
		}
		var causes []string
		for _, c := range refused.Status().Details.Causes {
			causes = append(causes, c.Field+"|"+c.Message)
		}
		return strings.Join(causes, "\n     ")
	}
	var causes []string
	for _, e := range errs {
		causes = append(causes, e.Field+"|"+e.ErrorBody())
	}
	sort.Strings(causes)
	return strings.Join(causes, "\n     ") + warnings(warn)
}

func warnings(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return "\nW " + strings.Join(list, "\nW ")
}

func wanted(c recorded) string {
	var status struct {
		Message string
		Details struct {
			Causes []struct{ Field, Message string }
		}
	}
	var warn []string
	add := func(s string) {
		s = strings.TrimPrefix(s, "299 - ")
		var text string
		if json.Unmarshal([]byte(s), &text) == nil && !strings.HasPrefix(text, "unknown field") && !strings.HasPrefix(
			text, "v1 Endpoints is deprecated") {
			warn = append(warn, text)
		}
	}
	switch w := c.Response.Headers["Warning"].(type) {
	case string:
		add(w)
	case []any:
		for _, x := range w {
			add(x.(string))
		}
	}
	if c.Response.Code < 300 {
		return warnings(warn)
	}
	_ = json.Unmarshal(c.Response.Body, &status)
	var causes []string
	for _, x := range status.Details.Causes {
		causes = append(causes, x.Field+"|"+strings.ReplaceAll(x.Message, "<random>", "abcde"))
	}
	sort.Strings(causes)
	return strings.Join(causes, "\n     ") + warnings(warn)
}

// TestDefaultingRecordings compares what a created object looks like with what upstream returned
// for the same request, leaving out what admission and the store add.
//
// row: API-05
// row: API-36
// row: API-37
func TestDefaultingRecordings(t *testing.T) {
	dir := recordings(t)
	all := rows(t)
	files, _ := filepath.Glob(filepath.Join(dir, "defaulting", "*.json"))
	for _, file := range files {
		for _, c := range load(t, file) {
			k, ok := all[c.Kind]
			if !ok || c.Request.Method != "POST" || c.Response.Code != 201 ||
				elsewhere()[filepath.Base(file)+"/"+c.Name] != "" {
				continue
			}
			t.Run(filepath.Base(file)+"/"+c.Name, func(t *testing.T) {
				obj := k.Types.New()
				if err := json.Unmarshal(c.Request.Body, obj); err != nil {
					t.Fatal(err)
				}
				errs, warn, err := create(k, obj)
				if err != nil || len(errs) > 0 {
					t.Fatalf("got %v, %v, want no error and no errs", errs, err)
				}
				if got, want := warnings(warn), wanted(c); got != want {
					t.Errorf("warnings: got %s, want %s", got, want)
				}
				raw, _ := json.Marshal(obj)
				if d := cmp.Diff(decodeMasked(t, c.Response.Body), decodeMasked(t, raw)); d != "" {
					t.Errorf("%s\n(-upstream +here)\n%s", c.Request.Body, d)
				}
			})
		}
	}
}

var masked = regexp.MustCompile(
	`"10\.96\.\d+\.\d+"|"nodePort":3\d{4}|"healthCheckNodePort":3\d{4}|"\d{4}-\d\d-\d\dT[0-9:.]+Z"`)

// decodeMasked is a JSON value without what differs from run to run or comes from admission.
func decodeMasked(t *testing.T, raw []byte) map[string]any {
	raw = masked.ReplaceAllFunc(raw, func(b []byte) []byte {
		switch s := string(b); {
		case strings.HasPrefix(s, `"nodePort`):
			return []byte(`"nodePort":"<nodePort>"`)
		case strings.HasPrefix(s, `"health`):
			return []byte(`"healthCheckNodePort":"<nodePort>"`)
		case strings.HasPrefix(s, `"10`):
			return []byte(`"<clusterIP>"`)
		}
		return []byte(`"<time>"`)
	})
	raw = []byte(strings.ReplaceAll(string(raw), "abcde", "<random>"))
	var m map[string]any
	if err := json.Unmarshal(raw, &m); err != nil {
		t.Fatal(err)
	}
	for _, k := range []string{"apiVersion", "kind"} {
		delete(m, k)
	}
	if meta, ok := m["metadata"].(map[string]any); ok {
		for _, k := range []string{"uid", "resourceVersion", "creationTimestamp", "managedFields", "namespace",
			"finalizers", "generation"} {
			delete(meta, k)
		}
	}
	spec, ok := m["spec"].(map[string]any)
	if !ok {
		return m
	}
	for _, k := range []string{"tolerations", "priority", "preemptionPolicy", "priorityClassName", "serviceAccount",
		"serviceAccountName", "imagePullSecrets", "taints", "overhead", "storageClassName"} {
		delete(spec, k)
	}
	if len(spec) == 0 {
		delete(m, "spec")
	}
	drop := func(owner map[string]any, key string) {
		list, _ := owner[key].([]any)
		var kept []any
		for _, x := range list {
			if s, _ := json.Marshal(x); !strings.Contains(string(s), "kube-api-access") {
				kept = append(kept, x)
			}
		}
		if owner[key] = kept; len(kept) == 0 {
			delete(owner, key)
		}
	}
	drop(spec, "volumes")
	for _, key := range []string{"containers", "initContainers"} {
		list, _ := spec[key].([]any)
		for _, x := range list {
			drop(x.(map[string]any), "volumeMounts")
		}
	}
	return m
}
