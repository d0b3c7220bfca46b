package breaker

import (
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/gantry-project/gantry/internal/explain/gather"
	"github.com/gantry-project/gantry/testcluster"
)

// Another Kubernetes has nothing at Gantry's own paths, and all at upstream's.
func TestPathsOfGantryAlone(t *testing.T) {
	for path, want := range map[string]bool{
		"/apis": false,
		"/apis/journal.gantry.dev/v1alpha1/namespaces/a/podjournals/b": true,
		"/apis/journal.gantry.dev/v1alpha1":                            true,
		"/apis/apps/v1/namespaces/a/deployments/gantry.dev":            false,
		"/api/v1/nodes/n/proxy/drivercalls":                            true,
		"/api/v1/nodes/n/proxy/listening/a/b":                          true,
		"/api/v1/nodes/n/proxy/configz":                                false,
		"/api/v1/nodes/n/proxy":                                        false,
	} {
		if got := onlyGantry(path); got != want {
			t.Errorf("%s: got %t, want %t", path, got, want)
		}
	}
}

// A client of another Kubernetes sees the cluster without the journal, also in discovery.
func TestAForeignClientSeesNoJournal(t *testing.T) {
	t.Parallel()
	c := testcluster.Start(t, testcluster.WithNodes())
	foreign, err := foreignClient(c.Config)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := gather.ReadJournal(t.Context(), foreign, "default", "web"); !errors.Is(err, gather.ErrNoJournal) {
		t.Errorf("journal: got %v, want %v", err, gather.ErrNoJournal)
	}
	if _, err := gather.ReadJournal(t.Context(), c.Client, "default", "web"); err != nil {
		t.Errorf("journal of the cluster's own client: got %v, want none", err)
	}
	_, err = foreign.Discovery().ServerResourcesForGroupVersion("journal.gantry.dev/v1alpha1")
	if !apierrors.IsNotFound(err) {
		t.Errorf("discovery of the group: got %v, want not found", err)
	}
	groups, err := foreign.Discovery().ServerGroups()
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, g := range groups.Groups {
		names[g.Name] = true
	}
	if names["journal.gantry.dev"] || !names["apps"] {
		t.Errorf("groups: got %v, want apps and no journal", names)
	}
}
