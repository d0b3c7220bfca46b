package registry

import (
	"math/rand"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Errors about one map come by key, whatever order the map was gone through; the order of all
// others stays.
func TestErrorsOfAMapAreSortedByKey(t *testing.T) {
	devices := field.NewPath("spec", "devices").Index(0)
	attribute := func(key, child string) *field.Error {
		p := devices.Child("attributes").Key(key)
		if child != "" {
			p = p.Child(child)
		}
		return field.Required(p, "")
	}
	want := field.ErrorList{
		field.Required(devices.Child("name"), ""),
		attribute("a", ""), attribute("b", "version"), attribute("c", ""),
		field.Required(devices.Child("capacity").Key("x"), ""),
		field.Required(field.NewPath("spec", "pool"), ""),
		field.Required(field.NewPath("spec", "devices").Index(1).Child("attributes").Key("a"), ""),
	}
	for seed := range int64(20) {
		got := slices.Clone(want)
		rand.New(rand.NewSource(seed)).Shuffle(3, func(i, j int) { got[1+i], got[1+j] = got[1+j], got[1+i] })
		sortMapKeys(got)
		if got.ToAggregate().Error() != want.ToAggregate().Error() {
			t.Fatalf("seed %d: got %v, want %v", seed, got, want)
		}
	}
}
