package registry

import (
	"context"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"

	"github.com/gantry-project/gantry/internal/apiserver/registry/resourcedef"
)

// A status endpoint writes by the rules that its main store has at the time of the write, whenever
// they were set; only the strategy of updates and what holds the spec's resources are its own.
func TestTheStatusEndpointHasEveryRuleOfItsMainStore(t *testing.T) {
	main := &Store{Store: &genericregistry.Store{
		BeginUpdate: func(context.Context, runtime.Object, runtime.Object,
			*metav1.UpdateOptions) (genericregistry.FinishFunc, error) {
			return nil, nil
		},
	}}
	s := newStatusREST(&resourcedef.Kind{}, main)
	main.ShouldDeleteDuringUpdate = func(context.Context, string, runtime.Object, runtime.Object) bool { return false }
	main.ReturnDeletedObject, main.DeleteCollectionWorkers = true, 7
	got := differingFields(main.Store, s.writer(s.strategy()))
	if want := []string{"UpdateStrategy", "BeginUpdate"}; !slices.Equal(got, want) {
		t.Errorf("the stores differ in %v, want %v", got, want)
	}
}
