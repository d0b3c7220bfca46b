package apiserver

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/util/intstr"
	restclient "k8s.io/client-go/rest"
	"sigs.k8s.io/randfill"
	"sigs.k8s.io/yaml"

	"github.com/gantry-project/gantry/internal/apiserver/registry/autoscaling"
	"github.com/gantry-project/gantry/internal/apiserver/registry/resourcedef"
	"github.com/gantry-project/gantry/internal/apiserver/scheme"
)

// target is one stored object that requests aim at.
type target struct {
	item, list string // paths
	kind       string // apiVersion/kind
	raw        []byte
}

// fuzzSession is what the fuzz test shoots at; requests are dry runs, so it stays as it is.
type fuzzSession struct {
	once    sync.Once
	url     string
	client  *http.Client
	scheme  *scheme.Scheme
	targets []target
}

// skippedResources are served kinds that no stored object stands for: reviews and what the
// machinery alone writes.
var skippedResources = []string{
	"authentication.k8s.io/v1/SelfSubjectReview", "authentication.k8s.io/v1/TokenReview",
	"authorization.k8s.io/v1/LocalSubjectAccessReview",
	"authorization.k8s.io/v1/SelfSubjectAccessReview", "authorization.k8s.io/v1/SelfSubjectRulesReview",
	"authorization.k8s.io/v1/SubjectAccessReview",
	"v1/Binding", "v1/Event", "networking.k8s.io/v1/IPAddress", "journal.gantry.dev/v1alpha1/PodJournal",
}

var sharedFuzzSession fuzzSession

func (s *fuzzSession) prepare(t *testing.T) {
	s.once.Do(func() {
		server, c := shared(t)
		cfg := server.InProcess(admin())
		client, err := restclient.HTTPClientFor(cfg)
		if err != nil {
			t.Fatal(err)
		}
		s.url, s.client = cfg.Host, client
		if !strings.Contains(s.url, "://") {
			s.url = "http://" + s.url
		}
		if other := os.Getenv("GANTRY_OTHER_SERVER"); other != "" {
			s.url, s.client = other, otherClient(t)
		}
		const ns = "fuzz"
		s.send(http.MethodPost, "/api/v1/namespaces", "application/json", []byte(`{"metadata":{"name":"fuzz"}}`))
		known := resources(t, c)
		for _, line := range someObjects() {
			obj := &unstructured.Unstructured{}
			if err := yaml.Unmarshal([]byte(strings.NewReplacer("NS", ns, "x-kinds", "x-fuzz").Replace(line)),
				&obj.Object); err != nil {
				t.Fatal(line, err)
			}
			r := known[obj.GroupVersionKind()]
			list := "/apis/" + r.Group + "/" + r.Version
			if r.Group == "" {
				list = "/api/" + r.Version
			}
			if r.Namespaced {
				list += "/namespaces/" + ns
			}
			list += "/" + r.Name
			raw, _ := json.Marshal(obj.Object)
			code, body := s.send(http.MethodPost, list, "application/json", raw)
			if code != http.StatusCreated && code != http.StatusConflict {
				t.Fatalf("%s: got %d %s, want 201 or 409", list, code, body)
			}
			s.targets = append(s.targets,
				target{list + "/" + obj.GetName(), list, obj.GetAPIVersion() + "/" + obj.GetKind(), raw})
			delete(known, obj.GroupVersionKind())
		}
		_, s.scheme = rows(t)
		for gvk, r := range known {
			if name := gvk.GroupVersion().String() + "/" + gvk.Kind; slices.Contains(r.Verbs, "create") &&
				!slices.Contains(skippedResources, name) {
				t.Errorf("%s is served and has no object in the table `some`", name)
			}
		}
	})
}

