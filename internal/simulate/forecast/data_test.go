package forecast_test

import (
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gantry-project/gantry/internal/simulate/capacity"
	"github.com/gantry-project/gantry/internal/simulate/forecast"
)

// keysOf are the JSON keys of a struct, those of embedded ones included.
func keysOf(of reflect.Type) []string {
	var out []string
	for i := range of.NumField() {
		f := of.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "-" || !f.IsExported() {
			continue
		}
		if name == "" {
			name = "a field without a key: " + f.Name
		}
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

var quoted = regexp.MustCompile("`([^`]+)`")

// The keys of the data are those that docs/user/simulate.md lists, object by object: who renames or
// adds one writes it there.
func TestKeysOfTheDataAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../../../docs/user/simulate.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(page), "\n## The answer as data\n")
	if !found {
		t.Fatal("docs/user/simulate.md has no section \"The answer as data\", want one")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	documented := map[string][]string{}
	for line := range strings.Lines(section) {
		cells := strings.Split(line, "|")
		if len(cells) < 4 || !strings.Contains(cells[2], "`") {
			continue
		}
		var keys []string
		for _, m := range quoted.FindAllStringSubmatch(cells[2], -1) {
			keys = append(keys, m[1])
		}
		slices.Sort(keys)
		documented[strings.Trim(strings.TrimSpace(cells[1]), "`")] = keys
	}
	want := map[string]reflect.Type{"forecast": reflect.TypeFor[forecast.Forecast](),
		"outcome": reflect.TypeFor[forecast.Outcome](), "pods[]": reflect.TypeFor[forecast.Pod](),
		"capacity[]": reflect.TypeFor[forecast.Capacity](), "blocked[]": reflect.TypeFor[forecast.Blocked](),
		"pending[]": reflect.TypeFor[forecast.Pending](), "loads[]": reflect.TypeFor[forecast.Load](),
		"scored": reflect.TypeFor[forecast.Score](), "scored.loads[]": reflect.TypeFor[forecast.LoadScore](),
		"capacity": reflect.TypeFor[capacity.Answer](), "shapes[]": reflect.TypeFor[capacity.Shape](),
		"runsOut[]": reflect.TypeFor[capacity.Cause]()}
	for object, of := range want {
		if keys := keysOf(of); !slices.Equal(documented[object], keys) {
			t.Errorf("%s: got keys %v, want those of the page %v", object, keys, documented[object])
		}
	}
	for object := range documented {
		if want[object] == nil {
			t.Errorf("the page lists %s: got no such object, want one", object)
		}
	}
}
