package kinds

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/gantry-project/gantry/internal/apiserver"
	"github.com/gantry-project/gantry/internal/apiserver/registry/resourcedef"
)

var rewrite = flag.Bool("rewrite", false, "rewrite testdata")

// definition prints what a kind is called, shows, ignores and allows.
func definition(k *resourcedef.Kind) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s/%s %s %s %s short %q categories %q\n", k.Group, k.Version, k.Resource, k.Singular, k.Kind,
		k.Names.Short, k.Names.Categories)
	t, r := &k.Types, &k.Rules
	fmt.Fprintf(&b, "%T %T", t.New(), t.NewList())
	for _, is := range []struct {
		name string
		set  bool
	}{{"namespaced", t.Namespaced}, {"status", t.HasStatus}, {"no generation", t.NoGenerate},
		{"keeps status", t.KeepStatus}, {"PUT creates", r.AllowCreateOnUpdate},
		{"PUT without resourceVersion", r.AllowUnconditionalUpdate}} {
		if is.set {
			b.WriteString(", " + is.name)
		}
	}
	fmt.Fprintf(&b, "\nreset %q, of status %q, hub %v, expires %d, index %q\n", t.ResetFields, t.StatusResetFields,
		t.Internal, t.EventTTL, r.IndexedField)
	if r.Fields != nil {
		fmt.Fprintf(&b, "fields %v\n", r.Fields(t.New()))
	}
	for _, c := range k.Table.Columns {
		fmt.Fprintf(&b, "column %s %s %s %d %s\n", c.Name, c.Type, c.Format, c.Priority,
			strings.ReplaceAll(c.Description, "\n", " "))
	}
	return b.String()
}

// TestDefinitions: a kind's names, columns and permissions change with the transcript alone.
func TestDefinitions(t *testing.T) {
	var r *Registry
	all, err := apiserver.StandaloneKinds(func(group, resource string) rest.StandardStorage {
		return r.set.Lookup(group, resource)
	})
	if err != nil {
		t.Fatal(err)
	}
	if r, err = NewRegistry(time.Now()); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for i := range all {
		b.WriteString(definition(&all[i]))
	}
	for _, gv := range r.set.Versions() {
		fmt.Fprintf(&b, "# %s: %s\n", gv, strings.Join(slices.Sorted(maps.Keys(r.set.Storages(gv))), " "))
	}
	const golden = "testdata/definitions.txt"
	if *rewrite {
		if err := os.WriteFile(golden, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), b.String()); diff != "" {
		t.Errorf("make stories rewrites %s:\n%s", golden, diff)
	}
}

// protocol reads recorded answers of upstream.
func protocol(t *testing.T, name string, body func(path string, raw json.RawMessage)) {
	t.Helper()
	raw, err := os.ReadFile("../../recordings/api/protocol/" + name + ".json")
	if err != nil {
		t.Fatal(err)
	}
	var all struct {
		Cases []struct {
			Request  struct{ Path string }
			Response struct{ Body json.RawMessage }
		}
	}
	if err := json.Unmarshal(raw, &all); err != nil {
		t.Fatal(err)
	}
	for _, c := range all.Cases {
		body(c.Request.Path, c.Response.Body)
	}
}

// TestNamesAsUpstream: discovery's names of all kinds that upstream lists and that are served here.
func TestNamesAsUpstream(t *testing.T) {
	r, err := NewRegistry(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	compared := 0
	protocol(t, "discovery", func(_ string, raw json.RawMessage) {
		var list metav1.APIResourceList
		if json.Unmarshal(raw, &list) != nil || list.Kind != "APIResourceList" {
			return
		}
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range list.APIResources {
			s := r.set.Storages(gv)[want.Name]
			if s == nil || strings.Contains(want.Name, "/") {
				continue
			}
			compared++
			got := metav1.APIResource{Name: want.Name, Namespaced: s.(rest.Scoper).NamespaceScoped(),
				SingularName: s.(rest.SingularNameProvider).GetSingularName()}
			if p, ok := s.(rest.ShortNamesProvider); ok {
				got.ShortNames = p.ShortNames()
			}
			if p, ok := s.(rest.CategoriesProvider); ok {
				got.Categories = p.Categories()
			}
			gvks, _, err := r.scheme.ObjectKinds(s.New())
			if err != nil {
				t.Fatal(err)
			}
			got.Kind = gvks[0].Kind
			want.Verbs, want.StorageVersionHash = nil, ""
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s %s differs from upstream's (-want +got):\n%s", gv, want.Name, diff)
			}
		}
	})
	if compared < 40 {
		t.Errorf("compared %d kinds, want 40 or more", compared)
	}
}

// TestColumnsAsUpstream: names, types, priorities and descriptions of tables' columns.
func TestColumnsAsUpstream(t *testing.T) {
	r, err := NewRegistry(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	compared := 0
	protocol(t, "tables", func(path string, raw json.RawMessage) {
		var want metav1.Table
		if json.Unmarshal(raw, &want) != nil || want.Kind != "Table" {
			return
		}
		path, _, _ = strings.Cut(path, "?")
		p := r.parse(&Request{List: path, What: "list"})
		if p.storage == nil {
			return
		}
		compared++
		got, err := p.storage.(rest.TableConvertor).ConvertToTable(p.ctx, p.storage.(rest.Lister).NewList(), nil)
		if err != nil {
			t.Fatal(err)
		}
		for i := range want.ColumnDefinitions { // v1.37 spells it as the field
			c := &want.ColumnDefinitions[i]
			c.Description = strings.Replace(c.Description, "RoleRef can only", "roleRef can only", 1)
		}
		if diff := cmp.Diff(want.ColumnDefinitions, got.ColumnDefinitions); diff != "" {
			t.Errorf("%s: the columns differ from upstream's (-want +got):\n%s", path, diff)
		}
	})
	if compared < 30 {
		t.Errorf("compared %d tables, want 30 or more", compared)
	}
}