// otherClient is a client of the kube-apiserver at GANTRY_OTHER_SERVER with GANTRY_OTHER_TOKEN, so
// that a table of expected answers can be held against upstream itself. Its certificate is not
// verified.
func otherClient(t *testing.T) *http.Client {
	t.Helper()
	c, err := restclient.HTTPClientFor(&restclient.Config{BearerToken: os.Getenv("GANTRY_OTHER_TOKEN"),
		TLSClientConfig: restclient.TLSClientConfig{Insecure: true}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (s *fuzzSession) send(method, path, contentType string, body []byte) (int, string) {
	req, err := http.NewRequest(method, s.url+path, bytes.NewReader(body))
	if err != nil {
		return http.StatusBadRequest, err.Error()
	}
	req.Header.Set("Content-Type", contentType)
	res, err := s.client.Do(req)
	if err != nil {
		return http.StatusInternalServerError, err.Error()
	}
	defer res.Body.Close()
	text, _ := io.ReadAll(res.Body)
	return res.StatusCode, string(text)
}

// FuzzWrites sends mutated objects of every kind as creates, updates and patches of each sort:
// whatever comes, the server answers with something else than its own fault. `make test` tries a
// few hundred; `go test -fuzz FuzzWrites ./internal/apiserver` goes on.
func FuzzWrites(f *testing.F) {
	for seed := range uint64(600) {
		f.Add(seed)
	}
	f.Add(uint64(738)) // a strategic patch with a list where a merge key belongs
	f.Fuzz(func(t *testing.T, seed uint64) {
		sharedFuzzSession.prepare(t)
		g := &requestMutator{rand.New(rand.NewPCG(seed, 1))}
		x := sharedFuzzSession.targets[g.IntN(len(sharedFuzzSession.targets))]
		var obj any
		if err := json.Unmarshal(x.raw, &obj); err != nil {
			t.Fatal(err)
		}
		for range 1 + g.IntN(4) {
			obj = g.mutate(obj)
		}
		method, path, contentType := http.MethodPatch, x.item, "application/merge-patch+json"
		switch g.IntN(8) {
		case 0, 1:
			method, path, contentType = http.MethodPost, x.list, runtime.ContentTypeJSON
		case 2, 3:
			method, contentType = http.MethodPut, runtime.ContentTypeJSON
		case 4:
			contentType = "application/strategic-merge-patch+json"
		case 5:
			contentType, path = "application/apply-patch+yaml", path+"?fieldManager=fuzz&force=true"
		case 6:
			contentType, path = "application/apply-patch+cbor", path+"?fieldManager=fuzz&force=true"
		}
		if method != http.MethodPatch {
			contentType = []string{runtime.ContentTypeJSON, runtime.ContentTypeYAML, runtime.ContentTypeProtobuf,
				runtime.ContentTypeCBOR}[g.IntN(4)]
		}
		body, contentType := sharedFuzzSession.encode(t, obj, contentType)
		if strings.HasSuffix(contentType, "cbor") || contentType == runtime.ContentTypeProtobuf {
			g.damage(body)
		}
		if strings.HasSuffix(x.kind, "/Pod") && g.IntN(3) == 0 || g.IntN(12) == 0 {
			path = strings.Replace(path, x.item, x.item+"/"+[]string{"status", "scale", "resize", "ephemeralcontainers",
				"binding", "eviction", "finalize", "approval"}[g.IntN(8)], 1)
		}
		if strings.Contains(path, "?") {
			path += "&dryRun=All"
		} else {
			path += "?dryRun=All"
		}
		code, text := sharedFuzzSession.send(method, path, contentType, body)
		if strings.HasPrefix(contentType, "application/apply-patch") &&
			(strings.Contains(text, "failed to create typed patch object") || strings.Contains(text,
				"failed to convert new object")) {
			return // the library answers 500 to a configuration that does not fit the schema, upstream too
		}
		if code >= http.StatusInternalServerError {
			t.Errorf("seed %d: %s %s %s\n%s\n%d %s", seed, method, path, contentType, body, code, text)
		}
	})
}

// encode writes an object in a form; what the form cannot carry goes as JSON, and the type says so.
func (s *fuzzSession) encode(t *testing.T, obj any, contentType string) (body []byte, as string) {
	t.Helper()
	text, err := json.Marshal(obj)
	if err != nil {
		t.Fatal(err)
	}
	switch contentType {
	case runtime.ContentTypeYAML:
		if body, err = yaml.JSONToYAML(text); err == nil {
			return body, contentType
		}
	case runtime.ContentTypeCBOR, "application/apply-patch+cbor":
		if body, err = direct.Marshal(obj); err == nil {
			return body, contentType
		}
	case runtime.ContentTypeProtobuf:
		var out bytes.Buffer
		typed, gvk, err := s.scheme.Codecs.UniversalDeserializer().Decode(text, nil, nil)
		if err == nil {
			err = s.scheme.Codecs.EncoderForVersion(protobuf.NewSerializer(s.scheme.Scheme, s.scheme.Scheme),
				gvk.GroupVersion()).Encode(typed, &out)
		}
		if err == nil {
			return out.Bytes(), contentType
		}
	default:
		return text, contentType
	}
	return text, runtime.ContentTypeJSON
}

// requestMutator makes unusual values.
type requestMutator struct{ *rand.Rand }

// hostileValue are values that fit few fields.
func (g *requestMutator) hostileValue() any {
	all := []any{
		nil, "", "a", "A_b", "-", ".", "/", "..", "a/b", "*", " ", "\x00", "é", strings.Repeat("x", 300), "::1",
		"10.0.0.0/99", "1Gi", "-1m", "1e400",
		"9223372036854775808", "100%", "-5%", "2026-13-01T00:00:00Z", "2026-01-01T00:00:00Z", "$(A)", "{{.}}", "CREATE",
		"Never", "Always",
		-1, 0, 1, 65536, int64(1) << 40, 1.5, true, false, []any{}, map[string]any{}, []any{nil}, []any{"", ""},
		map[string]any{"": nil}, map[string]any{"a": "b"},
		[]any{map[string]any{}}, []any{map[string]any{"name": "a"}, map[string]any{"name": "a"}},
	}
	return all[g.IntN(len(all))]
}

// damage changes a byte or a few of every other encoded body.
func (g *requestMutator) damage(body []byte) {
	for range g.IntN(2) * g.IntN(4) {
		if len(body) > 0 {
			body[g.IntN(len(body))] = byte(g.IntN(256))
		}
	}
}

// mutate changes one place of a value.
func (g *requestMutator) mutate(v any) any {
	switch x := v.(type) {
	case map[string]any:
		if len(x) == 0 || g.IntN(12) == 0 {
			x[[]string{"name", "spec", "status", "metadata", "finalizers", "ownerReferences", "template", "zz",
				"nodeName", "resources"}[g.IntN(10)]] = g.hostileValue()
			return x
		}
		keys := make([]string, 0, len(x))
		for k := range x {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		k := keys[g.IntN(len(keys))]
		switch {
		case g.IntN(10) == 0:
			delete(x, k)
		case k == "apiVersion" || k == "kind":
			return x
		default:
			x[k] = g.mutate(x[k])
		}
		return x
	case []any:
		switch {
		case len(x) == 0 || g.IntN(8) == 0:
			return append(x, g.hostileValue())
		case g.IntN(6) == 0:
			return append(x, x[g.IntN(len(x))])
		}
		i := g.IntN(len(x))
		x[i] = g.mutate(x[i])
		return x
	}
	return g.hostileValue()
}

// rows are the served kinds with their scheme, without a server.
func rows(t *testing.T) ([]resourcedef.Kind, *scheme.Scheme) {
	t.Helper()
	allocator, err := newAllocator(Config{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	kinds := Kinds(Config{}, nil, allocator, nil)
	s, err := scheme.New(kinds, autoscaling.AddV1)
	if err != nil {
		t.Fatal(err)
	}
	s.AddCBOR()
	return kinds, s
}

// filler makes random objects that JSON can carry.
func filler(seed uint64) *randfill.Filler {
	return randfill.NewWithSeed(int64(seed)).NilChance(.6).NumElements(1, 2).MaxDepth(12).Funcs(
		func(t *metav1.Time, c randfill.Continue) { *t = metav1.Unix(c.Int63n(1<<32), 0) },
		func(t *metav1.MicroTime, c randfill.Continue) {
			*t = metav1.NewMicroTime(metav1.Unix(c.Int63n(1<<32), 0).Time)
		},
		func(q *apiresource.Quantity, c randfill.Continue) {
			*q = *apiresource.NewQuantity(c.Int63n(1<<40), apiresource.DecimalSI)
		},
		func(i *intstr.IntOrString, c randfill.Continue) { *i = intstr.FromInt32(c.Int31()) },
		func(r *runtime.RawExtension, c randfill.Continue) { r.Raw = []byte(fmt.Sprintf(`{"a":%d}`, c.Int31())) },
		func(f *metav1.FieldsV1, _ randfill.Continue) { f.SetRawString(`{"f:a":{}}`) },
		func(m *metav1.TypeMeta, _ randfill.Continue) { *m = metav1.TypeMeta{} },
		func(s *string, c randfill.Continue) { *s = strings.ToValidUTF8(c.String(6), "") },
	)
}

// What was decoded once, defaults and all, stays what it is through each encoding.
//
// row: API-49
func TestEncodingsAreStable(t *testing.T) {
	kinds, s := rows(t)
	for i := range kinds {
		k := &kinds[i]
		gvk := schema.GroupVersionKind{Group: k.Group, Version: k.Version, Kind: k.Kind}
		t.Run(gvk.Group+"/"+gvk.Version+"."+gvk.Kind, func(t *testing.T) {
			for seed := range uint64(8) {
				obj := k.Types.New()
				if k.Types.Internal.Kind != "" {
					obj = reflect.New(s.Served.AllKnownTypes()[gvk]).Interface().(runtime.Object)
				}
				filler(seed + uint64(i)*100).Fill(obj)
				stable(t, s, gvk, obj)
			}
		})
	}
}

func stable(t *testing.T, s *scheme.Scheme, gvk schema.GroupVersionKind, obj runtime.Object) {
	t.Helper()
	obj.GetObjectKind().SetGroupVersionKind(gvk)
	raw, err := json.Marshal(obj)
	if err != nil {
		t.Fatal(err)
	}
	first, _, err := s.Codecs.UniversalDecoder(gvk.GroupVersion()).Decode(raw, nil, nil)
	if err != nil {
		t.Fatalf("got %s, want no error\n%v", raw, err)
	}
	for name, codec := range map[string]runtime.Serializer{
		"protobuf": protobuf.NewSerializer(s.Scheme, s.Scheme), "CBOR": cbor.NewSerializer(s.Scheme, s.Scheme),
		"JSON": s.Codecs.SupportedMediaTypes()[0].Serializer,
	} {
		out := bytes.Buffer{}
		if err := s.Codecs.EncoderForVersion(codec, gvk.GroupVersion()).Encode(first, &out); err != nil {
			t.Fatalf("%s: encode: %v, want no error", name, err)
		}
		again, _, err := s.Codecs.DecoderToVersion(codec, gvk.GroupVersion()).Decode(out.Bytes(), nil, nil)
		if err != nil {
			t.Fatalf("%s: decode: %v, want no error", name, err)
		}
		if !apiequality.Semantic.DeepEqual(first, again) {
			a, _ := json.Marshal(first)
			b, _ := json.Marshal(again)
			t.Fatalf("%s changed the object\n%s\n%s", name, a, b)
		}
	}
}
